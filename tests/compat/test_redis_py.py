"""redis-py through the gateway: RESP2 and RESP3, TCP and Unix socket."""

import concurrent.futures

import pytest
import redis
from client_ways import MIB, bytes_of, digest

SIZES = [MIB, 8 * MIB]


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def protocol(request):
    return request.param


@pytest.fixture
def client(stack, way, protocol):
    with stack.client(protocol, unix=way.unix) as client:
        yield client


def test_it_connects_and_speaks_the_protocol_it_asked_for(client, protocol, prefix):
    assert client.ping() is True
    client.hset(prefix + "hash", mapping={"a": "1", "b": "2"})
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command("HGETALL", prefix + "hash")
        expected = {b"a": b"1", b"b": b"2"} if protocol == 3 else [b"a", b"1", b"b", b"2"]
        assert connection.read_response() == expected
    finally:
        client.connection_pool.release(connection)


def test_a_pipeline_is_answered_in_order(client, prefix):
    count = 1000
    pipeline = client.pipeline(transaction=False)
    expected = []
    for number in range(count):
        key, value = f"{prefix}{number}", bytes_of(number % 97, number)
        pipeline.set(key, value).get(key).incr(prefix + "counter")
        expected += [True, value, number + 1]
    keys = [f"{prefix}{number}" for number in range(0, count, 10)] + [prefix + "nothing"]
    pipeline.mget(keys)
    expected.append([bytes_of(number % 97, number) for number in range(0, count, 10)] + [None])
    assert pipeline.execute() == expected


def test_an_error_in_a_pipeline_is_the_servers_own_and_stands_in_its_place(client, server, prefix):
    client.set(prefix + "string", "text")
    pipeline = client.pipeline(transaction=False)
    pipeline.get(prefix + "string").lpush(prefix + "string", "x").execute_command("NOSUCH", "a", "b").incr(prefix + "n")
    replies = pipeline.execute(raise_on_error=False)
    assert (replies[0], replies[3]) == (b"text", 1)
    for reply, command in [(replies[1], ("LPUSH", prefix + "string", "x")), (replies[2], ("NOSUCH", "a", "b"))]:
        with pytest.raises(redis.ResponseError) as direct:
            server.execute_command(*command)
        assert isinstance(reply, redis.ResponseError)
        assert str(direct.value) in str(reply)


@pytest.mark.parametrize("size", SIZES)
def test_a_large_value_comes_back_as_it_was_stored(client, server, prefix, size):
    value = bytes_of(size, size)
    assert client.execute_command("BLOB.TCP_SET", prefix + "large", value) == b"OK"
    through_gateway = client.execute_command("BLOB.TCP_GET", prefix + "large")
    past_gateway = server.execute_command("BLOB.TCP_GET", prefix + "large")
    assert digest(through_gateway) == digest(past_gateway) == digest(value)


@pytest.mark.parametrize("size", SIZES)
def test_a_large_value_stored_past_the_gateway_is_read_through_it(client, server, prefix, size):
    value = bytes_of(size, size + 1)
    server.execute_command("BLOB.TCP_SET", prefix + "large", value)
    assert digest(client.execute_command("BLOB.TCP_GET", prefix + "large")) == digest(value)


def test_a_large_get_of_no_key_or_another_type_is_answered_as_by_the_server(client, server, prefix):
    assert client.execute_command("BLOB.TCP_GET", prefix + "nothing") is None
    client.set(prefix + "string", "text")
    errors = []
    for each in (client, server):
        with pytest.raises(redis.ResponseError) as raised:
            each.execute_command("BLOB.TCP_GET", prefix + "string")
        errors.append(str(raised.value))
    assert errors[0] == errors[1]
    assert errors[0].startswith("WRONGTYPE")


def test_a_pipeline_of_small_and_large_values_is_answered_in_order(client, prefix):
    pipeline = client.pipeline(transaction=False)
    expected = []
    for number in range(4):
        small, large = bytes_of(100, number), bytes_of(MIB + number, number)
        pipeline.set(f"{prefix}s{number}", small)
        pipeline.execute_command("BLOB.TCP_SET", f"{prefix}l{number}", large)
        pipeline.get(f"{prefix}s{number}")
        pipeline.execute_command("BLOB.TCP_GET", f"{prefix}l{number}")
        pipeline.incr(prefix + "counter")
        expected += [True, b"OK", small, digest(large), number + 1]
    replies = pipeline.execute()
    assert [digest(each) if isinstance(each, bytes) and len(each) >= MIB else each for each in replies] == expected


def test_threads_that_share_a_client_get_their_own_values(client, prefix):
    def store_and_read(worker):
        for turn in range(5):
            value = bytes_of(MIB // 2 + 1000 * worker + turn, worker * 100 + turn)
            client.execute_command("BLOB.TCP_SET", f"{prefix}{worker}", value)
            client.set(f"{prefix}small{worker}", turn)
            assert digest(client.execute_command("BLOB.TCP_GET", f"{prefix}{worker}")) == digest(value)
            assert int(client.get(f"{prefix}small{worker}")) == turn
        return worker

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(store_and_read, range(8))) == list(range(8))
