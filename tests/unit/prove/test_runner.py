"""The runner: order, sharing, skipping, and going on to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.hosts.fleet import Fleet
from corral.prove.check import ALL_CORES, Check, Cores
from corral.prove.context import ProveContext, failed, passed, skipped, warned
from corral.prove.model import CheckResult, Judgement, Proof, Verdict
from corral.prove.runner import prove
from corral.spec.models import ClusterSpec
from tests.embedded.prove_record import Replayed, Unreachable

SPEC = ClusterSpec.model_validate(
    {
        "corral": "v1",
        "name": "lab",
        "groups": [{"name": "g", "provider": "embedded", "nodes": "node[0-1]"}],
    }
)
Measure = Callable[[ProveContext], Awaitable[Judgement]]


def context() -> tuple[ProveContext, Replayed]:
    node = Replayed("node0", {"clean": (0, "", "")})
    return ProveContext(SPEC, Fleet({"node0": node}), "node0", "corral", {}), node


def giving(judged: Judgement) -> Measure:
    async def measure(ctx: ProveContext) -> Judgement:
        return judged

    return measure


def check(
    id_: str,
    measure: Measure | None = None,
    needs: tuple[str, ...] = (),
    cores: int = 0,
    reason: str = "",
) -> Check:
    return Check(
        id_,
        id_.upper(),
        "smoke",
        "p",
        "h",
        "b",
        "what to do",
        measure or giving(passed("fine")),
        lambda _: reason,
        needs,
        cores,
    )


def proved(*checks: Check, events: list[Event] | None = None) -> dict[str, CheckResult]:
    async def run() -> Proof:
        ctx, _ = context()
        return await prove(ctx, checks, (events if events is not None else []).append, at=7.0)

    proof = asyncio.run(run())
    assert (proof.cluster, proof.at) == ("lab", 7.0)
    assert [r.check for r in proof.results] == [c.id for c in checks]
    return {r.check: r for r in proof.results}


def test_verdicts_and_hints() -> None:
    seen = proved(
        check("a"),
        check("b", giving(failed("broken"))),
        check("c", giving(warned("slow"))),
        check("d", giving(skipped("not here"))),
    )
    assert {k: (r.verdict.value, r.hint) for k, r in seen.items()} == {
        "a": ("pass", ""),
        "b": ("fail", "what to do"),
        "c": ("warn", "what to do"),
        "d": ("skip", ""),
    }


def test_a_check_that_raises_fails_and_the_others_go_on() -> None:
    async def broken(ctx: ProveContext) -> Judgement:
        raise ZeroDivisionError("oops")

    async def lost(ctx: ProveContext) -> Judgement:
        raise CorralError(Code.TIMED_OUT, "no answer", node="node1", command="srun", tail="last")

    seen = proved(check("a", broken), check("b", lost), check("c"))
    assert [seen[k].verdict for k in "abc"] == [Verdict.FAIL, Verdict.FAIL, Verdict.PASS]
    assert "oops" in seen["a"].summary
    evidence = seen["b"].evidence[0]
    assert (evidence.node, evidence.command, evidence.output) == ("node1", "srun", "last")
    assert evidence.figures["code"] == "timed-out"


def test_needs() -> None:
    seen = proved(
        check("after-fail", needs=("bad",)),
        check("after-skip", needs=("after-fail",)),
        check("after-warn", needs=("warned",)),
        check("after-unchosen", needs=("elsewhere",)),
        check("bad", giving(failed("broken"))),
        check("warned", giving(warned("slow"))),
    )
    assert seen["after-fail"].verdict is Verdict.SKIP
    assert seen["after-fail"].summary == "needs bad, which failed"
    assert seen["after-skip"].summary == "needs after-fail, which was skipped"
    assert seen["after-warn"].verdict is Verdict.PASS
    assert seen["after-unchosen"].verdict is Verdict.PASS


def test_what_does_not_apply_is_skipped_with_the_reason() -> None:
    result = proved(check("a", giving(failed("never run")), reason="no GPU"))["a"]
    assert (result.verdict, result.summary) == (Verdict.SKIP, "no GPU")


def test_checks_that_need_each_other_are_refused() -> None:
    with pytest.raises(CorralError) as raised:
        proved(check("a", needs=("b",)), check("b", needs=("a",)))
    assert raised.value.code is Code.USAGE


def test_side_by_side_unless_they_disturb_each_other() -> None:
    running: set[str] = set()
    together: set[frozenset[str]] = set()

    def work(name: str) -> Measure:
        async def measure(ctx: ProveContext) -> Judgement:
            running.add(name)
            for _ in range(5):
                await asyncio.sleep(0)
                together.add(frozenset(running))
            running.remove(name)
            return passed("done")

        return measure

    proved(
        check("read", work("read")),
        check("one", work("one"), cores=1),
        check("two", work("two"), cores=1),
        check("whole", work("whole"), cores=ALL_CORES),
        check("pair", work("pair"), cores=2),
    )
    assert any({"read", "one", "two"} <= group for group in together)
    jobs = [group - {"read"} for group in together]
    assert all(len(group) <= 1 for group in jobs if group & {"whole", "pair"})


def test_cores_are_released_after_a_failure() -> None:
    async def broken(ctx: ProveContext) -> Judgement:
        raise ZeroDivisionError

    seen = proved(check("a", broken, cores=ALL_CORES), check("b", cores=ALL_CORES))
    assert seen["b"].verdict is Verdict.PASS


def test_a_share_larger_than_all_is_all() -> None:
    async def run() -> None:
        cores = Cores(2)
        taken = await cores.take(ALL_CORES)
        assert taken == 2
        await cores.give(taken)
        assert await cores.take(1) == 1

    asyncio.run(run())


def test_events() -> None:
    events: list[Event] = []
    proved(check("a"), check("b", giving(failed("broken"))), events=events)
    assert {(e.kind, e.subject, e.total) for e in events} == {
        (kind, name, 2) for kind in (Kind.CHECK_STARTED, Kind.CHECK_DONE) for name in "ab"
    }
    done = {e.subject: e for e in events if e.kind is Kind.CHECK_DONE}
    assert done["b"].message == "fail: broken"
    assert done["b"].seconds is not None


def test_shared_work_runs_once_and_its_error_reaches_all() -> None:
    calls: list[int] = []

    async def shared() -> str:
        calls.append(1)
        await asyncio.sleep(0)
        raise CorralError(Code.TIMED_OUT, "no answer")

    async def measure(ctx: ProveContext) -> Judgement:
        await ctx.once("look", shared)
        return passed("never")

    seen = proved(check("a", measure), check("b", measure))
    assert len(calls) == 1
    assert {r.verdict for r in seen.values()} == {Verdict.FAIL}


def test_cleans_up_also_when_cancelled() -> None:
    async def run() -> list[str]:
        ctx, node = context()
        begun = asyncio.Event()

        async def shared() -> str:
            await asyncio.Event().wait()
            return "never"

        async def forever(ctx: ProveContext) -> Judgement:
            begun.set()
            await ctx.once("work", shared)
            return passed("never")

        task = asyncio.create_task(prove(ctx, [check("a", forever)], lambda _: None, at=1.0))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return node.asked

    assert asyncio.run(run()) == ["clean"]


def test_a_lost_controller_does_not_break_the_proof() -> None:
    async def run() -> Proof:
        error = CorralError(Code.UNREACHABLE, "gone", node="node0")
        fleet = Fleet({"node0": Unreachable("node0", error)})
        ctx = ProveContext(SPEC, fleet, "node0", "corral", {})
        return await prove(ctx, [check("a")], lambda _: None, at=1.0)

    assert asyncio.run(run()).good
