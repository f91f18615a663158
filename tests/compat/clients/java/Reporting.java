import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;

/** How a Java program of the scenario gets its task and talks to scenario.py. */
final class Reporting {
    static final int PAIRS = 100;
    static final int MESSAGES = 50;
    static final int CACHED_READS = 50;
    static final String SCRIPT = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}";
    static final String UNKNOWN_SHA = "f".repeat(40);
    static final String HOST = System.getenv("KF_HOST");
    static final int PORT = Integer.parseInt(System.getenv("KF_PORT"));
    static final boolean RESP3 = "3".equals(System.getenv("KF_PROTOCOL"));
    static final boolean CACHE = "1".equals(System.getenv("KF_CACHE"));
    private static final long PATIENCE_MILLIS = 100_000;
    private static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Reporting() {}

    static String key(String name) {
        return System.getenv("KF_PREFIX") + name;
    }

    static String text(Object value) {
        if (value == null) return "nil";
        if (value instanceof byte[] bytes) return new String(bytes, StandardCharsets.UTF_8);
        if (value instanceof Iterable<?> values) {
            return java.util.stream.StreamSupport.stream(values.spliterator(), false).map(Reporting::text).collect(Collectors.joining(","));
        }
        return value.toString();
    }

    static synchronized void say(String name, Object value) {
        System.out.println(name + "\t" + text(value));
        System.out.flush();
    }

    static void ask(String name, Object value) throws IOException {
        say("?" + name, value);
        ANSWERS.readLine();
    }

    /** Again and again until attempt gives something and throws nothing, within bounds. */
    static <T> T trying(Callable<T> attempt) throws Exception {
        Exception last = null;
        long limit = System.currentTimeMillis() + PATIENCE_MILLIS;
        while (System.currentTimeMillis() < limit) {
            try {
                T seen = attempt.call();
                if (seen != null) return seen;
            } catch (Exception error) {
                last = error;
            }
            Thread.sleep(20);
        }
        throw new IllegalStateException("tried in vain", last);
    }

    static String errorOf(Callable<?> attempt) throws Exception {
        try {
            attempt.call();
        } catch (Exception error) {
            return error.getCause() != null && error.getMessage() == null ? error.getCause().getMessage() : error.getMessage();
        }
        throw new IllegalStateException("no error");
    }

    static String aborted(List<?> replies) {
        return replies == null || replies.isEmpty() ? "aborted" : text(replies);
    }
}
