"""Rolling stages over machines that are folders, with a small Slurm of shell scripts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from corral.apply import roll as rolling
from corral.apply.run import run_stages
from corral.errors import Code, CorralError, NodesFailedError
from corral.events import Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script
from corral.hosts.transport import OnLine, Result
from corral.plan.model import NodeChange, Plan, Stage
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Gate, Roll, Seen
from corral.state.slurm.members import Resumed

from .conftest import Folder

# nodes/NAME holds "STATE|reason", jobs/NAME how often squeue still answers with a job.
TOOLS = {
    "scontrol": """\
case $1 in
  ping) [ -e $S/silent ] && echo 'Slurmctld(primary) is DOWN' || echo 'Slurmctld(primary) is UP';;
  update)
    for word; do case $word in
      NodeName=*) n=${word#*=};; State=*) s=${word#*=};; Reason=*) r=${word#*=};; esac; done
    echo "$s $n" >> $S/log
    if [ $s = DRAIN ]; then echo "IDLE+DRAIN|$r"; else echo 'IDLE|'; fi > $S/nodes/$n;;
  --oneliner)
    [ ! -e $S/broken ] || exit 1
    for f in $S/nodes/${4:-*}; do
      IFS='|' read -r t e < $f
      r=; [ -z "$e" ] || r=" Reason=$e [root@2026-11-23T10:00:00]"
      echo "NodeName=${f##*/} CPUTot=1 State=$t ThreadsPerCore=1 RealMemory=1$r"
    done;;
esac""",
    "squeue": """\
for word; do case $last in -w) n=$word;; esac; last=$word; done
c=$(cat $S/jobs/$n 2>/dev/null); [ "${c:-0}" -gt 0 ] || exit 0
echo $((c - 1)) > $S/jobs/$n; echo "job 7 (alice, 3:20 so far)\"""",
    "systemctl": ":",
    "sleep": ":",
    "ps": "[ ! -e $S/steps ] || echo '    0 slurmstepd'",
}


class Machine(Folder):
    """A folder whose Slurm is the scratch one, and whose boot id is a file."""

    def __init__(self, node: str, root: Path) -> None:
        super().__init__(node, root)
        self.away = 0
        (root / "boot_id").write_text("before\n")

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        if self.away and "boot_id" in script:
            self.away -= 1
            raise CorralError(Code.UNREACHABLE, "it boots", node=self.node)
        slurm = self.root.parent / "slurm"
        text = script.replace("/proc/sys/kernel/random/boot_id", f"{self.root}/boot_id")
        text = text.replace("/etc/slurm/slurm.conf", f"{slurm}/slurm.conf")
        head = f"S={slurm}; PATH={slurm}/bin:$PATH; export S PATH; "
        return await super().run(
            Script(head + text),  # pyright: ignore[reportArgumentType]
            stdin=stdin,
            timeout=timeout,
            on_line=on_line,
        )


@dataclass
class Cluster:
    """Machines, their Slurm, and what happened."""

    root: Path
    machines: dict[str, Machine]
    events: list[Event]

    @property
    def log(self) -> list[str]:
        """Drains, resumes, changes and checks, in order."""
        file = self.root / "slurm" / "log"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    @property
    def notes(self) -> list[str]:
        return [f"{e.node}: {e.message}" for e in self.events if e.kind is Kind.NOTE]

    def state(self, node: str, text: str = "") -> str:
        file = self.root / "slurm" / "nodes" / node
        if text:
            file.write_text(f"{text}\n")
        return file.read_text().strip() if file.exists() else ""

    def jobs(self, node: str, polls: int) -> None:
        (self.root / "slurm" / "jobs" / node).write_text(str(polls))

    def run(self, stage: Stage) -> None:
        fleet = Fleet(self.machines)
        asyncio.run(run_stages(Plan("c", "d", "o", (), (stage,)), fleet, self.events.append))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(rolling, "POLL_S", 0)
    monkeypatch.setattr(rolling, "RETRY_S", 0.0)
    slurm = tmp_path / "slurm"
    for folder in ("bin", "nodes", "jobs"):
        (slurm / folder).mkdir(parents=True)
    (slurm / "slurm.conf").touch()
    for name, text in TOOLS.items():
        tool = slurm / "bin" / name
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o755)
    names = ("n0", "n1", "n2")
    for name in names:
        (slurm / "nodes" / name).write_text("IDLE|\n")
    return Cluster(tmp_path, {n: Machine(n, tmp_path / n) for n in names}, [])


def stage(
    *nodes: str, change: str = "", reboot: bool = True, gate: str = "true", **how: float
) -> Stage:
    text = f'echo "change $(basename @ROOT@)" >> $S/log; {change}'
    impact = Impact.NONE
    if reboot:
        text, impact = f"{text}\necho after > @ROOT@/boot_id", Impact.REBOOT
    reboot_change = Change("reboot", "reboot", "", "", Script(text), impact)  # pyright: ignore[reportArgumentType]
    check = Script(f'echo "check $(basename @ROOT@)" >> $S/log; {gate}')  # pyright: ignore[reportArgumentType]
    gates = tuple(Gate(f"{n} is good", n, check, 0, "look") for n in nodes)
    roll = replace(Roll("n0", "reboot", patience=60.0, boot=30.0), **how)  # type: ignore[arg-type]
    return Stage("reboots", "reboots", (NodeChange(nodes, reboot_change),), gates, roll)


def test_nodes_go_one_by_one_and_the_controller_last(cluster: Cluster) -> None:
    cluster.run(stage("n0", "n1", "n2"))
    words = ("DRAIN", "change", "check", "RESUME")
    assert cluster.log == [f"{word} {n}" for n in ("n1", "n2", "n0") for word in words]
    assert [cluster.state(n) for n in ("n0", "n1", "n2")] == ["IDLE|"] * 3
    assert "n1: is back, with another boot id" in cluster.notes


def test_several_at_once(cluster: Cluster) -> None:
    with pytest.raises(NodesFailedError):
        cluster.run(stage("n0", "n1", "n2", at_once=2, gate="false"))
    assert [line for line in cluster.log if "change" in line] == ["change n1", "change n2"]
    assert "n0" not in "".join(cluster.log)


def test_a_job_is_waited_for_and_named(cluster: Cluster) -> None:
    cluster.jobs("n1", 3)
    cluster.run(stage("n1"))
    assert cluster.notes.count("n1: waits for job 7 (alice, 3:20 so far)") == 1
    assert cluster.log == ["DRAIN n1", "change n1", "check n1", "RESUME n1"]


def test_a_job_that_does_not_end_gives_the_node_back_untouched(cluster: Cluster) -> None:
    cluster.jobs("n1", 1000)
    with pytest.raises(CorralError) as caught:
        cluster.run(stage("n1", "n2", patience=-1.0))
    assert caught.value.code is Code.TIMED_OUT
    assert (caught.value.node, "job 7 (alice, 3:20" in caught.value.message) == ("n1", True)
    assert cluster.log == ["DRAIN n1", "RESUME n1"]
    assert cluster.state("n2") == "IDLE|"


def test_what_somebody_else_drained_stays_drained(cluster: Cluster) -> None:
    cluster.state("n1", "IDLE+DRAIN|bad fan")
    cluster.run(stage("n1"))
    assert cluster.log == ["change n1", "check n1"]
    assert cluster.state("n1") == "IDLE+DRAIN|bad fan"
    assert "n1: stays drained, as it was before: bad fan" in cluster.notes


@pytest.mark.parametrize("flag", ["REBOOT_ISSUED", "REBOOT_REQUESTED", "MAINTENANCE"])
def test_a_drain_is_seen_behind_other_flags(cluster: Cluster, flag: str) -> None:
    """sinfo prints one word for them, ``reboot^`` or ``maint``: somebody's drain was resumed."""
    cluster.state("n1", f"IDLE+DRAIN+{flag}|bad fan")
    cluster.run(stage("n1"))
    assert cluster.log == ["change n1", "check n1"]


def test_nodes_of_an_answer_that_cannot_be_read_are_left_alone(cluster: Cluster) -> None:
    """Neither without Slurm nor free: they would be changed under running jobs."""
    (cluster.root / "slurm" / "broken").touch()
    with pytest.raises(CorralError, match="reading node states"):
        cluster.run(stage("n1"))
    assert cluster.log == []
    (cluster.root / "slurm" / "broken").unlink()
    cluster.state("n1", "NAP+DRAIN|a later Slurm's state")
    with pytest.raises(CorralError, match="is not a node state"):
        cluster.run(stage("n1"))
    assert cluster.log == []


def test_a_resumed_node_that_stays_away_is_reported(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling, "BACK_S", 0)
    monkeypatch.setattr(rolling, "RESUMED_S", 0)
    tool = cluster.root / "slurm" / "bin" / "scontrol"
    tool.write_text(tool.read_text().replace("echo 'IDLE|'", "echo 'IDLE+NOT_RESPONDING|'"))
    with pytest.raises(CorralError, match="resumed and is IDLE\\+NOT_RESPONDING") as caught:
        cluster.run(stage("n1"))
    assert caught.value.node == "n1"


def test_what_the_health_check_drained_meanwhile_stays_drained(cluster: Cluster) -> None:
    change = 'echo "IDLE+DRAIN|disk: full" > $S/nodes/n1'
    cluster.run(stage("n1", change=change))
    assert "RESUME n1" not in cluster.log
    assert "n1: stays drained: disk: full" in cluster.notes


@pytest.mark.parametrize("state", ["ERROR", "IDLE+FAIL", "UNKNOWN", "IDLE+DRAIN"])
def test_a_node_that_is_still_out_after_its_resume_is_reported(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """As ``corral resume`` judges it: ERROR and FAIL counted as back."""
    monkeypatch.setattr(rolling, "RESUMED_S", 0)
    tool = cluster.root / "slurm" / "bin" / "scontrol"
    tool.write_text(tool.read_text().replace("echo 'IDLE|'", f"echo '{state}|'"))
    with pytest.raises(CorralError, match=rf"resumed and is {re.escape(state)} after"):
        cluster.run(stage("n1"))


def test_a_node_that_is_not_drained_any_more_and_is_down_takes_no_jobs(cluster: Cluster) -> None:
    cluster.run(stage("n1", change='echo "DOWN|fan" > $S/nodes/n1'))
    assert "n1: is not drained, and is DOWN" in cluster.notes


def test_a_node_that_a_stopped_corral_drained_is_its_own(cluster: Cluster) -> None:
    cluster.state("n1", "IDLE+DRAIN|corral: reboot")
    cluster.run(stage("n1"))
    assert cluster.log[-1] == "RESUME n1"


def test_a_gate_that_stays_shut_leaves_the_node_drained_and_the_next_alone(
    cluster: Cluster,
) -> None:
    with pytest.raises(CorralError) as caught:
        cluster.run(stage("n1", "n2", gate="false"))
    assert caught.value.code is Code.GATE_FAILED
    assert "n1 stays drained until it is good" in caught.value.hint
    assert cluster.log == ["DRAIN n1", "change n1", "check n1"]
    assert cluster.state("n1") == "IDLE+DRAIN|corral: reboot"


def test_a_machine_may_be_away_for_a_while(cluster: Cluster) -> None:
    slow = cluster.machines["n1"]
    work = stage("n1")

    async def go() -> None:
        fleet = Fleet(cluster.machines)

        def emit(event: Event) -> None:
            cluster.events.append(event)
            if (event.kind, event.message) == (Kind.NOTE, "reboots"):
                slow.away = 5

        await run_stages(Plan("c", "d", "o", (), (work,)), fleet, emit)

    asyncio.run(go())
    assert slow.away == 0
    assert cluster.log[-1] == "RESUME n1"


def test_a_machine_that_does_not_come_back_is_reported(cluster: Cluster) -> None:
    broken = stage("n1", "n2", boot=0.0)
    with pytest.raises(CorralError, match="did not come back") as caught:
        cluster.run(broken)
    assert (caught.value.code, caught.value.node) == (Code.TIMED_OUT, "n1")
    assert cluster.log == ["DRAIN n1", "change n1"]


def test_the_same_boot_id_is_no_reboot(cluster: Cluster) -> None:
    lazy = stage("n1", boot=0.3)
    entry = lazy.changes[0]
    change = replace(entry.change, script=Script(":"))
    with pytest.raises(CorralError, match="did not come back"):
        cluster.run(replace(lazy, changes=(NodeChange(entry.nodes, change),)))


def test_without_slurm_all_go_at_once_and_nothing_is_drained(cluster: Cluster) -> None:
    (cluster.root / "slurm" / "slurm.conf").unlink()
    cluster.run(stage("n0", "n1", "n2"))
    assert sorted(cluster.log) == sorted(f"{w} n{i}" for i in range(3) for w in ("change", "check"))


def test_jobs_without_their_slurmctld_are_not_killed(cluster: Cluster) -> None:
    (cluster.root / "slurm" / "silent").touch()
    (cluster.root / "slurm" / "steps").touch()
    with pytest.raises(CorralError, match=r"jobs run on n\[1-2\]") as caught:
        cluster.run(stage("n1", "n2"))
    assert caught.value.code is Code.NOT_GOOD
    assert cluster.log == []
    (cluster.root / "slurm" / "steps").unlink()
    cluster.run(stage("n1", "n2"))
    assert "DRAIN n1" not in cluster.log


@pytest.mark.parametrize("reboot", [True, False])
def test_a_change_that_needs_no_reboot_waits_for_none(cluster: Cluster, reboot: bool) -> None:
    cluster.run(stage("n1", reboot=reboot))
    assert ("n1: reboots" in cluster.notes) is reboot
    assert cluster.log[-1] == "RESUME n1"


def test_the_resume_change_fixes_what_a_killed_corral_left(cluster: Cluster) -> None:
    cluster.state("n1", "IDLE+DRAIN|corral: reboot")
    cluster.state("n2", "IDLE+DRAIN|bad fan")
    controller = cluster.machines["n0"]
    ask: Callable[[Script], str] = lambda s: asyncio.run(controller.run(s)).stdout.strip()  # noqa: E731
    seen = Seen(0, ask(Resumed().probe()))
    change = Resumed().diff(seen, Context("n0"))
    assert change is not None
    assert change.summary.startswith("resume n1 (")
    ask(change.script)
    assert cluster.log == ["RESUME n1"]
    assert Resumed().diff(Seen(0, ask(Resumed().probe())), Context("n0")) is None
