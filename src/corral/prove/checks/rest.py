"""REST: slurmrestd answers who has a token, refuses who has none, and listens on loopback only."""

from __future__ import annotations

from typing import Final

from corral.agents import program
from corral.hosts.quote import sh
from corral.hosts.transport import Result
from corral.inspect.machine import LISTENING
from corral.inspect.question import MachineState
from corral.prove.context import ProveContext, clip, failed, output_of, verdict_of
from corral.prove.model import Evidence, Figure, Judgement
from corral.prove.probe import lines
from corral.prove.survey import survey

PORT: Final = 6820
SERVER_ERROR = 500
OK, BAD = 200, 400  # HTTP: an answer; from BAD on a refusal or an error
REFUSED: Final = frozenset({401, 403, 511})  # 511: a forged token, refused by slurmctld (24.11)


async def asked(ctx: ProveContext) -> Result:
    """Ask slurmrestd with a token, without, and with a wrong one; once per proof."""
    return await ctx.once("rest", lambda: _ask(ctx))


async def _ask(ctx: ProveContext) -> Result:
    script = sh(
        "timeout 15 scontrol token username={user} lifespan=60"
        " | timeout 20 perl -e {ask} {port} {user} {node}",
        user=ctx.person,
        ask=program("proof-rest.pl"),
        port=PORT,
        node=ctx.compute[0] if ctx.compute else ctx.controller,
    )
    return await ctx.control(script)


async def answers(ctx: ProveContext) -> Judgement:
    result = await asked(ctx)
    return judge_answers(result.stdout, _evidence(ctx, result))


async def refuses(ctx: ProveContext) -> Judgement:
    result = await asked(ctx)
    return judge_refuses(result.stdout, _evidence(ctx, result))


async def loopback(ctx: ProveContext) -> Judgement:
    return judge_loopback((await survey(ctx)).nodes[ctx.controller])


def parse_answers(text: str) -> dict[str, tuple[int, bool, str]]:
    """What was asked to (HTTP status, whether the node's record came, error text)."""
    responses: dict[str, tuple[int, bool, str]] = {}
    for key, rest in lines(text):
        match rest.split(" ", 2):
            case [code, has, *more] if code.isdigit() and has in {"0", "1"}:
                responses[key] = int(code), has == "1", more[0].strip() if more else ""
            case _:
                pass
    return responses


def judge_answers(text: str, shown: Evidence) -> Judgement:
    """With a token the node's record comes."""
    code, has, error = parse_answers(text).get("token", (0, False, "no answer"))
    problems: list[str] = []
    if any(key == "notoken" for key, _ in lines(text)):
        problems.append("scontrol returned no token")
    if code == 0:
        problems.append(f"nothing answers on port {PORT}")
    elif code != OK:
        problems.append(f"a valid token is answered with {code} {error}".rstrip())
    elif not has:
        problems.append("the response lacks the requested node")
    return verdict_of(problems, "a request with a token is answered", shown)


def judge_refuses(text: str, shown: Evidence) -> Judgement:
    """Without a token, and with a forged one, nothing comes."""
    responses = parse_answers(text)
    problems: list[str] = []
    code, has, _ = responses.get("token", (0, False, ""))
    # 23.11 turns slurmctld's refusal of a forged token into "500 Unable to connect to database".
    # That counts only where a good token gets its answer from the same slurmrestd.
    forged = REFUSED | {SERVER_ERROR} if code == OK and has else REFUSED
    refused = {"none": REFUSED, "wrong": forged}
    for what, words in (("none", "without a token"), ("wrong", "with a forged token")):
        code, has, error = responses.get(what, (0, False, "no answer"))
        if has or OK <= code < BAD:
            problems.append(f"a request {words} is answered ({code})")
        elif code not in refused[what]:
            problems.append(f"a request {words} is not refused but got {code} {error}".rstrip())
    return verdict_of(problems, "requests without a valid token are refused", shown)


def judge_loopback(controller: MachineState) -> Judgement:
    """The port of slurmrestd is open on loopback and on no other address."""
    sockets = controller.get(LISTENING)
    those = [socket for socket in sockets or () if socket.port == PORT]
    addresses = ", ".join(str(socket.address) for socket in those)
    figures: dict[str, Figure] = {"listening": addresses or "nowhere"}
    text = clip(controller.text(LISTENING))
    shown = Evidence(controller.node, "cat /proc/net/tcp /proc/net/tcp6", text, figures)
    if not sockets:
        return failed("the listening sockets could not be read", shown)
    if not those:
        return failed(f"nothing listens on port {PORT}", shown)
    problems = [f"port {PORT} is open on {each.address}" for each in those if not each.is_loopback]
    return verdict_of(problems, f"port {PORT} is open on loopback only", shown)


def _evidence(ctx: ProveContext, result: Result) -> Evidence:
    responses = parse_answers(result.stdout)
    figures: dict[str, Figure] = {what: code for what, (code, _, _) in responses.items()}
    command = (
        f"scontrol token username={ctx.person} lifespan=60 | GET http://127.0.0.1:{PORT}"
        "/slurm/v0.0.NN/node/NAME with, without and with a wrong token"
    )
    return Evidence(ctx.controller, command, output_of(result), figures)
