import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Channels with a direct buffer each. Closed channels keep theirs, since the list of all channels still has them. */
public final class Channels {
	private static final class Channel {
		private final ByteBuffer buffer = ByteBuffer.allocateDirect(32768);
		private boolean closed;

		void transfer(byte[] bytes) {
			buffer.clear();
			buffer.put(bytes);
		}
	}

	private final List<Channel> all = new ArrayList<>();

	private void serve(int number) {
		Channel channel = new Channel();
		all.add(channel);
		byte[] bytes = new byte[32768];
		bytes[number % bytes.length] = 1;
		channel.transfer(bytes);
		channel.closed = true;
	}

	public static void main(String[] args) throws Exception {
		Channels channels = new Channels();
		Runtime.getRuntime().addShutdownHook(new Thread(() -> System.err.println(
			channels.all.size() + " direct buffers of 32 KiB")));
		long start = System.nanoTime();
		for (int number = 0;; number++) {
			channels.serve(number);
			if (number == 100) {
				System.out.println("ready");
			}
			long wait = start + number * 20_000_000L - System.nanoTime();
			if (wait > 0) {
				Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
			}
		}
	}
}
