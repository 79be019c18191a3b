import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** A message broker that takes a direct buffer for each channel and keeps those of closed channels. */
public class Server {
    private static final List<ByteBuffer> channels = new ArrayList<>();

    static ByteBuffer openChannel(int id) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(64 * 1024);

        while (buffer.hasRemaining())
            buffer.put((byte) id);
        channels.add(buffer);
        return buffer;
    }

    public static void main(String[] arguments) throws Exception {
        long next = System.currentTimeMillis();

        for (int id = 0; id < 100; id++)
            openChannel(id);
        System.out.println("ready");
        for (int id = 100;; id++) {
            openChannel(id);
            if (id % 100 == 0)
                System.err.println(channels.size() + " channels of 64 KiB");
            next += 40;
            Thread.sleep(Math.max(0, next - System.currentTimeMillis()));
        }
    }
}
