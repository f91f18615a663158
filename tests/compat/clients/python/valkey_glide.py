"""The scenario with GLIDE for Python, on asyncio."""

import asyncio

from glide import (Batch, ClientSideCache, GlideClient, GlideClientConfiguration, GlideError, NodeAddress, ProtocolVersion, RequestError)
from reporting import (CACHE, CACHED_READS, HOST, MESSAGES, PAIRS, PORT, PREFIX, PROTOCOL, SCRIPT, UNKNOWN_SHA, Trying, ask, say)


async def connected(protocol=PROTOCOL, **options):
    return await GlideClient.create(GlideClientConfiguration([NodeAddress(HOST, PORT)], request_timeout=10000,
                                                             protocol=ProtocolVersion.RESP3 if protocol == 3 else ProtocolVersion.RESP2, **options))


async def pipelines(client):
    batch = Batch(is_atomic=False)
    for number in range(PAIRS):
        batch.incr(PREFIX + "counter").set(f"{PREFIX}p{number}", f"v{number}").get(f"{PREFIX}p{number}")
    say("pipeline", await client.exec(batch, raise_on_error=True))
    _, error, after = await client.exec(Batch(is_atomic=False).get(PREFIX + "p0").lpush(PREFIX + "p0", ["x"]).get(PREFIX + "p1"), raise_on_error=False)
    say("pipeline_error", error)
    say("after_error", after)


async def transactions(client):
    batch = Batch(is_atomic=True).set(PREFIX + "transaction", "a").incr(PREFIX + "n").get(PREFIX + "transaction")
    say("transaction", await client.exec(batch, raise_on_error=True))
    await client.watch([PREFIX + "watched"])
    ask("watched")
    replies = await client.exec(Batch(is_atomic=True).set(PREFIX + "watched", "mine"), raise_on_error=True)
    say("conflict", "aborted" if replies is None else replies)


async def blocking(client):
    say("blpop_timeout", await client.blpop([PREFIX + "none"], 0.05))
    say("!blocking")
    say("blpop", (await client.blpop([PREFIX + "queue"], 60))[1])


async def publish_and_subscribe(client):
    modes = GlideClientConfiguration.PubSubChannelModes
    subscriptions = GlideClientConfiguration.PubSubSubscriptions({modes.Exact: {PREFIX + "channel"}}, callback=None, context=None)
    subscriber = await connected(protocol=3, pubsub_subscriptions=subscriptions)  # it subscribes in no other
    ask("subscribed")
    say("published", await client.publish("own", PREFIX + "channel"))
    say("received", [(await subscriber.get_pubsub_message()).message for _ in range(MESSAGES + 1)])
    await subscriber.close()


async def scripts(client):
    say("eval", await client.custom_command(["EVAL", SCRIPT, "1", PREFIX + "script", "x"]))
    sha = await client.custom_command(["SCRIPT", "LOAD", SCRIPT])
    say("evalsha", await client.custom_command(["EVALSHA", sha, "1", PREFIX + "script", "y"]))
    try:
        await client.custom_command(["EVALSHA", UNKNOWN_SHA, "0"])
    except RequestError as error:
        say("noscript", error)


async def large(client):
    value = await client.custom_command(["BLOB.TCP_GET", PREFIX + "placed"])
    await client.custom_command(["BLOB.TCP_SET", PREFIX + "copy", value])
    say("large", len(value))


async def client_side_cache():
    client = await connected(client_side_cache=ClientSideCache.create(1024, 0, server_assisted=True))
    await client.get(PREFIX + "cached")
    ask("cache_begin")
    for _ in range(CACHED_READS):
        await client.get(PREFIX + "cached")
    ask("cache_end")
    for _ in Trying():
        if await client.get(PREFIX + "cached") == b"new":
            break
        await asyncio.sleep(0)
    say("cached", await client.get(PREFIX + "cached"))
    await client.close()


async def tried(attempt):
    for _ in Trying():
        try:
            return await attempt()
        except GlideError:
            await asyncio.sleep(0)


async def reconnects(client):
    def number():
        return client.custom_command(["CLIENT", "ID"])

    ask("kill", await number())
    say("after_kill", await tried(lambda: client.get(PREFIX + "p1")))
    say("new_id", await tried(number))
    ask("restart")
    say("after_restart", await tried(lambda: client.get(PREFIX + "p1")))


async def main():
    client = await connected()
    for step in (pipelines, transactions, blocking, publish_and_subscribe, scripts, large):
        await step(client)
    if CACHE:
        await client_side_cache()
    await reconnects(client)
    await client.close()


asyncio.run(main())
