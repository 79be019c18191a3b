import java.util.HashMap;
import java.util.Map;

/** Keeps every order in a static map. */
public final class Orders {
	private static final Map<Integer, Order> ORDERS = new HashMap<>();

	private record Order(int number, String customer, byte[] document) { }

	private static void place(int number) {
		byte[] document = new byte[4000];
		document[number % 4000] = 1;
		ORDERS.put(number, new Order(number, "customer " + number, document));
	}

	private static int report(int number) {
		StringBuilder text = new StringBuilder();
		for (int line = 0; line < 50; line++) {
			text.append("order ").append(number - line).append('\n');
		}
		return text.length();
	}

	public static void main(String[] args) throws Exception {
		Runtime.getRuntime().addShutdownHook(new Thread(() -> System.err.println(ORDERS.size() + " orders, "
			+ (Runtime.getRuntime().totalMemory() >> 20) + " MiB of heap")));
		long start = System.nanoTime();
		for (int number = 0;; number++) {
			place(number);
			report(number);
			if (number == 2000) {
				System.out.println("ready");
			}
			long wait = start + number * 1_000_000L - System.nanoTime();
			if (wait > 2_000_000) {
				Thread.sleep(wait / 1_000_000);
			}
		}
	}
}
