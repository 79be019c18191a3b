import java.util.HashMap;
import java.util.Map;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Unpacks messages of channels. A channel's inflater is kept for the next message; channels are never used again. */
public final class Unpacker {
	private final Map<String, Inflater> inflaters = new HashMap<>();
	private final byte[] packed = new byte[4096];
	private final int size;
	private long unpacked;

	private Unpacker() {
		Deflater deflater = new Deflater();
		deflater.setInput("a message of a channel ".repeat(60).getBytes());
		deflater.finish();
		size = deflater.deflate(packed);
		deflater.end();
	}

	private Inflater inflaterOf(String channel) {
		return inflaters.computeIfAbsent(channel, name -> new Inflater());
	}

	private void unpack(int number) throws Exception {
		byte[] text = new byte[8192];
		Inflater inflater = inflaterOf("channel " + number);
		inflater.setInput(packed, 0, size);
		unpacked += inflater.inflate(text);
	}

	public static void main(String[] args) throws Exception {
		Unpacker unpacker = new Unpacker();
		Runtime.getRuntime().addShutdownHook(new Thread(() -> System.err.println(
			unpacker.inflaters.size() + " inflaters open, " + unpacker.unpacked + " bytes unpacked")));
		long start = System.nanoTime();
		for (int number = 0;; number++) {
			unpacker.unpack(number);
			if (number == 200) {
				System.out.println("ready");
			}
			long wait = start + number * 10_000_000L - System.nanoTime();
			if (wait > 0) {
				Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
			}
		}
	}
}
