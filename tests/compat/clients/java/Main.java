/** The scenario with the client that the first argument names. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "jedis" -> JedisScenario.run();
            case "lettuce" -> LettuceScenario.run();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        System.exit(0);  // what a client leaves running must not keep the program
    }
}
