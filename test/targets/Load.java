import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Deflater;

/** A Java program that speaks as leak.cc does: direct buffers are kept, others come and go with zlib's. */
public class Load {
	static final int BLOCK_BYTES = 20000;
	static volatile boolean running, over;
	static long rounds;
	static final List<ByteBuffer> kept = new ArrayList<>();

	static void keepDirect(int count) {
		for (int i = 0; i < count; i++) {
			ByteBuffer buffer = ByteBuffer.allocateDirect(BLOCK_BYTES);
			buffer.putInt(0, kept.size());
			buffer.putInt(BLOCK_BYTES - 4, kept.size());
			kept.add(buffer);
		}
	}

	/** Each Deflater is a block of the C heap, and more of zlib's in it. */
	static int churnRound(byte[] input) {
		byte[] output = new byte[1000];
		Deflater deflater = new Deflater();
		deflater.setInput(input);
		deflater.finish();
		int bytes = deflater.deflate(output);
		deflater.end();
		return bytes;
	}

	static void churn() {
		byte[] input = "a text that is pressed ".repeat(40).getBytes();
		int bytes = churnRound(input);
		while (!over) {
			if (!running) {
				Thread.onSpinWait();
				try {
					Thread.sleep(1);
				} catch (InterruptedException e) {
					return;
				}
				continue;
			}
			if (churnRound(input) != bytes)
				broken("zlib made another text");
			rounds++;
		}
	}

	static void broken(String what) {
		System.err.println("broken: " + what);
		Runtime.getRuntime().halt(70);
	}

	public static void main(String[] args) throws Exception {
		Thread worker = new Thread(Load::churn, "churn");
		worker.start();
		System.out.println("ready " + ProcessHandle.current().pid());
		BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
		for (String line; (line = lines.readLine()) != null && !line.equals("quit");) {
			if (line.equals("go")) {
				running = true;
				System.out.println("going");
			} else if (line.equals("hold")) {
				running = false;
				System.out.println("held");
			} else if (line.startsWith("leak ")) {
				keepDirect(Integer.parseInt(line.substring(5)));
				System.out.println("leaked");
			} else if (line.equals("count")) {
				System.out.println("{\"kept\":" + kept.size() + ",\"block_bytes\":" + BLOCK_BYTES + ",\"rounds\":" + rounds
					+ "}");
			} else {
				broken("unknown command");
			}
		}
		over = true;
		worker.join();
		for (int i = 0; i < kept.size(); i++) {
			if (kept.get(i).getInt(0) != i || kept.get(i).getInt(BLOCK_BYTES - 4) != i)
				broken("a kept buffer changed");
		}
	}
}
