"""The controller's page by TLS: a given certificate, and a reverse proxy, in a real browser."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import httpx
import pytest

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.spec.sections.services import Page, Services
from tests.browser.conftest import FLAGS, LIVE, OTHER, run_root, wait_until
from tests.embedded.conftest import Live

pytestmark = pytest.mark.slow
NAME, PORT, PROXY = "hpc.example.test", 8765, 8443
CERTIFICATE, KEY = "/etc/ssl/corral-page.pem", "/etc/ssl/private/corral-page.key"
NGINX = f"""\
server {{
  listen {PROXY} ssl;
  ssl_certificate {CERTIFICATE};
  ssl_certificate_key {KEY};
  location / {{
    proxy_pass http://127.0.0.1:{PORT};
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto $scheme;
  }}
}}
"""


def in_thread(work: Any) -> Any:
    """Playwright's loop runs in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)


def signed(home: Path, name: str) -> None:
    """A certificate for the page's key; each has its own number."""
    openssl(
        home,
        "x509",
        "-req",
        "-in",
        "page.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-days",
        "2",
        "-extfile",
        "ext",
        "-out",
        name,
    )


@dataclass
class Secured:
    """The page by TLS, and the browser that trusts who signed its certificate."""

    cluster: Live
    address: str
    browser: Any
    errors: list[str] = field(default_factory=list)

    def open(self, port: int) -> Any:
        context = self.browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return page, page.goto(f"https://{NAME}:{port}/")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder whose NSS database trusts a new CA, with a certificate for NAME."""
    for program in ("openssl", "certutil"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: ./test browser installs it")
    home = tmp_path_factory.mktemp("home")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        home,
        "req",
        "-x509",
        *key,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "2",
        "-subj",
        "/CN=Corral test CA",
    )
    openssl(home, "req", *key, "-keyout", "page.key", "-out", "page.csr", "-subj", f"/CN={NAME}")
    (home / "ext").write_text(f"subjectAltName=DNS:{NAME}\n")
    signed(home, "page.pem")
    database = home / ".pki" / "nssdb"
    database.mkdir(parents=True)
    add = ["certutil", "-d", f"sql:{database}", "-A", "-t", "C,,", "-n", "test", "-i", "ca.pem"]
    new = ["certutil", "-d", f"sql:{database}", "-N", "--empty-password"]
    for argv in (new, add):
        subprocess.run(argv, cwd=home, check=True, capture_output=True, timeout=60)
    return home


@pytest.fixture(scope="module")
def secured(cluster: Live, people: object, chromium: Any, authority: Path) -> Iterator[Secured]:
    """The shared cluster's page by TLS; without it again at the end."""
    page = Page(listen="control", names=(NAME,), certificate=CERTIFICATE, key=KEY)
    spec = cluster.spec.model_copy(update={"services": Services(ui=True, page=page)})
    put = sh(
        "umask 077; printf %s {key} > {to}; umask 022; printf %s {certificate} > {at}",
        key=(authority / "page.key").read_text(),
        to=KEY,
        certificate=(authority / "page.pem").read_text(),
        at=CERTIFICATE,
    )
    run_root(cluster, cluster.controller, put)
    try:
        in_thread(lambda: api.up(spec))
    except CorralError as error:
        if error.command == "pip download":
            pytest.skip(f"no package index: {error}")
        raise
    shown = run_root(cluster, cluster.controller, sh("cat /etc/corral/web.json"))
    address = json.loads(shown)["outside"]
    launched = chromium.browser_type.launch(
        executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
        args=[*FLAGS, f"--host-resolver-rules=MAP {NAME} {address}"],
        env={"HOME": str(authority), "PATH": "/usr/bin:/bin"},
    )
    site = Secured(cluster, address, launched)
    yield site
    launched.close()
    in_thread(lambda: api.up(cluster.spec))
    run_root(cluster, cluster.controller, sh("rm -f {a} {b}", a=CERTIFICATE, b=KEY))
    assert not site.errors


def log_in(page: Any, token: str) -> None:
    page.fill("input[name=token]", token)
    page.click("text=Log in with the token")
    page.wait_for_selector(".node")
    wait_until(page, LIVE)


def test_a_given_certificate(secured: Secured, people: Callable[[str], str]) -> None:
    page, first = secured.open(PORT)
    assert first.security_details()["protocol"] in ("TLS 1.2", "TLS 1.3")
    assert first.security_details()["issuer"] == "Corral test CA"
    assert "max-age=" in first.headers["strict-transport-security"]
    log_in(page, people(OTHER))
    (cookie,) = page.context.cookies()
    assert cookie["secure"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    # HSTS: who was here once never comes without TLS again, and so sends no cookie without it.
    page.goto(f"http://{NAME}:{PORT}/")
    assert page.url.startswith("https://")
    page.wait_for_selector(".node")
    page.click("text=Log out")
    page.wait_for_selector("input[name=token]")
    page.context.close()


@pytest.mark.parametrize("by", ["systemctl start corral-web-tls", "systemctl reload corral-web"])
def test_a_renewed_certificate_ends_no_session(
    secured: Secured, authority: Path, people: Callable[[str], str], by: LiteralString
) -> None:
    """What the timer does, and what a renewal's hook does: the live page stays as it was."""
    lead = secured.cluster.controller
    shown = (secured.address, PORT)
    page, _ = secured.open(PORT)
    streams: list[str] = []
    page.on("request", lambda r: streams.append(r.url) if "/api/events" in r.url else None)
    log_in(page, people(OTHER))
    server = sh(
        "systemctl show -p MainPID --value corral-web; systemctl is-active {t}",
        t="corral-web-tls.timer",
    )
    before = run_root(secured.cluster, lead, server)
    signed(authority, "renewed.pem")
    renewed = (authority / "renewed.pem").read_text()
    assert ssl.get_server_certificate(shown).strip() != renewed.strip()
    put = sh("printf %s {new} >{at}; {by}", new=renewed, at=CERTIFICATE, by=sh(by))
    run_root(secured.cluster, lead, put)
    until = time.monotonic() + 30
    while ssl.get_server_certificate(shown).strip() != renewed.strip():
        assert time.monotonic() < until, "the old certificate is shown"
        time.sleep(0.2)
    opened = len(streams)
    drain = sh("scontrol update nodename=node2 state=drain reason=renewed")
    run_root(secured.cluster, lead, drain)
    try:
        page.wait_for_selector(".node >> text=renewed")
    finally:
        run_root(secured.cluster, lead, sh("scontrol update nodename=node2 state=resume"))
    assert opened == len(streams) == 1, "reported by the stream that was open before"
    page.reload()
    page.wait_for_selector(".node")  # still logged in
    assert run_root(secured.cluster, lead, server) == before
    assert "active" in before
    page.context.close()


def test_who_does_not_know_the_ca_is_warned(secured: Secured, chromium: Any) -> None:
    from playwright.sync_api import Error  # noqa: PLC0415

    context = chromium.new_context()
    with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
        context.new_page().goto(f"https://{secured.address}:{PORT}/", timeout=60_000)
    context.close()


def test_nothing_is_served_without_tls(secured: Secured) -> None:
    with httpx.Client(trust_env=False, timeout=30) as http, pytest.raises(httpx.HTTPError):
        http.get(f"http://{secured.address}:{PORT}/")


@pytest.fixture
def proxied(secured: Secured) -> Iterator[Secured]:
    """The same behind nginx on the controller; nginx goes at the end."""
    lead = secured.cluster.controller
    before = run_root(secured.cluster, lead, sh("command -v nginx"))
    install = sh(
        "export DEBIAN_FRONTEND=noninteractive; command -v nginx >/dev/null || {{ "
        "(timeout 120 apt-get update; timeout 240 apt-get install -y --no-install-recommends "
        "nginx-light || timeout 240 apt-get install -y --no-install-recommends nginx) "
        ">/dev/null 2>&1; }}; "
        "command -v nginx && rm -f /etc/nginx/sites-enabled/default && "
        "printf %s {conf} > /etc/nginx/conf.d/corral.conf && systemctl restart nginx && echo ready",
        conf=NGINX,
    )
    if "ready" not in run_root(secured.cluster, lead, install):
        pytest.skip("nginx cannot be installed on the node: no package archive")
    yield secured
    run_root(secured.cluster, lead, sh("rm -f /etc/nginx/conf.d/corral.conf; systemctl stop nginx"))
    if not before.strip():
        purge = sh("apt-get purge -y nginx-light nginx nginx-common >/dev/null 2>&1; true")
        run_root(secured.cluster, lead, purge)


def test_behind_nginx(proxied: Secured, people: Callable[[str], str]) -> None:
    page, first = proxied.open(PROXY)
    assert "nginx" in first.headers["server"]
    assert "max-age=" in first.headers["strict-transport-security"]
    log_in(page, people(OTHER))
    (cookie,) = page.context.cookies()
    assert cookie["secure"]
    # Events come through as they happen, and the page acts through it.
    page.goto(f"https://{NAME}:{PROXY}/#submit")
    page.click("text=By script")
    page.fill("textarea[name=script]", "#!/bin/sh\nfor i in 1 2 3; do echo at $i; sleep 1; done\n")
    page.fill("input[name=name]", "proxied")
    page.fill("input[name=workdir]", "/shared")
    page.click("form >> text=Submit")
    page.wait_for_selector(".log >> text=at 3")
    page.wait_for_selector("h1 >> text=completed")
    noted = run_root(
        proxied.cluster,
        proxied.cluster.controller,
        sh('journalctl -o cat -u corral-web | grep \'"audit": "login"\' | tail -n 1'),
    )
    record = json.loads(noted)
    assert record["user"] == OTHER
    assert record["subject"] != "127.0.0.1", "the proxy's word for who came"
    page.context.close()
