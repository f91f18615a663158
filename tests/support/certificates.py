"""Certificates for tests of TLS, made by the openssl command: an authority of one's own and a certificate for 127.0.0.1 and localhost."""

import shutil
import subprocess


def make(folder):
    """ca.crt, ca.key, server.crt and server.key in `folder`, PEM, new each time. Raises RuntimeError that names cause and fix."""
    folder.mkdir(exist_ok=True)
    if shutil.which("openssl") is None:
        raise RuntimeError("openssl is missing. Fix: tests/support/packages install")
    extensions = folder / "server.ext"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
    for arguments in (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=keyferry-test-authority -keyout ca.key -out ca.crt",
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout server.key -out server.csr",
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile server.ext -out server.crt",
    ):
        result = subprocess.run(["openssl", *arguments.split()], cwd=folder, capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"openssl {arguments.split()[0]} failed: {result.stderr.strip().splitlines()[-1:]}. Fix: see {folder}")
