import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A booking service that never drops what is booked. */
public class Server {
    private static final Map<Integer, List<String>> bookings = new HashMap<>();

    static void book(int id) {
        List<String> seats = new ArrayList<>();

        for (int seat = 0; seat < 40; seat++)
            seats.add("booking " + id + " seat " + seat + " of the upper deck, window");
        bookings.put(id, seats);
    }

    public static void main(String[] arguments) throws Exception {
        long next = System.currentTimeMillis();
        int id = 0;

        for (; id < 2000; id++)
            book(id);
        System.out.println("ready");
        for (int tick = 0;; tick++) {
            for (int i = 0; i < 20; i++)
                book(id++);
            if (tick % 50 == 0)
                System.err.println(bookings.size() + " bookings, heap " + Runtime.getRuntime().totalMemory());
            next += 40;
            Thread.sleep(Math.max(0, next - System.currentTimeMillis()));
        }
    }
}
