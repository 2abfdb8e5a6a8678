"""Hours, shares and idle GPUs of jobs, out of records alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from corral.api.operations.nodes import CommandResult
from corral.errors import CorralError
from corral.slurm.job_use import JobUse
from corral.slurm.policy import Limit, Member
from corral.slurm.records import Association, Job
from corral.slurm.rest import policy
from corral.web import figures
from corral.web.figures import BySsh, Prometheus
from corral.web.settings import Declared
from corral.web.slurm import commands, efficiency, quota
from corral.web.slurm.commands import ByCommands
from corral.web.slurm.efficiency import DAY_S, GpuUse
from corral.web.slurm.slurmrest import Login
from tests.unit.web.fake import RECORDED

NOW = 100 * DAY_S


def job(number: int, start: float, end: float | None, **more: Any) -> Job:
    state = "COMPLETED" if end is not None else "RUNNING"
    made: dict[str, Any] = {"cpus": 4, "gpus": 2, "user": "kim", "state": state, **more}
    return Job(number, str(number), start_at=int(start), end_at=end and int(end), **made)


def test_hours_are_of_the_period_alone() -> None:
    jobs = [
        job(1, NOW - 8 * DAY_S, NOW - 6 * DAY_S),  # half of it is in the week
        job(2, NOW - 20 * DAY_S, NOW - 19 * DAY_S),
        job(3, NOW - 3600, None),
        job(4, NOW - 3600, NOW + 9000, state="RUNNING"),  # slurmctld: its end by its limit
        Job(5, "5", state="PENDING", start_at=int(NOW - 99), gpus=8, cpus=8),
    ]
    week = efficiency.hours(jobs, 7, NOW)
    assert (week["jobs"], week["gpu_hours"], week["cpu_hours"]) == (3, 52.0, 104.0)
    assert efficiency.hours(jobs, 30, NOW)["gpu_hours"] == 2 * (48 + 24 + 2)
    unknown = [job(6, NOW - 3600, None, gpus=0, gpus_exact=False)]
    assert efficiency.hours(unknown, 7, NOW)["gpus_exact"] is False


def test_the_steps_of_the_newest_jobs_alone_are_asked_for() -> None:
    jobs = [job(n, NOW - 9000, NOW - n) for n in range(1, efficiency.MOST + 100)]
    ended = efficiency.newest(jobs, 7, NOW)
    assert len(ended.entries) == efficiency.MOST
    assert ended.cut
    assert ended.entries[0][0].id == 1
    assert ended.seconds == efficiency.MOST + 60
    none = efficiency.newest([], 7, NOW)
    assert (none.entries, none.measured, none.seconds, none.cut) == ([], [], 60, False)
    assert not efficiency.newest([job(1, NOW - 9 * DAY_S, NOW - 8 * DAY_S)], 7, NOW).entries


def tasks(array: int, count: int, end: float | None, **more: Any) -> list[Job]:
    """The tasks of an array, each with its number."""
    made = [job(array + n, NOW - 7200, end and end - n, **more) for n in range(count)]
    return [replace(task, label=f"{array}_{n}") for n, task in enumerate(made)]


def test_a_sweep_is_one_entry_and_hides_no_older_job() -> None:
    """600 tasks were all 500 jobs of the answer."""
    older = job(1, NOW - 2 * DAY_S, NOW - DAY_S)
    ended = efficiency.newest([older, *tasks(1000, 600, NOW)], 7, NOW)
    assert [len(entry) for entry in ended.entries] == [600, 1]
    assert not ended.cut
    assert len(ended.measured) == 601
    assert ended.seconds == DAY_S + 60
    huge = efficiency.newest([older, *tasks(1000, efficiency.MEASURED + 9, NOW)], 7, NOW)
    assert [len(entry) for entry in huge.entries] == [efficiency.MEASURED + 9, 1]
    assert len(huge.measured) == efficiency.MEASURED
    assert huge.seconds == efficiency.MEASURED - 1 + 60, "the older ones are listed, not measured"


def test_the_shares_of_a_sweep_are_those_of_its_measured_tasks() -> None:
    short, long, unknown = tasks(1000, 3, NOW, memory=1024)
    short = replace(short, start_at=short.end_at - 3600)
    long = replace(long, start_at=long.end_at - 3 * 3600)
    uses = {short.id: JobUse(4 * 3600.0, 512.0), long.id: JobUse(0.0, 1024.0)}
    row = efficiency.row([short, long, unknown], uses, {long.id: 3 * 3600.0})
    assert (row["array"]["array"], row["array"]["tasks"], row["measured"]) == ("1000", 3, 2)
    assert row["cpu"] == pytest.approx(1 / 4), "one hour in full, three not at all"
    assert row["cpu_waste"] == pytest.approx(12.0)
    assert row["memory_used"] == pytest.approx((0.5 * 1 + 1.0 * 3) / 4)
    assert (row["gpu"], row["gpu_waste"]) == (0.5, 3.0)
    assert row["elapsed"] == sum(efficiency.seconds_of(j, 0) for j in (short, long, unknown))


def test_the_running_tasks_of_a_sweep_are_one_row_with_all_its_gpus() -> None:
    ran = [replace(task, nodes=f"n{n}") for n, task in enumerate(tasks(1000, 3, None))]
    given = [replace(task, gres_detail=("gpu:2(IDX:0-1)",)) for task in ran]
    use = GpuUse({("n0", 0): 0.5, ("n0", 1): 0.0, ("n1", 0): 0.0, ("n1", 1): 0.5}, {})
    row = efficiency.running(given, use, NOW)
    assert (row["array"]["tasks"], row["gpus"], row["cpus"], row["known"]) == (3, 6, 12, 4)
    assert (row["use"], row["idle_count"]) == (0.25, 2)
    assert row["idle"] == [{"node": "n0", "index": 1}, {"node": "n1", "index": 0}]
    many = replace(given[0], nodes="m[0-99]", gres_detail=("gpu:2(IDX:0-1)",) * 100)
    row = efficiency.running([many], GpuUse({(f"m{n}", 0): 0.0 for n in range(100)}, {}), NOW)
    assert (row["array"] and row["array"]["tasks"], row["idle_count"]) == (1, 100)
    assert len(row["idle"]) == efficiency.NAMED


def test_shares_and_hours_that_were_not_used() -> None:
    ended = job(1, NOW - 3600, NOW, memory=4096)
    row = efficiency.row([ended], {1: JobUse(3600.0, 1024.0)}, {1: 1800.0})
    assert (row["cpu"], row["memory_used"], row["gpu"]) == (0.25, 0.25, 0.25)
    assert (row["cpu_waste"], row["gpu_waste"], row["memory_waste"]) == (3.0, 1.5, 3.0)
    assert row["array"] is None
    nothing = efficiency.row([ended], {}, {})
    assert nothing["cpu"] is nothing["gpu_waste"] is nothing["memory_waste"] is None
    more = efficiency.row([ended], {1: JobUse(36000.0, None)}, {})
    assert (more["cpu"], more["cpu_waste"]) == (2.5, 0.0), "threads beyond its share waste nothing"
    vague = job(2, NOW - 3600, NOW, gpus_exact=False)
    assert efficiency.row([vague], {}, {2: 9.0})["gpu"] is None


def test_idle_gpus_by_slurms_list_or_by_process() -> None:
    use = GpuUse(
        {("n1", 0): 0.9, ("n1", 1): 0.0, ("n2", 0): 0.0, ("n2", 1): 0.02},
        {("n2", 1): frozenset({"8"})},
    )
    by_list = job(7, NOW - 3600, None, nodes="n1", gres_detail=("gpu:h200:2(IDX:0-1)",))
    row = efficiency.running([by_list], use, NOW)
    assert (row["known"], row["use"]) == (2, 0.45)
    assert row["idle"] == [{"node": "n1", "index": 1}]
    by_process = efficiency.running([job(8, NOW - 3600, None, nodes="n2")], use, NOW)
    assert by_process["idle"] == [{"node": "n2", "index": 1}]
    nobody = efficiency.running([job(9, NOW - 3600, None, nodes="n3")], use, NOW)
    assert (nobody["known"], nobody["use"], nobody["idle"]) == (0, None, [])


def test_limits_of_a_partition_and_of_tasks_of_arrays() -> None:
    limits = (Limit("GrpSubmitJobs", "", 50), Limit("GrpTRES", "mem", 1000))
    member = Member(Association("lab", "kim", qos=("normal",)), "gpu", limits=limits)
    pending = Job(1, "1_[0-29]", state="PENDING", user="kim", account="lab", partition="gpu")
    jobs = (pending, job(2, 1, None, account="lab", partition="cpu", memory=99))
    row = quota.rows("kim", quota.grouped(jobs), (member,), None, None, all_seen=True)[0]
    cells = {cell["what"]: (cell["used"], cell["limit"]) for cell in row["cells"]}
    assert row["name"] == "lab in partition gpu"
    assert cells["submitted"] == (30, 50)
    assert cells["jobs"] == (0, None)
    assert cells["memory"] == (0, 1000)
    assert "nodes" not in cells


def test_jobs_are_counted_once_until_they_change() -> None:
    counted = quota.Counted()
    jobs = {1: job(1, 1, None, account="lab"), 2: job(2, 1, None, account="lab"), 3: job(3, 1, 2)}
    (group,) = counted.of(jobs)
    assert (group.user, group.account, group.use.jobs, group.use.of("cpus")) == ("kim", "lab", 2, 8)
    assert counted.of(jobs) is counted.of(jobs)
    assert counted.of(dict(jobs)) is not counted.of(jobs)


def test_prometheus_is_asked_for_named_nodes_and_jobs() -> None:
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        query = request.url.params["query"]
        asked.append(query)
        if query.startswith("avg_over_time"):
            rows = [({"node": "n.1", "gpu": "3"}, "0.5"), ({"node": "n.1", "gpu": "x"}, "1")]
        elif query.startswith("corral_gpu_job"):
            rows = [({"node": "n.1", "gpu": "3", "jobid": str(n)}, "1") for n in (7, 8)]
        else:
            rows = [({"jobid": "70", "of": "busy"}, "1200"), ({"jobid": "90", "of": "busy"}, "NaN")]
            rows += [({"jobid": str(n), "of": "measured"}, "1500") for n in (70, 80, 90)]
            rows += [({"jobid": "80", "of": "busy"}, "60"), ({"jobid": "99", "of": "busy"}, "60")]
        result = [{"metric": labels, "value": [1, value]} for labels, value in rows]
        return httpx.Response(200, json={"data": {"result": result}})

    source = Prometheus("http://prometheus", httpx.MockTransport(handle), "lab")
    use = asyncio.run(source.gpu_use(["n.1"]))
    assert use.shares == {("n.1", 3): 0.5}
    assert use.jobs == {("n.1", 3): frozenset({"7", "8"})}
    assert use.over_s == 600
    assert all(r'cluster="lab",node=~"n\\.1"' in query for query in asked)
    many = [job(n, 1, 1 + n, nodes="n.1", elapsed=1500 + n, gpus=1) for n in range(1, 100)]
    busy = asyncio.run(source.busy(many, 7))
    assert busy == {70: 1200.0, 80: 60.0}, "99 has no count of samples, and so no figure"
    assert r'jobid=~"99|98|' in asked[-1], "those with most GPU hours"
    assert asked[-1].count("|") == 2 * (figures.MOST_MEASURED - 1)
    assert "[691200s:60s])) * 60" in asked[-1]
    asyncio.run(source.busy(many, 30))
    assert "[2678400s:300s])) * 300" in asked[-1]
    calls = len(asked)
    assert asyncio.run(source.busy([job(1, 1, 2, gpus=0, elapsed=9000)], 7)) == {}
    assert asyncio.run(source.gpu_use([])).shares == {}
    assert len(asked) == calls


def test_a_job_of_few_samples_has_no_figure() -> None:
    """On an H200 one of 15 s was shown with 376 % of its GPU: a sample stands for a minute."""
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params["query"])
        return httpx.Response(200, json={"data": {"result": []}})

    source = Prometheus("http://prometheus", httpx.MockTransport(handle), "lab")
    jobs = [job(n, 1, 1 + s, nodes="n1", elapsed=s) for n, s in ((1, 15), (2, 299), (3, 300))]
    asyncio.run(source.busy(jobs, 7))
    assert 'jobid=~"3"' in asked[-1]
    asyncio.run(source.busy(jobs, 30))
    assert len(asked) == 1, "a step is five minutes there"
    row = efficiency.row([job(1, NOW - 600, NOW)], {}, {1: 1300.0})
    assert (row["gpu"], row["gpu_waste"]) == (1.0, 0.0), "the last sample may reach past the end"


def test_without_prometheus_what_has_passed_is_unknown() -> None:
    source: Any = BySsh(Declared(None))  # type: ignore[arg-type]
    with pytest.raises(CorralError, match="only Prometheus keeps it"):
        asyncio.run(source.busy([job(1, 1, 2)], 7))


def answered(monkeypatch: pytest.MonkeyPatch, result: CommandResult) -> Any:
    """Slurm's commands with one result, and what they were."""
    seen: list[tuple[str, ...]] = []

    async def command(_: Any, user: str, words: tuple[str, ...], *more: str) -> CommandResult:
        seen.append(words)
        return result

    monkeypatch.setattr(commands.api, "slurm_command", command)
    slurm: Any = ByCommands(Declared(None))  # type: ignore[arg-type]
    return slurm, seen


def test_by_commands_the_same_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (RECORDED / "24.11" / "v0.0.42" / "qos.json").read_text().partition('"body":')[2][:-2]
    slurm, seen = answered(monkeypatch, CommandResult(0, text, ""))
    names = [entry.name for entry in asyncio.run(slurm.answer(Login("kim", ""), policy.QOSES))]
    assert names == ["high", "low", "normal"]
    assert seen == [("sacctmgr", "--json", "show", "qos")]
    lines = "7.batch|00:00:30|mem=1M\n"
    slurm, seen = answered(monkeypatch, CommandResult(0, lines, ""))
    assert asyncio.run(slurm.past_uses(Login("kim", ""), 99, "kim")) == {7: JobUse(30.0, 1.0)}
    assert "--starttime=now-99seconds" in seen[0]
    assert "--user=kim" in seen[0]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (CommandResult(1, "", "sacctmgr: unrecognized option '--json'"), "does not print QOS as"),
        (CommandResult(0, "no JSON", ""), "does not print QOS as JSON"),
        (
            CommandResult(1, "", "You are not running a supported accounting_storage plugin\nOnly"),
            "keeps no accounting",
        ),
        (CommandResult(1, "", "Connection refused"), "Connection refused"),
    ],
)
def test_by_commands_what_cannot_be_read_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, result: CommandResult, words: str
) -> None:
    slurm, _ = answered(monkeypatch, result)
    with pytest.raises(CorralError, match=words):
        asyncio.run(slurm.answer(Login("kim", ""), policy.QOSES))
