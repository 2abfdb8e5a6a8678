"""Files that nodes fetch from a mirror by https: complete and of the known digest, or none."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.embedded.conftest import Live

from corral.hosts.quote import Script, sh
from corral.state.base import Context, Seen
from corral.state.packages import Artifact

pytestmark = pytest.mark.slow

DATA = b"a package\0of some bytes\n" * 1000
TOOLS = sh(
    "export DEBIAN_FRONTEND=noninteractive; get() {{ apt-get install -y -q "
    "--no-install-recommends curl openssl python3 </dev/null >/dev/null; }}; "
    "get 2>/dev/null || {{ apt-get update -q >/dev/null && get; }} || exit 1"
)
SERVE = sh(
    "{tools}; set -e; "
    "mkdir -p /srv/mirror; cd /srv/mirror; cat >one_1_all.deb; a=$(hostname -I | cut -d' ' -f1); "
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout "
    '/srv/mirror.key -out ca.pem -subj /CN=mirror -addext "subjectAltName=IP:$a" 2>/dev/null; '
    "systemctl is-active -q mirror || systemd-run -q --unit=mirror --collect python3 -c {server} "
    '"$a"; i=0; until curl -s --cacert ca.pem -o /dev/null "https://$a:8443/ca.pem"; do '
    'i=$((i + 1)); [ $i -lt 300 ] || exit 1; sleep 0.1; done; echo "$a"; base64 -w0 ca.pem',
    tools=TOOLS,
    server="import http.server as h, ssl, sys, os; os.chdir('/srv/mirror'); "
    "s = h.ThreadingHTTPServer((sys.argv[1], 8443), h.SimpleHTTPRequestHandler); "
    "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); "
    "c.load_cert_chain('ca.pem', '/srv/mirror.key'); "
    "s.socket = c.wrap_socket(s.socket, server_side=True); s.serve_forever()",
)
TRUST = "/run/mirror-ca.pem"


@pytest.fixture
def mirror(cluster: Live) -> Iterator[str]:
    """The https address of a folder on node0, with a certificate that node1 is given."""
    done = cluster.run("node0", SERVE, stdin=DATA, timeout=300)
    assert done.ok, done.tail
    address, certificate = done.stdout.split()
    give = sh("{t}; echo {pem} | base64 -d >{path}", t=TOOLS, pem=certificate, path=TRUST)
    assert cluster.run("node1", give, timeout=300).ok
    yield f"https://{address}:8443"
    stop = sh("systemctl stop mirror; rm -rf /srv/mirror /srv/mirror.key")
    cluster.run("node0", stop)
    cluster.run("node1", sh("rm -f {path}", path=TRUST))


def test_a_file_of_a_mirror(cluster: Live, mirror: str) -> None:
    name = f"{secrets.token_hex(4)}.deb"
    declared = Artifact(f"{mirror}/one_1_all.deb", hashlib.sha256(DATA).hexdigest(), name)

    def observed(artifact: Artifact) -> str:
        return cluster.run("node1", artifact.probe()).stdout.strip()

    def fetch(artifact: Artifact, before: Script) -> str:
        change = artifact.diff(Seen(0, "absent"), Context("node1"))
        assert change is not None
        assert not change.secrets, "it does not travel from here"
        done = cluster.run("node1", sh("{before}{script}", before=before, script=change.script))
        return "" if done.ok else done.tail

    trust = sh("export CURL_CA_BUNDLE={path}; ", path=TRUST)
    try:
        assert "certificate" in fetch(declared, sh("")), "nobody vouches for the mirror"
        assert observed(declared) == "absent"
        other = replace(declared, sha256="0" * 64)
        assert "another file than the cluster file declares" in fetch(other, trust)
        assert observed(declared) == "absent", "what came is not kept"
        assert fetch(declared, trust) == ""
        assert observed(declared) == "complete"
    finally:
        cluster.run("node1", sh("rm -f {path} {path}.new", path=declared.path))
