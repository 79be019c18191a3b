import java.util.concurrent.CountDownLatch;

/** A mail sender that starts a thread for each message; all wait for a server that never answers. */
public class Server {
    private static final CountDownLatch answered = new CountDownLatch(1);
    private static int threads;

    static int compose(int depth) {
        return depth == 0 ? 0 : 1 + compose(depth - 1);
    }

    static void send(int id) {
        Thread sender = new Thread(null, () -> {
            compose(3000);
            try {
                answered.await();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }, "sender-" + id, 1 << 20);

        sender.setDaemon(true);
        sender.start();
        threads++;
    }

    public static void main(String[] arguments) throws Exception {
        long next = System.currentTimeMillis();

        for (int id = 0; id < 100; id++)
            send(id);
        System.out.println("ready");
        for (int id = 100;; id++) {
            send(id);
            if (id % 20 == 0)
                System.err.println(threads + " threads");
            next += 100;
            Thread.sleep(Math.max(0, next - System.currentTimeMillis()));
        }
    }
}
