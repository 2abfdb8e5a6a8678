"""What a provider answers, and what somebody else makes of it: ID tokens, keys, descriptions."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from corral.errors import Code, CorralError
from corral.spec.sections.page_login import OidcLogin
from corral.web.login.handshake import ARRIVED_S, AWAY_S, MOST, Arrivals, Handshakes
from corral.web.login.oidc import OidcClient, managed_by, user_of
from corral.web.login.question import ByCode
from corral.web.slurm.slurmrest import Login

ISSUER = "https://login.example.org/realms/hpc"
DECLARED = OidcLogin(issuer=ISSUER, client="corral")
NONCE = "of-this-login"
ASK = ByCode(do="code", code="c0de", verifier="v" * 43, nonce=NONCE, redirect="https://hpc/back")
FIRST, SECOND = (rsa.generate_private_key(65537, 2048) for _ in range(2))
CURVE = ec.generate_private_key(ec.SECP256R1())
Changes = dict[str, Any]


def public(key: Any, name: str, **more: Any) -> dict[str, Any]:
    kind: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": name, **more}


class Provider:
    """Answers as a provider does, with what a test changes."""

    def __init__(self) -> None:
        now = int(time.time())
        self.claims: Changes = {
            "iss": ISSUER,
            "sub": "1",
            "aud": "corral",
            "exp": now + 300,
            "iat": now,
            "nonce": NONCE,
            "preferred_username": "kim",
        }
        self.key: Any = FIRST
        self.alg = "RS256"
        self.header: Changes = {"kid": "a"}
        self.keys = [public(FIRST, "a", use="sig")]
        self.description: Changes = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/auth",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "userinfo_endpoint": f"{ISSUER}/me",
        }
        self.info: Any = {"sub": "1", "preferred_username": "kim"}
        self.token: Callable[[], str] = self._token
        self.status = 200
        self.forms: list[tuple[dict[str, list[str]], str]] = []

    def _token(self) -> str:
        return jwt.encode(self.claims, self.key, self.alg, headers=self.header)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = str(request.url).removeprefix(ISSUER)
        if path == "/token":
            form = parse_qs(request.content.decode())
            self.forms.append((form, request.headers.get("authorization", "")))
            body = {"id_token": self.token(), "access_token": "bearer-of-kim"}
            return httpx.Response(self.status, json=body if self.status == 200 else {"error": "x"})
        if path == "/me":
            assert request.headers["authorization"] == "Bearer bearer-of-kim"
            return httpx.Response(200, json=self.info)
        answers = {
            "/.well-known/openid-configuration": self.description,
            "/keys": {"keys": self.keys},
        }
        return httpx.Response(200, json=answers[path])

    def user(self, declared: OidcLogin = DECLARED) -> str:
        async def work() -> str:
            return await OidcClient(declared, httpx.MockTransport(self)).user(ASK)

        return asyncio.run(work())


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_who_logs_in() -> None:
    provider = Provider()
    assert provider.user() == "kim"
    form, login = provider.forms[0]
    assert form["code_verifier"] == [ASK.verifier]
    assert form["client_id"] == ["corral"]
    assert login == ""


WRONG: dict[str, Callable[[Provider], Any]] = {
    "of another login": lambda p: p.claims.update(nonce="of-another"),
    "without a nonce": lambda p: p.claims.pop("nonce"),
    "a nonce that is not text": lambda p: p.claims.update(nonce=7),
    "expired": lambda p: p.claims.update(exp=int(time.time()) - 61),
    "of tomorrow": lambda p: p.claims.update(iat=int(time.time()) + 3600),
    "not before tomorrow": lambda p: p.claims.update(nbf=int(time.time()) + 3600),
    "for another client": lambda p: p.claims.update(aud="grafana"),
    "for several, of another": lambda p: p.claims.update(aud=["corral", "x"], azp="x"),
    "for several, of nobody": lambda p: p.claims.update(aud=["corral", "x"]),
    "azp of another": lambda p: p.claims.update(azp="grafana"),
    "of another issuer": lambda p: p.claims.update(iss="https://login.example.com"),
    "no end": lambda p: p.claims.pop("exp"),
    "no beginning": lambda p: p.claims.pop("iat"),
    "no subject": lambda p: p.claims.pop("sub"),
    "no audience": lambda p: p.claims.pop("aud"),
    "signed by somebody": lambda p: setattr(p, "key", SECOND),
    "a key that is not there": lambda p: p.header.update(kid="b"),
    "a key to encrypt with": lambda p: p.keys[0].update(use="enc"),
    "the name of another kind of key": lambda p: setattr(p, "keys", [public(CURVE, "a")]),
    "two keys fit": lambda p: (
        p.header.pop("kid"),
        setattr(p, "keys", [public(FIRST, "a"), public(SECOND, "b")]),
    ),
    "no keys": lambda p: p.keys.clear(),
    "no token": lambda p: setattr(p, "token", lambda: ""),
    "not a token": lambda p: setattr(p, "token", lambda: "a.b.c"),
    "not signed": lambda p: setattr(p, "token", lambda: jwt.encode(p.claims, None, "none")),
    "by the public key as a secret": lambda p: setattr(p, "token", lambda: confused(p.claims)),
    "with a separate key": lambda p: (
        setattr(p, "key", SECOND),
        p.header.update(jwk=public(SECOND, "a"), jku="https://evil.example.org"),
    ),
}


def confused(claims: Changes) -> str:
    """HS256 with the provider's public key as its secret (CVE-2015-9235)."""
    secret = FIRST.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "kid": "a"}, claims)
    ]
    signed = hmac.new(secret, b".".join(parts), hashlib.sha256).digest()
    return b".".join([*parts, base64.urlsafe_b64encode(signed).rstrip(b"=")]).decode()


@pytest.mark.parametrize("name", WRONG)
def test_tokens_that_are_not_good(name: str) -> None:
    provider = Provider()
    WRONG[name](provider)
    with pytest.raises(CorralError) as raised:
        provider.user()
    assert raised.value.code is Code.LOGIN_REFUSED
    assert raised.value.message == "the login provider's answer is not good for this login"
    assert "kim" not in raised.value.tail


def test_keys_change() -> None:
    """The provider signs with another key from one login to the next."""
    provider = Provider()
    assert provider.user() == "kim"
    provider.key, provider.header["kid"] = SECOND, "b"
    provider.keys = [public(FIRST, "a"), public(SECOND, "b"), {"kty": "later"}]
    assert provider.user() == "kim"
    provider.keys = [public(CURVE, "c")]
    provider.key, provider.alg, provider.header = CURVE, "ES256", {}
    assert provider.user() == "kim", "without a name the only one"


def test_a_clock_may_be_a_minute_late() -> None:
    provider = Provider()
    provider.claims.update(exp=int(time.time()) - 30, iat=int(time.time()) - 330)
    assert provider.user() == "kim"


@pytest.mark.parametrize(
    ("methods", "basic"),
    [(None, True), (["client_secret_basic"], True), (["client_secret_post"], False)],
)
def test_where_the_secret_goes(methods: Any, basic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.web.login.oidc.secret_of", lambda _: "s%:é +")
    provider = Provider()
    if methods:
        provider.description["token_endpoint_auth_methods_supported"] = methods
    provider.user(DECLARED.model_copy(update={"secret_file": "/etc/corral/oidc"}))
    ((form, login),) = provider.forms
    if basic:
        assert "client_secret" not in form
        sent = base64.b64decode(login.removeprefix("Basic ")).decode()
        assert sent == "corral:s%25%3A%C3%A9%20%2B"  # RFC 6749, 2.3.1
    else:
        assert form["client_secret"] == ["s%:é +"]
        assert not login


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://login.example.org"},
        {"issuer": f"{ISSUER}/"},
        {"token_endpoint": "http://login.example.org/token"},
        {"jwks_uri": None},
        {"userinfo_endpoint": "file:///etc/shadow"},
        {"authorization_endpoint": ["https://x"]},
    ],
)
def test_descriptions_that_are_not_the_providers(change: Changes) -> None:
    provider = Provider()
    provider.description |= change
    with pytest.raises(CorralError) as raised:
        provider.user()
    assert raised.value.code is Code.PARSE_FAILED
    assert not provider.forms, "no code and no secret goes there"


def test_claims_that_come_apart() -> None:
    provider = Provider()
    del provider.claims["preferred_username"]
    assert provider.user() == "kim"
    provider.info["sub"] = "2"
    with pytest.raises(CorralError, match="not good for this login"):
        provider.user()
    provider.info = {"sub": "1"}
    with pytest.raises(CorralError, match="it sends no preferred_username"):
        provider.user()
    provider.info = []
    with pytest.raises(CorralError, match="not understood"):
        provider.user()


@pytest.mark.parametrize("value", ["", None, 7, ["kim"], {"name": "kim"}])
def test_claims_that_name_nobody(value: Any) -> None:
    provider = Provider()
    provider.claims["preferred_username"] = value
    with pytest.raises(CorralError, match="it sends no preferred_username"):
        provider.user()


def test_a_mail_address_is_verified_and_of_the_domain() -> None:
    mail = DECLARED.model_copy(update={"claim": "email", "domain": "example.org"})
    provider = Provider()
    provider.claims |= {"email": "kim@Example.org", "email_verified": True}
    assert provider.user(mail) == "kim"
    for address in ("kim@example.com", "@example.org", "kim", "kim@example.org@evil.org"):
        provider.claims["email"] = address
        with pytest.raises(CorralError, match=r"only people of example\.org"):
            provider.user(mail)
    provider.claims["email"] = "kim@example.org"
    for verified in (False, None, "true", 1):
        provider.claims["email_verified"] = verified
        with pytest.raises(CorralError, match="has not verified"):
            provider.user(mail)


def test_an_account_of_an_open_provider_is_managed_by_the_domain() -> None:
    open_to_all = {
        "claim": "email",
        "domain": "example.org",
        "issuer": "https://accounts.google.com",
    }
    mail = DECLARED.model_copy(update=open_to_all)
    claims = {"email": "kim@example.org", "email_verified": True}
    with pytest.raises(CorralError, match=r"only people of example\.org"):
        user_of(claims, mail)
    assert user_of({**claims, "hd": "example.org"}, mail) == "kim"
    assert managed_by(mail.issuer + "/") == "hd"
    assert managed_by(DECLARED.issuer) == ""


def test_a_used_code_is_refused_and_a_long_answer_is_not_read() -> None:
    provider = Provider()
    provider.status = 400
    with pytest.raises(CorralError) as raised:
        provider.user()
    assert raised.value.code is Code.LOGIN_REFUSED
    provider = Provider()
    provider.description["more"] = "x" * (1 << 20)
    with pytest.raises(CorralError, match="not understood"):
        provider.user()


@pytest.mark.parametrize("text", [None, "not a certificate"])
def test_an_authority_that_is_not_there(tmp_path: Path, text: str | None) -> None:
    """It was "the helper failed": of a file in a home, which the program did not see."""
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CorralError) as raised:
        Provider().user(DECLARED.model_copy(update={"ca": str(file)}))
    assert raised.value.message == "this way to log in is not set up right"
    assert str(file) in raised.value.tail


def test_no_redirect_is_followed() -> None:
    def elsewhere(request: httpx.Request) -> httpx.Response:
        assert request.url.host == "login.example.org"
        return httpx.Response(302, headers={"location": "https://evil.example.org/"})

    async def work() -> None:
        await OidcClient(DECLARED, httpx.MockTransport(elsewhere)).provider()

    with pytest.raises(CorralError, match="not understood"):
        run(work())


def test_a_handshake_is_one_browsers_for_ten_minutes() -> None:
    now = [1_000_000.0]
    here, other = Handshakes(lambda: now[0]), Handshakes(lambda: now[0])
    first, second = here.begin(), here.begin()
    assert len({first.state, first.nonce, first.verifier, second.state, first.cookie}) == 5
    assert 43 <= len(first.verifier) <= 128
    assert here.known(first.cookie, first.state) == first
    assert here.known(first.cookie, second.state) is None
    assert here.known(second.cookie, first.state) is None
    assert other.known(first.cookie, first.state) is None, "of another server"
    later = f"{int(now[0]) + 5000:x}.{first.cookie.partition('.')[2]}"
    assert here.known(later, first.state) is None, "a time that was changed"
    for cookie in ("", ".", "x", "x.y", "-1.a", first.cookie.partition(".")[2]):
        assert here.known(cookie, first.state) is None
        assert here.known(cookie, "") is None
    now[0] += AWAY_S
    assert here.known(first.cookie, first.state) is None


def test_an_arrival_is_asked_for_once_and_soon() -> None:
    now = [1.0]
    arrivals = Arrivals(lambda: now[0])
    login = Login("kim", "a")
    key = arrivals.add(login)
    assert arrivals.take("x") is None
    assert arrivals.take(key) == login
    assert arrivals.take(key) is None
    late = arrivals.add(login)
    now[0] += ARRIVED_S
    assert arrivals.take(late) is None
    keys = [arrivals.add(login) for _ in range(MOST + 1)]
    assert arrivals.take(keys[0]) is None, "no more than so many wait"
    assert arrivals.take(keys[-1]) == login


def test_failures_push_out_no_login() -> None:
    """Anybody causes them: the address that a provider sends back to takes a visit without one."""
    now = [100.0]
    arrivals = Arrivals(lambda: now[0])
    login = Login("kim", "token")
    key = arrivals.add(login)
    refused = CorralError(Code.LOGIN_REFUSED, "no")
    keys = [arrivals.add(refused) for _ in range(MOST + 1)]
    assert arrivals.take(keys[0]) is None
    assert arrivals.take(keys[-1]) is refused
    assert arrivals.take(key) == login
    now[0] += ARRIVED_S
    assert arrivals.take(keys[-2]) is None
    arrivals.add(refused)
    assert len(arrivals._failures) == 1
