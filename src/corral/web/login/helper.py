# Installed as: a module of Corral's own environment on the controller (/opt/corral/web)
# Started by: corral-web-login@.service, for each connection to its socket
# Runs as: root
"""Makes Slurm tokens for people whom it has checked itself: one login, one process.

systemd starts it for each connection to its socket, which only the page's own user may open
(``roles/services/page.py``). It takes one line of JSON, which must be a proof of who logs in, never
a bare name: a page that somebody took over gets no tokens of people who do not log in meanwhile.
It makes none for root and the system's users (docs/decisions/0057).
"""

from __future__ import annotations

import asyncio
import hmac
import resource
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.spec.sections.page_login import PageLogin
from corral.web.login import pam
from corral.web.login.person import person
from corral.web.login.question import LONGEST, ByCode, ByHeader, ByPassword, ForProvider, Question
from corral.web.login.secret_file import secret_of
from corral.web.login.slurm_token import mint
from corral.web.settings import Settings
from corral.web.slurm.slurmrest import Login, dumps

if TYPE_CHECKING:
    from corral.web.login.oidc import OidcClient

SETTINGS: Final = Path("/etc/corral/web.json")
SHORTEST: Final = 32
"""Characters of a proxy's secret."""

Mint = Callable[[str, int], Awaitable[Login]]


def main() -> None:
    """Answer one question."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        question = Question.model_validate_json(sys.stdin.buffer.readline(LONGEST))
        settings = Settings.model_validate_json(SETTINGS.read_text())
        spec = ClusterSpec.model_validate(settings.spec)
        ways = spec.services.page.login
        reply = asyncio.run(answer(question, ways, int(settings.session_s), mint))
    except CorralError as error:
        reply = refusal(error)
    except (ValidationError, OSError, UnicodeError) as error:
        # Not the error's text: of a question it would repeat a secret.
        print(f"corral: {type(error).__name__}", file=sys.stderr)
        reply = {"error": {"code": Code.COMMAND_FAILED.value, "message": "the helper failed"}}
    sys.stdout.buffer.write(dumps(reply) + b"\n")


def refusal(error: CorralError) -> dict[str, Any]:
    """An error as the page gets it: what its tail states about this machine is for the log."""
    if error.tail:
        print(f"corral: {error.message}: {error.tail}", file=sys.stderr)
    return {"error": {**error.as_dict(), "tail": ""}}


async def answer(
    question: Question, ways: PageLogin, seconds: int, make: Mint = mint
) -> dict[str, Any]:
    """User and token of who has proven to be that user; or where the OpenID provider is.

    Args:
        question: with the proof.
        ways: the cluster file's.
        seconds: how long the token is good.
        make: makes the token.

    Raises:
        CorralError: LOGIN_REFUSED, the proof is wrong or the user unknown; FORBIDDEN, no person's
            account; NOT_FOUND, nobody logs in this way here; UNREACHABLE.
    """
    ask = question.ask
    if isinstance(ask, ForProvider):
        return await _provider(ways)
    user = person(await _proven(ask, ways), ways.groups)
    pam.check_account(user, by_password=isinstance(ask, ByPassword))
    login = await make(user, seconds)
    return {"user": login.user, "token": login.token}


async def _proven(ask: ByHeader | ByCode | ByPassword, ways: PageLogin) -> str:
    """The name of who has proven to be that user."""
    if isinstance(ask, ByCode):
        return await _oidc(ways).user(ask)
    if isinstance(ask, ByPassword):
        return _by_password(ask, ways)
    return _by_header(ask, ways)


def _by_password(ask: ByPassword, ways: PageLogin) -> str:
    """All that is wrong before the password is right has one sentence, whatever it is."""
    if not ways.passwords:
        raise CorralError(
            Code.NOT_FOUND, "nobody logs in by a password here", hint="log in with a token"
        )
    try:
        user = person(ask.user, ())  # PAM is never asked about root
    except CorralError:
        user = ""
    if not user or not pam.right(user, ask.password):
        raise CorralError(
            Code.LOGIN_REFUSED,
            "name or password is wrong, or the account is locked",
            hint="try again, or log in with a token",
        )
    return user


def _oidc(ways: PageLogin) -> OidcClient:
    if ways.oidc is None:
        raise CorralError(
            Code.NOT_FOUND, "nobody logs in by a provider here", hint="log in with a token"
        )
    from corral.web.login.oidc import OidcClient  # noqa: PLC0415  # cryptography takes a while

    return OidcClient(ways.oidc)


async def _provider(ways: PageLogin) -> dict[str, Any]:
    provider = await _oidc(ways).provider()
    return {"authorize": provider.authorize, "end": provider.end}


def _by_header(ask: ByHeader, ways: PageLogin) -> str:
    if ways.header is None:
        raise CorralError(
            Code.NOT_FOUND, "nobody logs in by a proxy here", hint="log in with a token"
        )
    kept = secret_of(ways.header.secret_file, shortest=SHORTEST)
    if not hmac.compare_digest(kept.encode(), ask.secret.encode()):
        raise CorralError(
            Code.LOGIN_REFUSED,
            "the reverse proxy does not send the secret of this page",
            hint="ask who runs the proxy",
        )
    return ask.user


if __name__ == "__main__":
    main()
