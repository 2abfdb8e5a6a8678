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
from corral.spec.sections.page_login import HeaderLogin, PageLogin
from corral.spec.sections.services import Page, Services
from tests.browser.conftest import FLAGS, LIVE, OTHER, PATIENT_MS, patient, run_root, wait_until
from tests.embedded.conftest import Live

pytestmark = pytest.mark.slow
NAME, PORT, PROXY = "hpc.example.test", 8765, 8443
SECRET, SECRET_FILE = "c0ffee" * 8, "/etc/corral/proxy-secret"
SIGNED_ON = 8444
"""The proxy's port at which it names the person of its own password (HTTP Basic)."""
PASSWORD = "of-the-proxy"
PASSWORDS = "/etc/nginx/corral-people"
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
server {{
  listen {SIGNED_ON} ssl;
  ssl_certificate {CERTIFICATE};
  ssl_certificate_key {KEY};
  location / {{
    auth_basic people;
    auth_basic_user_file {PASSWORDS};
    proxy_pass http://127.0.0.1:{PORT};
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header Authorization "";
    proxy_set_header Remote-User $remote_user;
    proxy_set_header X-Corral-Secret {SECRET};
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

    def open(self, port: int, **more: Any) -> Any:
        context = patient(self.browser, viewport={"width": 1280, "height": 800}, **more)
        page = context.new_page()
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
    (home / "ext").write_text(f"subjectAltName=DNS:{NAME},IP:127.0.0.1\n")
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
    header = HeaderLogin(secret_file=SECRET_FILE)
    page = Page(
        listen="control",
        names=(NAME,),
        certificate=CERTIFICATE,
        key=KEY,
        login=PageLogin(header=header),
    )
    spec = cluster.spec.model_copy(update={"services": Services(ui=True, page=page)})
    put = sh(
        "mkdir -p /etc/corral; umask 077; printf %s {secret} > {file}; printf %s {key} > {to}; "
        "umask 022; printf %s {certificate} > {at}",
        secret=SECRET,
        file=SECRET_FILE,
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
    run_root(
        cluster, cluster.controller, sh("rm -f {a} {b} {c}", a=CERTIFICATE, b=KEY, c=SECRET_FILE)
    )
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
    until = time.monotonic() + PATIENT_MS / 1000
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

    context = patient(chromium)
    with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
        context.new_page().goto(f"https://{secured.address}:{PORT}/")
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
        "printf %s {conf} > /etc/nginx/conf.d/corral.conf && printf '%s\\n' {people} > {file} && "
        "systemctl restart nginx && echo ready",
        conf=NGINX,
        people="\n".join(f"{name}:{{PLAIN}}{PASSWORD}" for name in (OTHER, "root", "stranger")),
        file=PASSWORDS,
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


def signed_on(user: str) -> dict[str, Any]:
    return {"http_credentials": {"username": user, "password": PASSWORD}}


def test_whom_the_proxy_names_is_logged_in(proxied: Secured) -> None:
    """From the first request to a job's end, with no token typed; nginx has asked who it is."""
    page, _ = proxied.open(SIGNED_ON, **signed_on(OTHER))
    page.wait_for_selector(".node")
    assert page.inner_text("#user") == OTHER
    (cookie,) = page.context.cookies()
    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
    page.goto(f"https://{NAME}:{SIGNED_ON}/#submit")
    page.click("text=By script")
    page.fill("textarea[name=script]", "#!/bin/sh\nid -un; sleep 1\n")
    page.fill("input[name=name]", "named")
    page.fill("input[name=workdir]", "/shared")
    page.click("form >> text=Submit")
    page.wait_for_selector(f".log >> text={OTHER}")
    page.wait_for_selector("h1 >> text=completed")
    page.click("text=Log out")
    page.wait_for_selector(f"text=Log in as {OTHER}")  # and not at once again
    page.click(f"text=Log in as {OTHER}")
    page.wait_for_selector("#user:not(:empty)")
    page.context.close()


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("root", "root is not a person's account"),
        ("stranger", "this cluster has no user 'stranger'"),
    ],
)
def test_whom_the_proxy_names_must_be_a_person(proxied: Secured, user: str, words: str) -> None:
    page, _ = proxied.open(SIGNED_ON, **signed_on(user))
    page.wait_for_selector(f"[role=alert] >> text={words}")
    page.context.close()


def test_nobody_but_the_proxy_names_anybody(proxied: Secured) -> None:
    """On the controller as root and as a person, from outside by TLS, and through the proxy."""
    lead = proxied.cluster.controller
    headers = f"-H 'Remote-User: {OTHER}' -H 'X-Corral-Secret: {SECRET}'"
    post = f"curl -s -o /dev/null -w '%{{http_code}}' -X POST -d '{{}}' {headers}"
    local = f"{post} http://127.0.0.1:{PORT}/api/login/header"
    lines = (
        local,
        f"setpriv --reuid nobody --regid nogroup --clear-groups {local}",
        f"{post} -k --resolve {NAME}:{PORT}:{proxied.address} "
        f"https://{NAME}:{PORT}/api/login/header",
        f"{post} -k --resolve {NAME}:{PROXY}:127.0.0.1 https://{NAME}:{PROXY}/api/login/header",
    )
    install = sh("command -v curl >/dev/null || apt-get install -y curl >/dev/null 2>&1; true")
    run_root(proxied.cluster, lead, install)
    seen = [run_root(proxied.cluster, lead, sh("sh -c {line}", line=line)) for line in lines]
    assert seen[:3] == ["401"] * 3
    # That port passes headers on as they come: why the secret is the proxy's alone to know.
    assert seen[3] == "200", seen
    browser = patient(
        proxied.browser, extra_http_headers={"Remote-User": "root"}, **signed_on(OTHER)
    )
    page = browser.new_page()
    page.goto(f"https://{NAME}:{SIGNED_ON}/")
    page.wait_for_selector(".node")
    assert page.inner_text("#user") == OTHER, "the proxy overwrites what browsers send"
    browser.close()


def test_the_secret_of_the_proxy_is_nowhere(proxied: Secured) -> None:
    """In no settings, journal, argument list or environment of the page."""
    search = sh(
        "{{ cat /etc/corral/web.json; journalctl --no-pager; cat /proc/[0-9]*/cmdline; "
        "cat /proc/$(systemctl show -p MainPID --value corral-web)/environ; }} 2>/dev/null "
        "| grep -c -a -f {secret}; true",
        secret=SECRET_FILE,
    )
    assert run_root(proxied.cluster, proxied.cluster.controller, search).strip() == "0"
