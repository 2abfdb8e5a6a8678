"""Another machine under a node's name: what differs, who is refused, and the commands to Slurm."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.api.lifecycle import node_replacement as module
from corral.apply.journal import Journal
from corral.apply.observation import remember
from corral.errors import Code, CorralError
from corral.events import Event
from corral.hosts.quote import Script, call
from corral.inspect.facts import Facts, Gpu
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from corral.state_dir import VARIABLE, cluster_dir

OLD = Facts(
    node="node1",
    os_id="debian",
    os_version="13",
    kernel="6.12",
    cpus=8,
    sockets=1,
    cores_per_socket=8,
    threads_per_core=1,
    memory_mib=64_000,
    cgroup="v2",
    systemd=True,
    address="10.0.0.2",
    gpus=(Gpu("/dev/nvidia0", "H100"), Gpu("/dev/nvidia1", "H100")),
)
NEW = replace(OLD, cpus=16, cores_per_socket=16, memory_mib=128_000, gpus=OLD.gpus[:1])
SPEC = ClusterSpec.model_validate(
    {
        "corral": "v1",
        "name": "lab",
        "groups": [
            {
                "name": "gpu",
                "provider": "ssh",
                "nodes": "node[0-2]",
                "addresses": "10.0.0.[1-3]",
                "gpu": {"type": "h100", "count": 2},
            }
        ],
    }
)
NODE = next(node for node in nodes_of(SPEC) if node.name == "node1")


def test_differences_name_what_people_and_slurm_count() -> None:
    seen = {each.what: (each.before, each.after) for each in module.differences(OLD, NEW)}
    assert seen == {
        "CPUs": ("8", "16"),
        "sockets x cores x threads": ("1 x 8 x 1", "1 x 16 x 1"),
        "memory (MiB)": ("64000", "128000"),
        "GPUs": ("2 (H100)", "1 (H100)"),
    }
    assert module.differences(None, NEW) == ()
    assert module.differences(OLD, replace(OLD, nics=())) == ()


def test_the_controller_is_refused_with_the_way_out() -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(module.plan_replacement(SPEC, "node0"))
    assert caught.value.code is Code.USAGE
    assert "corral restore" in caught.value.hint
    with pytest.raises(CorralError, match="one node is meant"):
        asyncio.run(module.plan_replacement(SPEC, "node[1-2]"))
    with pytest.raises(CorralError) as caught:
        asyncio.run(module.plan_replacement(SPEC, "node9"))
    assert caught.value.code is Code.NOT_FOUND


def test_a_replacement_that_stopped_compares_with_the_old_machine(tmp_path: Path) -> None:
    """The facts that were read last are the new machine's by then."""
    journal = Journal(tmp_path / "journal.jsonl", "a")
    remember(tmp_path, {"node1": NEW})
    assert module._last_known(tmp_path, "node1") == NEW
    journal.write(module.BEGUN, {"node": "node1", "before": OLD.as_dict()})
    journal.write(module.BEGUN, {"node": "node2", "before": None})
    assert module._last_known(tmp_path, "node1") == OLD
    assert module._last_known(tmp_path, "node2") is None
    journal.write(module.DONE, {"node": "node1", "before": OLD.as_dict()})
    assert module._last_known(tmp_path, "node1") == NEW


class Made:
    """A cluster of machines that Corral makes, all there and as declared."""

    pending = ()

    async def __aenter__(self) -> Made:
        return self

    async def __aexit__(self, *raised: object) -> None: ...

    def require_running(self) -> None: ...


def test_a_replacement_that_stopped_continues_though_the_new_machine_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run drained the node and made its machine; its proof failed or it was killed."""
    group = {"name": "cpu", "provider": "embedded", "nodes": "node[0-2]"}
    spec = ClusterSpec.model_validate({"corral": "v1", "name": "made", "groups": [group]})

    async def opened(_: object) -> Made:
        return Made()

    async def in_slurm(_: object, plan: module.Replacement) -> module.Replacement:
        return plan

    def planned() -> module.Replacement:
        return asyncio.run(module.plan_replacement(spec, "node1"))

    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(module.Connection, "open", opened)
    monkeypatch.setattr(module, "_in_slurm", in_slurm)
    journal = Journal(cluster_dir("made") / "journal.jsonl", "a")
    begun: dict[str, Any] = {"node": "node1", "before": None}
    journal.write(module.BEGUN, {**begun, "node": "node2"})
    with pytest.raises(CorralError, match="there is none to replace"):
        planned()
    journal.write(module.BEGUN, begun)
    assert planned().before is None
    journal.write(module.BEGUN, {**begun, "before": OLD.as_dict()})
    assert planned().before == OLD
    journal.write(module.DONE, begun)
    with pytest.raises(CorralError, match="there is none to replace"):
        planned()


def test_fewer_gpus_than_declared_end_it_before_the_plan_is_asked_about(tmp_path: Path) -> None:
    events: list[Event] = []
    plan = module.Replacement("node1", OLD)
    compared = module._Compared(plan, NODE, tmp_path, events.append)
    with pytest.raises(CorralError) as caught:
        compared.note(NEW)
    assert caught.value.code is Code.NOT_GOOD
    assert "has 1 GPU, and the file declares 2; it stays drained" in caught.value.message
    assert "memory (MiB): 64000 before, 128000 now" in [event.message for event in events]


def test_differences_are_reported_once(tmp_path: Path) -> None:
    events: list[Event] = []
    compared = module._Compared(module.Replacement("node1", OLD), NODE, tmp_path, events.append)
    faster = replace(OLD, kernel="7.0")
    compared.note(faster)
    compared.note(faster)
    assert [event.message for event in events] == ["kernel: 6.12 before, 7.0 now"]


COMMANDS = {
    "scontrol": """
case "$*" in
  *delete*corral-replaced-*)
    [ -e "$LAB/old" ] || { echo 'slurm_delete_reservation error: no such' >&2; exit 1; }
    rm "$LAB/old" ;;
  *create*) [ ! -e "$LAB/reserved" ] || exit 1; : >"$LAB/reserved" ;;
  *delete*)
    [ -e "$LAB/reserved" ] || { echo 'slurm_delete_reservation error: no such' >&2; exit 1; }
    busy=$(cat "$LAB/busy" 2>/dev/null)
    [ "${busy:-0}" -eq 0 ] || { echo $((busy - 1)) >"$LAB/busy"; echo in use >&2; exit 1; }
    rm "$LAB/reserved" ;;
  *update*) [ ! -e "$LAB/refuses" ] || { echo refused >&2; exit 1; } ;;
  *reservation*)
    [ ! -e "$LAB/reserved" ] || echo 'ReservationName=corral-proof-of-node1 Flags=MAINT' ;;
  *show*) echo 'NodeName=node1 CoresPerSocket=8 CPUAlloc=0 CPUTot=8 State=IDLE' ;;
esac
echo "$*" >>"$LAB/calls"
""",
    "sleep": "",
    "runuser": 'shift 3\nexec "$@"\n',
    "srun": """
[ -e "$LAB/reserved" ] || exit 1
[ ! -e "$LAB/broken" ] || { echo 'srun: error: no slurmd' >&2; exit 1; }
[ ! -e "$LAB/less" ] || { echo 8 CPUs and 1 GPUs; exit; }
echo 8 CPUs and 2 GPUs
""",
}


def played(lab: Path, script: Script) -> subprocess.CompletedProcess[str]:
    """The script with Slurm's commands played."""
    bin_ = lab / "bin"
    bin_.mkdir(exist_ok=True)
    for name, text in COMMANDS.items():
        (bin_ / name).write_text(f"#!/bin/sh\nLAB={lab}\n{text}")
        (bin_ / name).chmod(0o755)
    path = f"{bin_}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", str(script)], env={"PATH": path}, capture_output=True, text=True, timeout=60
    )


def proven() -> Script:
    values = ("node1", "why", "ada", "main", 2, 5)
    return call("node-replacement.sh", "node_proven", *values)


def calls(lab: Path) -> str:
    return (lab / "calls").read_text()


def test_a_node_that_passes_has_no_reservation_any_more(tmp_path: Path) -> None:
    done = played(tmp_path, proven())
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert not (tmp_path / "reserved").exists()
    assert "State=DRAIN" not in calls(tmp_path)
    assert "Flags=MAINT,IGNORE_JOBS" in calls(tmp_path)
    assert calls(tmp_path).index("create") < calls(tmp_path).index("State=RESUME")


def test_a_reservation_that_is_in_use_is_removed_a_little_later(tmp_path: Path) -> None:
    """Also that of a run that was cut off, whose job is still ending."""
    for left in (False, True):
        (tmp_path / "busy").write_text("2")
        if left:
            (tmp_path / "reserved").touch()
        done = played(tmp_path, proven())
        assert (done.returncode, done.stderr) == (0, "")
        assert not (tmp_path / "reserved").exists()
        assert "State=DRAIN" not in calls(tmp_path)


def test_a_reservation_of_an_earlier_version_is_removed_too(tmp_path: Path) -> None:
    """It is infinite: the node would take no jobs."""
    (tmp_path / "old").touch()
    done = played(tmp_path, proven())
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "old").exists()


def test_a_node_whose_reservation_stays_is_drained_and_the_next_run_removes_it(
    tmp_path: Path,
) -> None:
    """Else it would be resumed, and take no jobs but those of an infinite reservation."""
    (tmp_path / "busy").write_text("1000")
    done = played(tmp_path, proven())
    assert done.returncode == 1
    words = "reservation corral-proof-of-node1 could not be removed: in use"
    assert done.stderr.strip().splitlines()[-1] == words
    states = [line for line in calls(tmp_path).splitlines() if "State=" in line]
    assert "State=DRAIN" in states[-1]
    (tmp_path / "busy").unlink()
    (tmp_path / "calls").unlink()
    done = played(tmp_path, proven())
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "reserved").exists()
    assert "State=DRAIN" not in calls(tmp_path)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("broken", "no slurmd"),
        ("less", "its job had 8 CPUs and 1 GPUs, and Slurm promises 8 CPUs and 2 GPUs"),
    ],
)
def test_a_node_whose_job_fails_is_drained_before_its_reservation_goes(
    tmp_path: Path, fault: str, words: str
) -> None:
    (tmp_path / fault).touch()
    done = played(tmp_path, proven())
    assert done.returncode == 1
    assert words in done.stderr
    assert not (tmp_path / "reserved").exists()
    last = calls(tmp_path).splitlines()
    drained = next(i for i, line in enumerate(last) if "State=DRAIN Reason=why" in line)
    assert drained < next(i for i, line in enumerate(last) if line.startswith("delete"))


def test_down_then_drained_so_that_it_waits_for_its_proof(tmp_path: Path) -> None:
    done = played(tmp_path, call("node-replacement.sh", "node_lost", "node1", "why"))
    assert done.returncode == 0, done.stderr
    states = [line.split()[2] for line in calls(tmp_path).splitlines()]
    assert states == ["State=DOWN", "State=DRAIN"]
    (tmp_path / "refuses").touch()
    refused = played(tmp_path, call("node-replacement.sh", "node_lost", "node1", "why"))
    assert refused.returncode == 1


def test_no_secret_and_no_key_is_in_what_is_printed() -> None:
    plan = module.Replacement(
        "node1", OLD, known=("SHA256:a",), shown=("SHA256:b",), keys="node1 k"
    )
    assert plan.new_key
    assert "node1 k" not in repr(plan) + json.dumps(plan.as_dict())
    assert not replace(plan, shown=("SHA256:a",)).new_key
