"""Logins by a real OpenID provider, in a real browser: from the click to the session, and refusals.

The form for passwords is here too; PAM itself is asked in tests/embedded/test_page_passwords.py.

The page is the server as it is, by TLS, over recorded answers of slurmrestd. Root's program is its
own functions in this process: as a process it needs slurmctld.
"""

from __future__ import annotations

import asyncio
import json
import pwd
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from corral.errors import CorralError
from corral.spec.sections.page_login import OidcLogin, PageLogin
from corral.web.login import pam
from corral.web.login.helper import answer, refusal
from corral.web.login.question import Question
from corral.web.slurm.slurmrest import Login
from corral.web.users.sessions import login_of
from tests import oidc_provider
from tests.browser.conftest import FLAGS, PATIENT_MS, patient
from tests.browser.helper_double import spec
from tests.browser.test_tls import NAME, authority
from tests.embedded.test_page_limits import serving, slurmrestd
from tests.unit.web.fake import FakeRest

__all__ = ["authority"]

PLACE = "127.0.0.2"
PASSWORD = "of-the-provider"
SECRET = "of-the-client-é%+ 7"
PEOPLE = {"kim": 2077, "root": 0}
CLIENTS = ("corral", "corral-claims", "corral-public")


def free_port() -> int:
    with socket.create_server((PLACE, 0)) as listening:
        return listening.getsockname()[1]


@dataclass
class Site:
    """The page, its provider, and the browser that trusts both.

    Attributes:
        made: users who got a token.
    """

    issuer: str
    address: str
    folder: Path
    browser: Any
    ways: PageLogin
    rest: FakeRest | None = None
    made: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])

    def tab(self, where: str = "") -> Any:
        context = patient(self.browser, viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(f"{self.address}/{where}")
        return page

    def go(self, page: Any, user: str) -> None:
        """Click, and fill the provider's form in."""
        page.click("text=Log in at 127.0.0.1")
        page.fill("input[name=username]", user)
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")

    async def mint(self, user: str, seconds: int) -> Login:
        assert self.rest is not None
        self.made.append(user)
        return login_of(self.rest.login(user, lasts=seconds))


@contextmanager
def token_program(path: Path, site: Site) -> Iterator[None]:
    """Root's program on a socket, without systemd."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            question = Question.model_validate_json(self.rfile.readline())
            try:
                reply = asyncio.run(answer(question, site.ways, 28800, site.mint))
            except CorralError as error:
                reply = refusal(error)
            self.wfile.write(json.dumps(reply).encode() + b"\n")

    server = ThreadingUnixStreamServer(str(path), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def provider(folder: Path, home: Path, port: int, back: str) -> Iterator[str]:
    """The provider as a process; gives its issuer."""
    program = oidc_provider.find()
    if program is None:
        pytest.skip("no OpenID provider: python -m tests.oidc_provider builds it with Go")
    people = {
        f"id-{name}": {
            "ID": f"id-{name}",
            "Username": name,
            "Password": PASSWORD,
            "Email": f"{name}@example.org",
            "EmailVerified": name != "stranger",
            "PreferredLanguage": "en",
        }
        for name in ("kim", "root", "stranger")
    }
    (folder / "people.json").write_text(json.dumps(people))
    (folder / "secret").write_text(f"{SECRET}\n")
    (folder / "secret").chmod(0o600)
    issuer = f"https://127.0.0.1:{port}"
    argv = {
        "issuer": issuer,
        "listen": f"127.0.0.1:{port}",
        "people": folder / "people.json",
        "secret": folder / "secret",
        "back": f"{back}/api/login/oidc/back",
        "certificate": home / "page.pem",
        "key": home / "page.key",
    }
    words = [str(program), *(f"-{name}={value}" for name, value in argv.items())]
    with subprocess.Popen(words) as process:
        try:
            until = time.monotonic() + PATIENT_MS / 1000
            while True:
                assert process.poll() is None
                assert time.monotonic() < until
                try:
                    socket.create_connection(("127.0.0.1", port), 5).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield issuer
        finally:
            process.terminate()


def known_people(patch: pytest.MonkeyPatch) -> None:
    """Users of the controller, whose accounts are open."""
    real = pwd.getpwnam

    def known(name: str) -> pwd.struct_passwd:
        if name in PEOPLE:
            uid = PEOPLE[name]
            return pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/sh"))
        return real(name)

    patch.setattr(pwd, "getpwnam", known)
    patch.setattr(pam, "check_account", lambda _, *, by_password: None)


@pytest.fixture(scope="module")
def site(
    chromium: Any, authority: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("oidc")
    port, page_port = free_port(), free_port()
    address = f"https://{NAME}:{page_port}"
    with (
        pytest.MonkeyPatch.context() as patch,
        provider(folder, authority, port, address) as issuer,
    ):
        known_people(patch)
        patch.setattr(pam, "right", lambda user, text: (user, text) == ("kim", PASSWORD))
        ways = PageLogin(
            passwords=True,
            oidc=OidcLogin(
                issuer=issuer,
                client="corral",
                secret_file=str(folder / "secret"),
                ca=str(authority / "ca.pem"),
                logout=True,
            ),
        )
        launched = chromium.browser_type.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
            args=[*FLAGS, f"--host-resolver-rules=MAP {NAME} {PLACE}"],
            env={"HOME": str(authority), "PATH": "/usr/bin:/bin"},
        )
        made = Site(issuer, address, folder, launched, ways)
        cluster = spec()
        cluster["services"] |= {
            "ui": True,
            "page": {"names": [NAME], "login": ways.model_dump(mode="json")},
        }
        with (
            slurmrestd() as (rest, fake),
            token_program(folder / "login.sock", made),
            serving(
                rest=rest,
                port=page_port,
                outside=PLACE,
                certificate=str(authority / "page.pem"),
                key=str(authority / "page.key"),
                names=[NAME],
                service=True,
                spec=cluster,
                handover=None,
                token_program=str(folder / "login.sock"),
            ),
        ):
            made.rest = fake
            yield made
        launched.close()
    assert not made.errors


@pytest.fixture(autouse=True)
def fresh(site: Site) -> None:
    site.made.clear()


def refused(page: Any, words: str) -> None:
    page.wait_for_selector(f"[role=alert] >> text={words}")
    assert "signed-in" not in page.url
    assert not [c for c in page.context.cookies() if c["name"].startswith("corral_session")]


def test_from_the_click_to_the_session(site: Site) -> None:
    page = site.tab("#jobs?q=user%3Dkim")
    site.go(page, "kim")
    page.wait_for_selector("#user:not(:empty)")
    assert page.inner_text("#user") == "kim"
    assert page.url == f"{site.address}/#jobs?q=user%3Dkim", "where it was before"
    (cookie,) = [c for c in page.context.cookies(site.address) if "session" in c["name"]]
    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
    others = {c["name"] for c in page.context.cookies(f"{site.address}/api/login/oidc")}
    assert others == {cookie["name"]}, "what bound the browser is gone"
    page.reload()
    page.wait_for_selector("#user:not(:empty)")
    assert site.made == ["kim"]
    page.context.close()


@pytest.mark.parametrize("name", CLIENTS)
def test_kinds_of_clients(site: Site, name: str) -> None:
    """Claims in userinfo, claims in the ID token, and a client without a secret."""
    oidc, before = site.ways.oidc, site.ways
    assert oidc is not None
    secret = None if name == "corral-public" else oidc.secret_file
    declared = oidc.model_copy(update={"client": name, "secret_file": secret})
    with went(site, name) as (http, back):
        site.ways = before.model_copy(update={"oidc": declared})
        try:
            http.get(back)
        finally:
            site.ways = before
        assert http.post("/api/login/oidc/session", json={}).json()["user"] == "kim"
    assert site.made == ["kim"]


def test_a_logout_is_one_of_the_provider(site: Site) -> None:
    page = site.tab()
    site.go(page, "kim")
    page.wait_for_selector(".node")
    with page.expect_request(f"{site.issuer}/end_session?*") as asked:
        page.click("text=Log out")
    query = parse_qs(urlsplit(asked.value.url).query)
    assert query["client_id"] == ["corral"]
    assert query["post_logout_redirect_uri"] == [f"{site.address}/"]
    page.wait_for_selector("text=Log in at 127.0.0.1")
    assert page.url.startswith(site.address)
    page.context.close()


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("stranger", "this cluster has no user 'stranger'"),
        ("root", "root is not a person's account"),
    ],
)
def test_whom_the_cluster_does_not_know(site: Site, user: str, words: str) -> None:
    page = site.tab()
    site.go(page, user)
    refused(page, words)
    assert not site.made
    page.context.close()


def test_who_is_not_a_person_of_the_domain(site: Site) -> None:
    oidc, before = site.ways.oidc, site.ways
    assert oidc is not None
    mail = oidc.model_copy(update={"claim": "email", "domain": "example.org"})
    page = site.tab()
    try:
        site.ways = before.model_copy(update={"oidc": mail})
        site.go(page, "stranger")
        refused(page, "the login provider has not verified your e-mail address")
        site.go(page, "kim")
        page.wait_for_selector("#user:not(:empty)")
    finally:
        site.ways = before
    assert site.made == ["kim"]
    page.context.close()


def test_the_form_for_passwords(site: Site) -> None:
    page = site.tab("#jobs")
    page.fill("input[name=user]", "kim")
    page.fill("input[name=password]", "wrong")
    page.press("input[name=password]", "Enter")
    refused(page, "name or password is wrong, or the account is locked")
    assert page.input_value("input[name=user]") == "kim", "only the password is typed again"
    page.fill("input[name=password]", PASSWORD)
    page.press("input[name=password]", "Enter")
    page.wait_for_selector("#user:not(:empty)")
    assert page.inner_text("#user") == "kim"
    assert page.url == f"{site.address}/#jobs"
    page.context.close()


def test_addresses_that_this_browser_did_not_ask_for(site: Site) -> None:
    """A state that is made up, and another person's address: nobody is logged in as a stranger."""
    page = site.tab("api/login/oidc/back?state=made-up&code=x")
    refused(page, "this login was not begun in this browser")
    page.context.close()

    with went(site) as (_, back):
        victim = site.tab(back.lstrip("/"))
        refused(victim, "this login was not begun in this browser")
        victim.context.close()
    assert not site.made


def test_a_code_is_good_once(site: Site) -> None:
    """The same address with the same cookie again: the provider refuses the code."""
    with went(site) as (http, back):
        away = dict(http.cookies)
        assert http.get(back).headers["location"] == "/#signed-in"
        assert http.post("/api/login/oidc/session", json={}).json()["user"] == "kim"
        again = http.post("/api/login/oidc/session", json={})
        assert again.status_code == 401, "a session once"
        http.cookies.clear()
        for name, value in away.items():
            http.cookies.set(name, value)
        assert http.get(back).headers["location"] == "/#signed-in"
        again = http.post("/api/login/oidc/session", json={})
        assert again.status_code == 401
        assert "not good for this login" in again.json()["error"]["message"]
    assert site.made == ["kim"]


@pytest.mark.parametrize(
    "sent",
    [
        {"error": "access_denied", "error_description": "<script>alert(1)</script>"},
        {"code": "x", "iss": "https://login.example.com"},
        {"error": "<b>"},
        {},
    ],
)
def test_what_the_provider_does_not_let_in(site: Site, sent: dict[str, str]) -> None:
    with went(site) as (http, back):
        state = parse_qs(urlsplit(back).query)["state"][0]
        reply = http.get("/api/login/oidc/back", params={**sent, "state": state})
        assert reply.headers["location"] == "/#signed-in"
        why = http.post("/api/login/oidc/session", json={})
        assert why.status_code == 401
        assert "<" not in why.text
    assert not site.made


@pytest.mark.parametrize("origin", ["https://evil.example.org", "null"])
def test_another_site_opens_no_session(site: Site, origin: str) -> None:
    with went(site) as (http, back):
        http.get(back)
        forged = http.post("/api/login/oidc/session", json={}, headers={"origin": origin})
        assert forged.status_code == 403


def test_where_browsers_go_is_no_ones_choice(site: Site) -> None:
    """No parameter and no header names another place: the provider knows one address."""
    with client(site) as http:
        sent = {"next": "https://evil.example.org", "redirect_uri": "https://evil.example.org"}
        gone = http.get("/api/login/oidc", params=sent, headers={"x-forwarded-host": "evil.org"})
        query = parse_qs(urlsplit(gone.headers["location"]).query)
        assert gone.headers["location"].startswith(f"{site.issuer}/")
        assert query["redirect_uri"] == [f"{site.address}/api/login/oidc/back"]
        assert query["code_challenge_method"] == ["S256"]
        assert "evil" not in gone.headers["location"]
        (cookie,) = [gone.headers["set-cookie"].lower()]
        for word in ("httponly", "samesite=lax", "secure", "path=/api/login/oidc"):
            assert word in cookie
        other = http.get("/api/login/oidc", headers={"host": "evil.example.org"})
        assert other.status_code == 421


class Named(httpx.HTTPTransport):
    """Goes to the page's address by its name, without asking anybody for it."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["sni_hostname"] = NAME
        return super().handle_request(request)


@contextmanager
def client(site: Site) -> Iterator[httpx.Client]:
    port = urlsplit(site.address).port
    with httpx.Client(
        base_url=f"https://{PLACE}:{port}",
        headers={"host": f"{NAME}:{port}", "origin": site.address},
        transport=Named(verify=trusted(site)),
        timeout=PATIENT_MS / 1000,
    ) as http:
        yield http


@contextmanager
def went(site: Site, name: str = "corral") -> Iterator[tuple[httpx.Client, str]]:
    """A client that kim has logged in at the provider by, and the path it is sent back to."""
    with client(site) as http, httpx.Client(verify=trusted(site), trust_env=False) as other:
        gone = http.get("/api/login/oidc")
        place = gone.headers["location"].replace("client_id=corral&", f"client_id={name}&")
        form = other.get(place)
        number = parse_qs(urlsplit(form.headers["location"]).query)["authRequestID"][0]
        fields = {"username": "kim", "password": PASSWORD, "id": number}
        checked = other.post(f"{site.issuer}/login/username", data=fields)
        back = other.get(httpx.URL(site.issuer).join(checked.headers["location"]))
        sent = urlsplit(back.headers["location"])
        yield http, f"{sent.path}?{sent.query}"


def trusted(site: Site) -> ssl.SSLContext:
    assert site.ways.oidc is not None
    return ssl.create_default_context(cafile=site.ways.oidc.ca)
