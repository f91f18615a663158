import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.builders.StandaloneClientBuilder;
import redis.clients.jedis.commands.ProtocolCommand;

/** With Jedis. */
final class JedisScenario {
    private JedisScenario() {}

    private static DefaultJedisClientConfig config() {
        DefaultJedisClientConfig.Builder builder = DefaultJedisClientConfig.builder().socketTimeoutMillis(100_000).blockingSocketTimeoutMillis(100_000);
        return (Reporting.RESP3 ? builder.resp3() : builder.resp2()).build();
    }

    private static StandaloneClientBuilder<RedisClient> builder() {
        return RedisClient.builder().hostAndPort(Reporting.HOST, Reporting.PORT).clientConfig(config());
    }

    static void run() throws Exception {
        try (RedisClient client = builder().build()) {
            pipelines(client);
            transactions(client);
            blocking(client);
            publishAndSubscribe(client);
            scripts(client);
            large(client);
        }
        reconnects();
    }

    private static void pipelines(RedisClient client) {
        try (Pipeline pipeline = client.pipelined()) {
            for (int number = 0; number < Reporting.PAIRS; ++number) {
                pipeline.incr(Reporting.key("counter"));
                pipeline.set(Reporting.key("p" + number), "v" + number);
                pipeline.get(Reporting.key("p" + number));
            }
            Reporting.say("pipeline", pipeline.syncAndReturnAll());
        }
        try (Pipeline pipeline = client.pipelined()) {
            pipeline.lpush(Reporting.key("p0"), "x");
            Response<String> after = pipeline.get(Reporting.key("p1"));
            List<Object> replies = pipeline.syncAndReturnAll();
            Reporting.say("pipeline_error", ((Exception) replies.get(0)).getMessage());
            Reporting.say("after_error", after.get());
        }
    }

    private static void transactions(RedisClient client) throws Exception {
        try (AbstractTransaction transaction = client.multi()) {
            transaction.set(Reporting.key("transaction"), "a");
            transaction.incr(Reporting.key("n"));
            transaction.get(Reporting.key("transaction"));
            Reporting.say("transaction", transaction.exec());
        }
        try (AbstractTransaction transaction = client.transaction(false)) {
            transaction.watch(Reporting.key("watched"));
            Reporting.ask("watched", "");
            transaction.multi();
            transaction.set(Reporting.key("watched"), "mine");
            Reporting.say("conflict", Reporting.aborted(transaction.exec()));
        }
    }

    private static void blocking(RedisClient client) {
        Reporting.say("blpop_timeout", client.blpop(0.05, Reporting.key("none")));
        Reporting.say("!blocking", "");
        Reporting.say("blpop", client.blpop(60.0, Reporting.key("queue")).getValue());
    }

    private static void publishAndSubscribe(RedisClient client) throws Exception {
        BlockingQueue<String> messages = new LinkedBlockingQueue<>();
        CountDownLatch subscribed = new CountDownLatch(1);
        JedisPubSub subscriber = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                messages.add(message);
            }

            @Override
            public void onSubscribe(String channel, int count) {
                subscribed.countDown();
            }
        };
        Thread thread = new Thread(() -> client.subscribe(subscriber, Reporting.key("channel")));
        thread.start();
        subscribed.await();
        Reporting.ask("subscribed", "");
        Reporting.say("published", client.publish(Reporting.key("channel"), "own"));
        List<String> received = new ArrayList<>();
        while (received.size() <= Reporting.MESSAGES) received.add(messages.poll(60, TimeUnit.SECONDS));
        Reporting.say("received", received);
        subscriber.unsubscribe();
        thread.join();
    }

    private static void scripts(RedisClient client) throws Exception {
        Reporting.say("eval", client.eval(Reporting.SCRIPT, 1, Reporting.key("script"), "x"));
        Reporting.say("evalsha", client.evalsha(client.scriptLoad(Reporting.SCRIPT), 1, Reporting.key("script"), "y"));
        Reporting.say("noscript", Reporting.errorOf(() -> client.evalsha(Reporting.UNKNOWN_SHA)));
    }

    private static void large(RedisClient client) {
        ProtocolCommand get = () -> "BLOB.TCP_GET".getBytes(StandardCharsets.US_ASCII);
        ProtocolCommand set = () -> "BLOB.TCP_SET".getBytes(StandardCharsets.US_ASCII);
        byte[] value = (byte[]) client.sendCommand(get, Reporting.key("placed").getBytes(StandardCharsets.US_ASCII));
        client.sendCommand(set, Reporting.key("copy").getBytes(StandardCharsets.US_ASCII), value);
        Reporting.say("large", value.length);
    }

    private static void reconnects() throws Exception {
        ConnectionPoolConfig one = new ConnectionPoolConfig();
        one.setMaxTotal(1);
        try (RedisClient client = builder().poolConfig(one).build()) {
            Reporting.ask("kill", client.sendCommand(Protocol.Command.CLIENT, "ID"));
            Reporting.say("after_kill", Reporting.trying(() -> client.get(Reporting.key("p1"))));
            Reporting.say("new_id", client.sendCommand(Protocol.Command.CLIENT, "ID"));
            Reporting.ask("restart", "");
            Reporting.say("after_restart", Reporting.trying(() -> client.get(Reporting.key("p1"))));
        }
    }
}
