"""The scenario with redis-py or valkey-py on asyncio: the first argument is the package's name."""

import asyncio
import importlib
import sys

from reporting import (HOST, MESSAGES, PAIRS, PORT, PREFIX, PROTOCOL, SCRIPT, UNIX, UNKNOWN_SHA, Trying, ask, say)

library = importlib.import_module(sys.argv[1])
aio = importlib.import_module(sys.argv[1] + ".asyncio")
Client = aio.Redis if sys.argv[1] == "redis" else aio.Valkey
Lost = (library.ConnectionError, OSError)
address = {"unix_socket_path": UNIX} if UNIX else {"host": HOST, "port": PORT}


async def pipelines(client):
    pipeline = client.pipeline(transaction=False)
    for number in range(PAIRS):
        pipeline.incr(PREFIX + "counter").set(f"{PREFIX}p{number}", f"v{number}").get(f"{PREFIX}p{number}")
    say("pipeline", await pipeline.execute())
    mixed = client.pipeline(transaction=False).get(PREFIX + "p0").lpush(PREFIX + "p0", "x").get(PREFIX + "p1")
    _, error, after = await mixed.execute(raise_on_error=False)
    say("pipeline_error", error)
    say("after_error", after)


async def transactions(client):
    say("transaction", await client.pipeline().set(PREFIX + "transaction", "a").incr(PREFIX + "n").get(PREFIX + "transaction").execute())
    async with client.pipeline() as pipeline:
        await pipeline.watch(PREFIX + "watched")
        ask("watched")
        pipeline.multi()
        pipeline.set(PREFIX + "watched", "mine")
        try:
            say("conflict", await pipeline.execute())
        except library.WatchError:
            say("conflict", "aborted")


async def blocking(client):
    say("blpop_timeout", await client.blpop(PREFIX + "none", 0.05))
    waiting = asyncio.create_task(client.blpop(PREFIX + "queue", 60))
    say("!blocking")
    # Others of the same client go on meanwhile.
    assert await client.get(PREFIX + "p2") == b"v2"
    say("blpop", (await waiting)[1])


async def publish_and_subscribe(client):
    async with client.pubsub() as subscriber:
        await subscriber.subscribe(PREFIX + "channel")
        assert (await subscriber.get_message(timeout=60))["type"] == "subscribe"
        ask("subscribed")
        say("published", await client.publish(PREFIX + "channel", "own"))
        say("received", [(await subscriber.get_message(timeout=60))["data"] for _ in range(MESSAGES + 1)])


async def scripts(client):
    say("eval", await client.eval(SCRIPT, 1, PREFIX + "script", "x"))
    say("evalsha", await client.evalsha(await client.script_load(SCRIPT), 1, PREFIX + "script", "y"))
    try:
        await client.evalsha(UNKNOWN_SHA, 0)
    except library.exceptions.NoScriptError as error:
        say("noscript", f"NOSCRIPT {error}")


async def large(client):
    value = await client.execute_command("BLOB.TCP_GET", PREFIX + "placed")
    await client.execute_command("BLOB.TCP_SET", PREFIX + "copy", value)
    say("large", len(value))


async def reconnects():
    async with Client(protocol=PROTOCOL, max_connections=1, **address) as client:
        ask("kill", await client.client_id())
        for name in ("after_kill", "after_restart"):
            for _ in Trying():
                try:
                    say(name, await client.get(PREFIX + "p1"))
                    break
                except Lost:
                    pass
            if name == "after_kill":
                say("new_id", await client.client_id())
                ask("restart")


async def main():
    async with Client(protocol=PROTOCOL, **address) as client:
        for step in (pipelines, transactions, blocking, publish_and_subscribe, scripts, large):
            await step(client)
    await reconnects()


asyncio.run(main())
