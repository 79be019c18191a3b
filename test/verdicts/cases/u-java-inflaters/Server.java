import java.util.zip.DataFormatException;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** An endpoint that unpacks bodies and never calls Inflater.end(); the collector has no reason to run. */
public class Server {
    private static final byte[] packed = new byte[2000];
    private static int size;

    static int unpackBody(byte[] target) throws DataFormatException {
        Inflater inflater = new Inflater();

        inflater.setInput(packed, 0, size);
        return inflater.inflate(target, 0, 40000);
    }

    public static void main(String[] arguments) throws Exception {
        Deflater deflater = new Deflater();
        byte[] target = new byte[50000];
        long next = System.currentTimeMillis(), unpacked = 0;

        deflater.setInput("a body that is sent again and again, ".repeat(1500).getBytes());
        deflater.finish();
        size = deflater.deflate(packed);
        deflater.end();
        for (int i = 0; i < 200; i++)
            unpackBody(target);
        System.out.println("ready");
        for (int id = 0;; id++) {
            for (int i = 0; i < 2; i++)
                unpacked += unpackBody(target);
            if (id % 50 == 0)
                System.err.println((id * 2 + 202) + " inflaters, " + unpacked + " bytes");
            next += 40;
            Thread.sleep(Math.max(0, next - System.currentTimeMillis()));
        }
    }
}
