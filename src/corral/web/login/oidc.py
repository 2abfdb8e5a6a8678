"""The client of an OpenID provider: authorisation code with PKCE (OpenID Connect Core 1.0, 3.1).

Root's program asks, so that the page has neither the client's secret nor an ID token. Each login
asks for the provider's description and keys again: a replaced key does no harm.
"""

from __future__ import annotations

import hmac
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote

import httpx
import jwt

from corral.errors import BAD_JSON, Code, CorralError
from corral.spec.sections.page_login import OidcLogin
from corral.tables import Row, read_table
from corral.web.login.question import ByCode
from corral.web.login.secret_file import secret_of, unusable

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "EdDSA",
)
"""With a public key: none with a shared secret, and not "none"."""
LEEWAY_S: Final = 60
TIMEOUT_S: Final = 10.0
LONGEST: Final = 1 << 20
OK: Final = 200
REQUIRED: Final = ("iss", "sub", "aud", "exp", "iat")

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Provider:
    """What the provider's description states.

    Attributes:
        authorize, token, keys: addresses.
        userinfo, end: addresses; "" where it has none.
        basic: the client's secret goes into a header, else into the body.
    """

    authorize: str
    token: str
    keys: str
    userinfo: str
    end: str
    basic: bool


class OidcClient:
    """This page at its provider.

    Args:
        declared: the cluster file's.
        transport: httpx's, for tests; None: the network.
    """

    def __init__(
        self, declared: OidcLogin, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._declared = declared
        self._transport = transport

    async def provider(self) -> Provider:
        """The provider's description.

        Raises:
            CorralError: UNREACHABLE; PARSE_FAILED, it is not this issuer's.
        """
        async with self._http() as http:
            return await self._provider(http)

    async def user(self, ask: ByCode) -> str:
        """The user of this cluster whom the provider means.

        Raises:
            CorralError: LOGIN_REFUSED, the code or the ID token is not good, or names nobody;
                UNREACHABLE; PARSE_FAILED.
        """
        async with self._http() as http:
            provider = await self._provider(http)
            tokens = await self._exchanged(http, provider, ask)
            keys = await _json(http.build_request("GET", provider.keys), http, "its keys")
            claims = self._checked(str(tokens.get("id_token", "")), keys, ask.nonce)
            if self._declared.claim not in claims and provider.userinfo:
                claims = await _user_info(http, provider, claims, tokens)
        return user_of(claims, self._declared)

    def _http(self) -> httpx.AsyncClient:
        try:
            trusted = ssl.create_default_context(cafile=self._declared.ca)
        except OSError as error:  # ssl.SSLError is one
            raise unusable(f"{self._declared.ca}: {error}") from error
        return httpx.AsyncClient(
            verify=trusted,
            transport=self._transport,
            timeout=TIMEOUT_S,
            follow_redirects=False,
            trust_env=False,
        )

    async def _provider(self, http: httpx.AsyncClient) -> Provider:
        issuer = self._declared.issuer
        address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        answered = await _json(http.build_request("GET", address), http, "its description")
        if answered.get("issuer") != issuer:
            raise _unread(f"its description is of {answered.get('issuer')!r}, not of {issuer!r}")
        methods = answered.get("token_endpoint_auth_methods_supported")
        return Provider(
            authorize=_address(answered, "authorization_endpoint"),
            token=_address(answered, "token_endpoint"),
            keys=_address(answered, "jwks_uri"),
            userinfo=_address(answered, "userinfo_endpoint", needed=False),
            end=_address(answered, "end_session_endpoint", needed=False),
            basic=not isinstance(methods, list) or "client_secret_basic" in methods,
        )

    async def _exchanged(self, http: httpx.AsyncClient, provider: Provider, ask: ByCode) -> Claims:
        declared = self._declared
        secret = secret_of(declared.secret_file) if declared.secret_file else ""
        form = {
            "grant_type": "authorization_code",
            "code": ask.code,
            "redirect_uri": ask.redirect,
            "code_verifier": ask.verifier,
        }
        login = None
        if secret and provider.basic:
            login = httpx.BasicAuth(quote(declared.client, safe=""), quote(secret, safe=""))
        else:
            form |= {"client_id": declared.client} | ({"client_secret": secret} if secret else {})
        request = http.build_request("POST", provider.token, data=form)
        return await _json(request, http, "the login", login)

    def _checked(self, token: str, keys: Claims, nonce: str) -> Claims:
        """The claims of an ID token that is the provider's, for this page and for this login."""
        declared = self._declared
        try:
            header = jwt.get_unverified_header(token)
            key = _key_of(header, keys)
            claims: Claims = jwt.decode(
                token,
                key,
                algorithms=[header["alg"]],
                audience=declared.client,
                issuer=declared.issuer,
                leeway=LEEWAY_S,
                options={"require": list(REQUIRED)},
            )
        except (jwt.PyJWTError, *BAD_JSON) as error:
            raise _refused(f"ID token: {type(error).__name__}: {error}") from error
        audience = claims["aud"]
        several = isinstance(audience, list) and len(cast("list[Any]", audience)) > 1
        if (several or "azp" in claims) and claims.get("azp") != declared.client:
            raise _refused("ID token: made for another client (azp)")
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise _refused("ID token: of another login (nonce)")
        return claims


class OpenIssuer(Row):
    """A provider whose accounts may have an address of any organisation.

    Attributes:
        issuer: its address.
        claim: the organisation that manages the account; left out of the claims where none does.
    """

    issuer: str
    claim: str


def open_issuers() -> tuple[OpenIssuer, ...]:
    """All that are known."""
    return read_table("corral.web.login", "open_issuers.yaml", tuple[OpenIssuer, ...])


def managed_by(issuer: str) -> str:
    """The claim that states who manages an account of such a provider, "" for other providers."""
    return next((row.claim for row in open_issuers() if row.issuer == issuer.rstrip("/")), "")


def user_of(claims: Claims, declared: OidcLogin) -> str:
    """The user's name in the claims.

    Raises:
        CorralError: LOGIN_REFUSED, there is none.
    """
    value = claims.get(declared.claim)
    if not isinstance(value, str) or not value:
        raise CorralError(
            Code.LOGIN_REFUSED,
            f"the login provider names no user of the cluster: it sends no {declared.claim}",
            hint="ask who runs the cluster: services.page.login.oidc has claim and scopes",
        )
    if declared.claim == "email" and claims.get("email_verified") is not True:
        raise CorralError(
            Code.LOGIN_REFUSED,
            "the login provider has not verified your e-mail address",
            hint="verify it there, and log in again",
        )
    if declared.domain is None:
        return value
    name, _, domain = value.rpartition("@")
    managed = managed_by(declared.issuer)
    other = managed and claims.get(managed) != declared.domain
    if domain.lower() != declared.domain.lower() or not name or other:
        raise CorralError(
            Code.LOGIN_REFUSED,
            f"only people of {declared.domain} log in here",
            hint="log in there with another account",
        )
    return name


def _key_of(header: Mapping[str, Any], keys: Claims) -> jwt.PyJWK:
    """The provider's key of a token; without a name it must be the only one that fits."""
    if header.get("alg") not in ALGORITHMS:
        raise jwt.InvalidAlgorithmError(f"algorithm {header.get('alg')!r}")
    known = [key for key in jwt.PyJWKSet.from_dict(dict(keys)).keys if _signs(key, header)]
    if len(known) != 1:
        raise jwt.InvalidKeyError(f"{len(known)} keys of the provider fit")
    return known[0]


def _signs(key: jwt.PyJWK, header: Mapping[str, Any]) -> bool:
    families = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
    if key.public_key_use not in (None, "sig") or key.key_type != families[header["alg"][:2]]:
        return False
    return "kid" not in header or key.key_id == header["kid"]


async def _user_info(
    http: httpx.AsyncClient, provider: Provider, claims: Claims, tokens: Claims
) -> Claims:
    """The claims that the provider sends apart (5.3); they are this person's where sub is."""
    bearer = {"authorization": f"Bearer {tokens.get('access_token', '')}"}
    request = http.build_request("GET", provider.userinfo, headers=bearer)
    answered = await _json(request, http, "who you are")
    if answered.get("sub") != claims["sub"]:
        raise _refused("userinfo: of another person (sub)")
    return answered


async def _json(
    request: httpx.Request,
    http: httpx.AsyncClient,
    what: str,
    login: httpx.BasicAuth | None = None,
) -> Claims:
    """An object that the provider answers.

    Raises:
        CorralError: UNREACHABLE; LOGIN_REFUSED, it refuses the login; PARSE_FAILED.
    """
    try:
        reply = await http.send(request, auth=login, stream=True)
        data = bytearray()
        async for part in reply.aiter_bytes():
            data += part
            if len(data) > LONGEST:
                raise _unread(f"{request.url}: more than {LONGEST >> 20} MiB")
        await reply.aclose()
    except (httpx.HTTPError, OSError) as error:
        raise CorralError(
            Code.UNREACHABLE,
            "the login provider does not answer",
            tail=f"{request.url}: {type(error).__name__}: {error}",
            hint="try again later, or log in with a token",
        ) from error
    try:
        body: Any = json.loads(data)
    except BAD_JSON:
        body = None
    if reply.status_code != OK:
        why = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else ""
        if request.method == "POST":
            raise _refused(f"{request.url}: {reply.status_code} {why}")
        raise _unread(f"{request.url}: status {reply.status_code} {why}")
    if not isinstance(body, dict):
        raise _unread(f"{request.url}: not an object of JSON, asked for {what}")
    return cast("dict[str, Any]", body)


def _address(answered: Claims, name: str, *, needed: bool = True) -> str:
    value = answered.get(name)
    if isinstance(value, str) and value.startswith("https://"):
        return value
    if needed or value is not None:
        raise _unread(f"{name} is {value!r}: not an https address")
    return ""


def _refused(why: str) -> CorralError:
    return CorralError(
        Code.LOGIN_REFUSED,
        "the login provider's answer is not good for this login",
        tail=why,
        hint="log in again; if it stays so, on the controller: journalctl -u 'corral-web-login@*'",
    )


def _unread(why: str) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        "the login provider's answer is not understood",
        tail=why,
        hint="on the controller: journalctl -u 'corral-web-login@*'",
    )
