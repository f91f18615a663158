"""The scenario with redis-py or valkey-py, synchronous: the first argument is the package's name."""

import importlib
import sys

from reporting import (HOST, MESSAGES, PAIRS, PORT, PREFIX, PROTOCOL, SCRIPT, UNIX, UNKNOWN_SHA, Trying, ask, say)

library = importlib.import_module(sys.argv[1])
Client = library.Redis if sys.argv[1] == "redis" else library.Valkey
Lost = (library.ConnectionError, OSError)
address = {"unix_socket_path": UNIX} if UNIX else {"host": HOST, "port": PORT}


def pipelines(client):
    pipeline = client.pipeline(transaction=False)
    for number in range(PAIRS):
        pipeline.incr(PREFIX + "counter").set(f"{PREFIX}p{number}", f"v{number}").get(f"{PREFIX}p{number}")
    say("pipeline", pipeline.execute())
    _, error, after = client.pipeline(transaction=False).get(PREFIX + "p0").lpush(PREFIX + "p0", "x").get(PREFIX + "p1").execute(raise_on_error=False)
    say("pipeline_error", error)
    say("after_error", after)


def transactions(client):
    say("transaction", client.pipeline().set(PREFIX + "transaction", "a").incr(PREFIX + "n").get(PREFIX + "transaction").execute())
    with client.pipeline() as pipeline:
        pipeline.watch(PREFIX + "watched")
        ask("watched")
        pipeline.multi()
        pipeline.set(PREFIX + "watched", "mine")
        try:
            say("conflict", pipeline.execute())
        except library.WatchError:
            say("conflict", "aborted")


def blocking(client):
    say("blpop_timeout", client.blpop(PREFIX + "none", 0.05))
    say("!blocking")
    say("blpop", client.blpop(PREFIX + "queue", 60)[1])


def publish_and_subscribe(client):
    with client.pubsub() as subscriber:
        subscriber.subscribe(PREFIX + "channel")
        assert subscriber.get_message(timeout=60)["type"] == "subscribe"
        ask("subscribed")
        say("published", client.publish(PREFIX + "channel", "own"))
        say("received", [subscriber.get_message(timeout=60)["data"] for _ in range(MESSAGES + 1)])


def scripts(client):
    say("eval", client.eval(SCRIPT, 1, PREFIX + "script", "x"))
    say("evalsha", client.evalsha(client.script_load(SCRIPT), 1, PREFIX + "script", "y"))
    try:
        client.evalsha(UNKNOWN_SHA, 0)
    except library.exceptions.NoScriptError as error:
        say("noscript", f"NOSCRIPT {error}")


def large(client):
    value = client.execute_command("BLOB.TCP_GET", PREFIX + "placed")
    client.execute_command("BLOB.TCP_SET", PREFIX + "copy", value)
    say("large", len(value))


def reconnects(client):
    ask("kill", client.client_id())
    for name in ("after_kill", "after_restart"):
        for _ in Trying():
            try:
                say(name, client.get(PREFIX + "p1"))
                break
            except Lost:
                pass
        if name == "after_kill":
            say("new_id", client.client_id())
            ask("restart")


with Client(protocol=PROTOCOL, **address) as client:
    for step in (pipelines, transactions, blocking, publish_and_subscribe, scripts, large):
        step(client)
    reconnects(client)
