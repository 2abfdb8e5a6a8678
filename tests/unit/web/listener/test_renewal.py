"""A renewed certificate: new connections see it, older ones continue, half a pair is refused."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import subprocess
from pathlib import Path

import pytest
import uvicorn

from corral.web.listener.connections import at_hangup, renewed

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes certificates")
REQUEST = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """Paths of a certificate and its key."""
    made(tmp_path, "one")
    return str(tmp_path / "c.pem"), str(tmp_path / "k.pem")


def made(folder: Path, name: str, certificate: str = "c.pem", key: str = "k.pem") -> None:
    files = ["-keyout", str(folder / key), "-out", str(folder / certificate)]
    words = [*REQUEST.split(), *files, "-subj", f"/CN={name}"]
    subprocess.run(words, check=True, capture_output=True)


class Connection:
    """A TLS connection to a context, without a socket."""

    def __init__(self, server: ssl.SSLContext) -> None:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        self.client = trusting.wrap_bio(down, up)
        self.server = server.wrap_bio(up, down, server_side=True)
        for side in (self.client, self.server) * 3:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue

    @property
    def name(self) -> bytes:
        """The name in the certificate that was shown."""
        shown = self.client.getpeercert(binary_form=True) or b""
        return next(name for name in (b"one", b"two") if name in shown)

    def talks(self) -> bool:
        self.client.write(b"hello")
        return self.server.read(5) == b"hello"


def listening(pair: tuple[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    return context


def test_new_connections_see_it_and_old_ones_go_on(tmp_path: Path, pair: tuple[str, str]) -> None:
    context = listening(pair)
    before = Connection(context)
    made(tmp_path, "two")
    assert Connection(context).name == b"one"
    assert renewed(context, *pair) == ""
    assert Connection(context).name == b"two"
    assert before.name == b"one"
    assert before.talks()


def test_half_of_a_new_pair_changes_nothing(tmp_path: Path, pair: tuple[str, str]) -> None:
    context = listening(pair)
    made(tmp_path, "two", key="other.pem")
    assert "mismatch" in renewed(context, *pair).lower()
    after = Connection(context)
    assert (after.name, after.talks()) == (b"one", True)
    Path(pair[1]).unlink()
    assert "No such file" in renewed(context, *pair)
    assert Connection(context).name == b"one"


def test_the_signal_of_a_reload_takes_it(tmp_path: Path, pair: tuple[str, str]) -> None:
    async def work() -> bytes:
        config = uvicorn.Config("none", ssl_certfile=pair[0], ssl_keyfile=pair[1])
        at_hangup(config, *pair)
        os.kill(os.getpid(), signal.SIGHUP)  # it does not listen yet: the signal is ignored
        await asyncio.sleep(0)
        config.ssl = listening(pair)
        made(tmp_path, "two")
        os.kill(os.getpid(), signal.SIGHUP)
        for _ in range(1000):
            await asyncio.sleep(0)
            if Connection(config.ssl).name == b"two":
                break
        return Connection(config.ssl).name

    assert asyncio.run(work()) == b"two"
