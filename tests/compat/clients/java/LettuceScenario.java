import io.lettuce.core.ClientOptions;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.output.ValueOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.Delay;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** With Lettuce. */
final class LettuceScenario {
    private LettuceScenario() {}

    static void run() throws Exception {
        ClientResources resources = ClientResources.builder().ioThreadPoolSize(2).computationThreadPoolSize(2)
                .reconnectDelay(Delay.constant(Duration.ofMillis(20))).build();
        RedisURI uri = RedisURI.Builder.redis(Reporting.HOST, Reporting.PORT).withTimeout(Duration.ofSeconds(100)).build();
        RedisClient client = RedisClient.create(resources, uri);
        client.setOptions(ClientOptions.builder().protocolVersion(Reporting.RESP3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2).build());
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            pipelines(connection.async());
            transactions(connection.sync());
            blocking(connection.sync());
            BlockingQueue<String> messages = new LinkedBlockingQueue<>();
            try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub()) {
                publishAndSubscribe(connection.sync(), subscriber, messages);
                scripts(connection.sync());
                large(client);
                if (Reporting.CACHE) clientSideCache(client);
                reconnects(connection.sync(), messages);
            }
        }
    }

    private static void pipelines(RedisAsyncCommands<String, String> commands) throws Exception {
        List<RedisFuture<?>> futures = new ArrayList<>();
        commands.getStatefulConnection().setAutoFlushCommands(false);
        for (int number = 0; number < Reporting.PAIRS; ++number) {
            futures.add(commands.incr(Reporting.key("counter")));
            futures.add(commands.set(Reporting.key("p" + number), "v" + number));
            futures.add(commands.get(Reporting.key("p" + number)));
        }
        commands.getStatefulConnection().flushCommands();
        LettuceFutures.awaitAll(Duration.ofSeconds(100), futures.toArray(new RedisFuture<?>[0]));
        List<Object> replies = new ArrayList<>();
        for (RedisFuture<?> future : futures) replies.add(future.get());
        Reporting.say("pipeline", replies);
        RedisFuture<Long> wrong = commands.lpush(Reporting.key("p0"), "x");
        RedisFuture<String> after = commands.get(Reporting.key("p1"));
        commands.getStatefulConnection().flushCommands();
        commands.getStatefulConnection().setAutoFlushCommands(true);
        Reporting.say("pipeline_error", Reporting.errorOf(wrong::get));
        Reporting.say("after_error", after.get());
    }

    private static void transactions(RedisCommands<String, String> commands) throws Exception {
        commands.multi();
        commands.set(Reporting.key("transaction"), "a");
        commands.incr(Reporting.key("n"));
        commands.get(Reporting.key("transaction"));
        Reporting.say("transaction", commands.exec());
        commands.watch(Reporting.key("watched"));
        Reporting.ask("watched", "");
        commands.multi();
        commands.set(Reporting.key("watched"), "mine");
        TransactionResult result = commands.exec();
        Reporting.say("conflict", result.wasDiscarded() ? "aborted" : result);
    }

    private static void blocking(RedisCommands<String, String> commands) {
        Reporting.say("blpop_timeout", commands.blpop(0.05, Reporting.key("none")));
        Reporting.say("!blocking", "");
        Reporting.say("blpop", commands.blpop(60.0, Reporting.key("queue")).getValue());
    }

    private static void publishAndSubscribe(RedisCommands<String, String> commands, StatefulRedisPubSubConnection<String, String> subscriber,
            BlockingQueue<String> messages) throws Exception {
        subscriber.addListener(new RedisPubSubAdapter<String, String>() {
            @Override
            public void message(String channel, String message) {
                messages.add(message);
            }
        });
        subscriber.sync().subscribe(Reporting.key("channel"));
        Reporting.ask("subscribed", "");
        Reporting.say("published", commands.publish(Reporting.key("channel"), "own"));
        List<String> received = new ArrayList<>();
        while (received.size() <= Reporting.MESSAGES) received.add(messages.poll(60, TimeUnit.SECONDS));
        Reporting.say("received", received);
    }

    private static void scripts(RedisCommands<String, String> commands) throws Exception {
        String[] keys = {Reporting.key("script")};
        List<Object> seen = commands.eval(Reporting.SCRIPT, ScriptOutputType.MULTI, keys, "x");
        Reporting.say("eval", seen);
        seen = commands.evalsha(commands.scriptLoad(Reporting.SCRIPT), ScriptOutputType.MULTI, keys, "y");
        Reporting.say("evalsha", seen);
        Reporting.say("noscript", Reporting.errorOf(() -> commands.<Object>evalsha(Reporting.UNKNOWN_SHA, ScriptOutputType.MULTI)));
    }

    private record Word(String text) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return text.getBytes(StandardCharsets.US_ASCII);
        }

        @Override
        public String toString() {
            return text;
        }
    }

    private static void large(RedisClient client) {
        ByteArrayCodec codec = ByteArrayCodec.INSTANCE;
        try (StatefulRedisConnection<byte[], byte[]> connection = client.connect(codec)) {
            byte[] placed = Reporting.key("placed").getBytes(StandardCharsets.US_ASCII);
            byte[] copy = Reporting.key("copy").getBytes(StandardCharsets.US_ASCII);
            byte[] value = connection.sync().dispatch(new Word("BLOB.TCP_GET"), new ValueOutput<>(codec), new CommandArgs<>(codec).addKey(placed));
            connection.sync().dispatch(new Word("BLOB.TCP_SET"), new StatusOutput<>(codec), new CommandArgs<>(codec).addKey(copy).addValue(value));
            Reporting.say("large", value.length);
        }
    }

    private static void clientSideCache(RedisClient client) throws Exception {
        StatefulRedisConnection<String, String> connection = client.connect();
        try (CacheFrontend<String, String> cache = ClientSideCaching.enable(CacheAccessor.forMap(new ConcurrentHashMap<>()), connection,
                TrackingArgs.Builder.enabled())) {
            cache.get(Reporting.key("cached"));
            Reporting.ask("cache_begin", "");
            for (int read = 0; read < Reporting.CACHED_READS; ++read) cache.get(Reporting.key("cached"));
            Reporting.ask("cache_end", "");
            Reporting.say("cached", Reporting.trying(() -> "new".equals(cache.get(Reporting.key("cached"))) ? "new" : null));
        }
    }

    private static void reconnects(RedisCommands<String, String> commands, BlockingQueue<String> messages) throws Exception {
        Reporting.ask("kill", commands.clientId());
        Reporting.say("after_kill", Reporting.trying(() -> commands.get(Reporting.key("p1"))));
        Reporting.say("new_id", commands.clientId());
        Reporting.ask("restart", "");
        Reporting.say("after_restart", Reporting.trying(() -> commands.get(Reporting.key("p1"))));
        // The subscriber subscribes again by itself.
        Reporting.trying(() -> commands.publish(Reporting.key("channel"), "again") == 1 ? true : null);
        Reporting.say("resubscribed", messages.poll(60, TimeUnit.SECONDS));
    }
}
