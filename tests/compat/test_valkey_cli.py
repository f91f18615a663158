"""valkey-cli through the gateway, as people use it: commands in bulk from a pipe, key scans, a subscription, MULTI at its prompt."""

import pathlib
import subprocess

import pytest
from bring import bring
from running_stack import wait_until

WATCHDOG_SECONDS = 120
COMMANDS = 5000


@pytest.fixture
def cli(way):
    program = pathlib.Path(bring("valkey/build")) / "bin" / "valkey-cli"
    return [program, *way.benchmark()]


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=WATCHDOG_SECONDS, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.decode()


def test_valkey_cli_pipes_commands_and_finds_its_keys(cli, server, prefix):
    lines = "".join(f"SET {prefix}{number} {number}\r\nINCR {prefix}counter\r\n" for number in range(COMMANDS))
    said = run([*cli, "--pipe"], input=lines.encode())
    assert f"errors: 0, replies: {2 * COMMANDS}" in said
    assert int(server.get(prefix + "counter")) == COMMANDS
    found = run([*cli, "--scan", "--pattern", prefix + "*", "--count", 1000]).split()
    assert sorted(found) == sorted([f"{prefix}{number}" for number in range(COMMANDS)] + [prefix + "counter"])
    server.rpush(prefix + "list", *range(1000))
    biggest = [line for line in run([*cli, "--bigkeys"]).splitlines() if line.startswith("Biggest") and prefix + "list" in line]
    assert len(biggest) == 1 and biggest[0].endswith("has 1000 items"), biggest


@pytest.mark.parametrize("options", [[], ["-3"]], ids=["RESP2", "RESP3"])
def test_valkey_cli_reads_commands_line_by_line_and_keeps_a_transaction(cli, options, prefix):
    commands = f"MULTI\nSET {prefix}k v\nGET {prefix}k\nEXEC\nEVAL 'return ARGV[1]' 0 x\nBLPOP {prefix}none 0.01\nLPUSH {prefix}k x\nGET {prefix}k\n"
    said = run([*cli, *options, "--no-raw"], input=commands.encode()).split("\n")
    assert [line for line in said if line] == [
        "OK", "QUEUED", "QUEUED", "1) OK", '2) "v"', '"x"', "(nil)",
        "(error) WRONGTYPE Operation against a key holding the wrong kind of value", '"v"',
    ]


def test_valkey_cli_shows_what_is_published_as_it_comes(cli, server, prefix):
    with subprocess.Popen([str(word) for word in [*cli, "SUBSCRIBE", prefix + "channel"]], stdout=subprocess.PIPE, text=True) as program:
        try:
            wait_until(lambda: server.pubsub_numsub(prefix + "channel")[0][1] == 1, "the subscriber")
            assert server.publish(prefix + "channel", "one") == server.publish(prefix + "channel", "two") == 1
            seen = [program.stdout.readline().rstrip("\n") for _ in range(9)]
        finally:
            program.kill()
    assert seen == ["subscribe", prefix + "channel", "1", "message", prefix + "channel", "one", "message", prefix + "channel", "two"]
    wait_until(lambda: server.pubsub_numsub(prefix + "channel")[0][1] == 0, "the subscription to end with its client")
