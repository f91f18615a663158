"""TLS for local clients: a listener with a certificate of its own, beside plain ones."""

import contextlib
import shutil
import socket
import ssl

import certificates
import pytest
from running_stack import PATIENCE, wait_until
from ways import MIB
from wire import Pattern, request


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    certificates.make(folder)
    return folder


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def secured(make_stack, files):
    """Makes a stack with a TLS listener; gives the stack and the listener's port."""

    def make(**tls):
        port = free_port()
        return make_stack(config={"listen": [{"tcp": f"127.0.0.1:{port}", "tls": {"cert": str(files / "server.crt"), "key": str(files / "server.key"), **tls}}]}), port

    return make


@contextlib.contextmanager
def connected(files, port, session=None, context=None):
    context = context or ssl.create_default_context(cafile=files / "ca.crt")
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
        with context.wrap_socket(plain, server_hostname="localhost", session=session, suppress_ragged_eofs=False) as secure:
            yield secure


def ping(secure):
    secure.sendall(request("PING"))
    reply = b""
    while not reply.endswith(b"\r\n"):
        reply += secure.recv(100)
    return reply


def test_clients_speak_tls_to_a_listener_that_has_it(secured, files):
    stack, port = secured()
    client = stack.client(port=port, ssl=True, ssl_ca_certs=str(files / "ca.crt"))
    value = Pattern(9 * MIB + 1, seed=3).bytes()
    assert client.execute_command("BLOB.TCP_SET", "large", value) == b"OK"
    assert client.execute_command("BLOB.TCP_GET", "large") == value
    client.set("small", "1")
    with stack.wire() as plain:
        assert plain.call("GET", "small") == b"1"
    assert stack.metrics().total("bytes_total", side="client", direction="out", transport="tls") > len(value)


def test_R56_a_client_that_comes_back_resumes_its_session(secured, files):
    _, port = secured()
    context = ssl.create_default_context(cafile=files / "ca.crt")
    with connected(files, port, context=context) as first:
        assert ping(first) == b"+PONG\r\n"
        assert not first.session_reused
        session = first.session
    # Whichever worker takes it.
    for _ in range(3):
        with connected(files, port, session=session, context=context) as again:
            assert ping(again) == b"+PONG\r\n"
            assert again.session_reused


def test_the_gateway_says_farewell_before_it_closes(secured, files):
    _, port = secured()
    with connected(files, port) as secure:
        secure.sendall(request("QUIT"))
        assert secure.recv(100) == b"+OK\r\n"
        assert secure.recv(100) == b""  # an end without TLS's farewell would raise here


def test_what_is_no_tls_is_closed_and_harms_nobody(secured, files):
    stack, port = secured()
    with connected(files, port) as secure:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
            plain.sendall(request("PING"))
            answer = plain.recv(100)
            assert not answer.startswith(b"+"), answer
        assert ping(secure) == b"+PONG\r\n"
    wait_until(lambda: stack.metrics().total("clients") == 0, "the clients to be gone")


def test_a_listener_with_an_authority_wants_a_certificate_of_each_client(secured, files):
    _, port = secured(ca=str(files / "ca.crt"))
    with pytest.raises((ssl.SSLError, ConnectionError)), connected(files, port) as secure:
        ping(secure)
    context = ssl.create_default_context(cafile=files / "ca.crt")
    context.load_cert_chain(files / "server.crt", files / "server.key")
    with connected(files, port, context=context) as secure:
        assert ping(secure) == b"+PONG\r\n"


def test_R57_a_renewed_certificate_is_taken_without_a_restart_and_old_connections_live_on(secured, files, tmp_path):
    stack, port = secured()
    with connected(files, port) as old:
        renewed = tmp_path / "renewed"
        certificates.make(renewed)
        # What can't be loaded changes nothing.
        kept = (files / "server.key").read_bytes()
        (files / "server.key").write_text("no key")
        wait_until(lambda: "stays in use" in stack.log(), "the log to say that the key can't be loaded")
        with connected(files, port) as secure:
            assert ping(secure) == b"+PONG\r\n"
        (files / "server.key").write_bytes(kept)
        shutil.copy(renewed / "server.crt", files / "server.crt")
        shutil.copy(renewed / "server.key", files / "server.key")

        def is_served():
            with contextlib.suppress(ssl.SSLError), connected(renewed, port) as secure:
                return ping(secure) == b"+PONG\r\n"

        wait_until(is_served, "the new certificate to be served")
        assert ping(old) == b"+PONG\r\n"
