"""One client of the soak, a process of its own so that it can be killed: does what JSON lines on stdin say and answers each with one on stdout.

    {"tag", "do": "set", "key", "value": [length, seed]}     -> {"tag", "outcome": "stored"}
    {"tag", "do": "get", "key", "values": [[length, seed]]}  -> {"tag", "outcome": "value", "length"} or {"tag", "outcome": "missing"}
    both                                                     -> {"tag", "outcome": "error" or "closed", "text"}

Behind every command comes a HELLO with an option that there is not, named after the tag, which keyferryd refuses without the server, so that a reply too few
or too many is seen at once. Whatever else comes ends the process with status 1.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from wire import ErrorReply, Pattern, Wire, WireError  # noqa: E402


def mark_end(wire, task):
    wire.send("HELLO", 2, f"tag{task['tag']}")


def store(wire, task):
    wire.send_value("BLOB.TCP_SET", task["key"], Pattern(*task["value"]))
    mark_end(wire, task)
    answer = wire.reply()
    if isinstance(answer, ErrorReply):
        return {"outcome": "error", "text": answer}
    if answer != b"OK":
        raise WireError(f"a SET was answered {answer!r}")
    return {"outcome": "stored"}


def fetch(wire, task):
    wire.send("BLOB.TCP_GET", task["key"])
    mark_end(wire, task)
    header = wire.line()
    if header[:1] == b"-":
        return {"outcome": "error", "text": header[1:].decode(errors="backslashreplace")}
    if header == b"$-1":
        return {"outcome": "missing"}
    wanted = {b"$%d" % length: Pattern(length, seed) for length, seed in task["values"]}.get(header)
    if wanted is None:
        raise WireError(f"a GET's reply begins with {header[:60]!r}, and {task['values']} are possible")
    wire.expect_body(wanted)
    return {"outcome": "value", "length": wanted.length}


def main():
    address, timeout = json.loads(sys.argv[1]), float(sys.argv[2])
    address = address if isinstance(address, str) else tuple(address)
    wire = None
    for line in sys.stdin:
        task = json.loads(line)
        try:
            wire = wire or Wire(address, timeout)
            answer = (store if task["do"] == "set" else fetch)(wire, task)
            behind = wire.reply()
            if behind != f"ERR Syntax error in HELLO option 'tag{task['tag']}'":
                raise WireError(f"behind the reply came {behind!r}, not the tag {task['tag']}")
        except (EOFError, ConnectionError) as error:
            wire = None
            answer = {"outcome": "closed", "text": str(error)}
        print(json.dumps({"tag": task["tag"], **answer}), flush=True)


main()
