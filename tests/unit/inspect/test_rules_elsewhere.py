"""Judges that cannot import a rule (health, up, adopt) give its verdict on the same cases."""

from __future__ import annotations

import json
import os
import re
import subprocess
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest

from corral import agents
from corral.apply import roll
from corral.inspect.discovery import OWN_NAME
from corral.inspect.machine import CLOCK
from corral.inspect.question import MachineState
from corral.inspect.rules import (
    CLOCK_OFF_S,
    CORRECTED_AT_MOST,
    ROWS_AT_MOST,
    RULES,
    FileFault,
    Observer,
    UnitState,
    clock_offset,
    driver_problem,
    ecc_faults,
    file_faults,
    folder_fault,
    link_faults,
    memory_short,
    memory_unused,
    missing_devices,
    no_real_memory,
    on_loopback,
    remap_faults,
    unit_state,
)
from corral.inspect.storage import folder_answers
from corral.inspect.xids import xids, xids_by_number
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.gpu import judge_gpus, read_gpus
from corral.slurm import records
from corral.slurm.adopt.machine import Machine
from corral.slurm.adopt.review import judge
from corral.slurm.conf.parse import parse
from corral.slurm.states.nodes import NodeBase, NodeState, node_flags
from corral.spec.findings import Level
from corral.state.network.host_names import HostsBlock
from tests.unit.roles.slurm.health_node import RECORDED, Node
from tests.unit.slurm.adopt.files import GOOD, existing, rule_ids

BY_HAND: Final = (Observer.HEALTH, Observer.UP, Observer.ADOPT)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("observer", BY_HAND)
def test_each_judge_that_cannot_import_a_rule_is_compared_with_it(observer: Observer) -> None:
    """By a test here with the observer's name and the rule's; a shell function is the rule."""
    own = {rule.name for rule in RULES if observer in rule.used_by and not rule.program}
    tests = {name for name in globals() if name.startswith(f"test_{observer.name.lower()}_judges_")}
    assert tests == {f"test_{observer.name.lower()}_judges_{name}" for name in own}


UNIT_WORDS = ("active", "activating", "reloading", "deactivating", "inactive", "failed", "")


@pytest.mark.parametrize("word", UNIT_WORDS)
def test_health_judges_unit_state(node: Node, word: str) -> None:
    """All that are down, and those that stop."""
    cases = f'case $1 in is-enabled) echo enabled ;; *) echo "{word}" ;; esac'
    node.tool("systemctl", f"#!/bin/sh\n{cases}\n")
    good = unit_state(word) is UnitState.ACTIVE or (
        unit_state(word) is UnitState.CHANGING and word != "deactivating"
    )
    assert node.run("--look")["services"][0] == ("ok" if good else "fail")


@pytest.mark.parametrize("off", [0, 4, CLOCK_OFF_S, CLOCK_OFF_S + 1, -CLOCK_OFF_S, -6])
def test_health_judges_clock_offset(node: Node, off: float) -> None:
    now = 1_800_000_000
    node.tool("date", f"#!/bin/sh\necho {now + round(off)}\n")
    config = f"echo 'Configuration data as of {now}'"
    node.tool("scontrol", f"#!/bin/sh\n[ \"$1 $2\" != 'show config' ] || {config}\n")
    offset = clock_offset(MachineState("n1", {CLOCK.name: f"{now + off:.6f}"}, now, now))
    assert offset is not None
    is_off = abs(offset.surely) > CLOCK_OFF_S
    assert node.run("--look")["clock"][0] == ("fail" if is_off else "ok")


STATS = ("echo nfs 5", "echo 'Stale file handle' >&2; exit 1", "exit 1", "kill -9 $$")


@pytest.mark.parametrize("stat", STATS)
def test_health_judges_folder_fault(node: Node, stat: str) -> None:
    node.tool("stat", f"#!/bin/sh\n{stat}\n")
    node.settings = {"mount": "/shared"}
    (node.root / "proc/mounts").write_text("server:/x /shared nfs4 rw 0 0\n")
    script = f"{agents.functions('folder-answer.sh', 'folder_answer')}\nfolder_answer /shared 4"
    env = {"PATH": f"{node.root}/bin:{os.environ['PATH']}"}
    asked = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)
    (answer,) = folder_answers(f"/shared mounted {asked.stdout}").values()
    fault = folder_fault(answer)
    assert node.run("--look")["mounts"][0] == ("fail" if fault else "ok")


@pytest.mark.parametrize("slurm_mib", [999, 1000, 1001])
def test_health_judges_memory_short(node: Node, slurm_mib: int) -> None:
    (node.root / "proc/meminfo").write_text("MemTotal: 1024000 kB\n")
    node.settings = {"memory_mib": str(slurm_mib)}
    short = memory_short(1000, slurm_mib)
    assert node.run("--look")["memory"][0] == ("fail" if short else "ok")


@pytest.mark.parametrize("second", ["/dev/zero", "/dev/absent", "/etc/passwd"])
def test_health_judges_missing_devices(node: Node, second: str) -> None:
    """Its file, each line with another number of blanks: a dictionary holds a key once."""
    node.settings = {"gpus": "2", "file": "/dev/null", "file ": second}
    node.gpus(gpus="".join(f"{i}, 00000000:{i}7:00.0, P0, 16, 16, 5, 5, 0, 0\n" for i in range(2)))
    there = [file for file in ("/dev/null", "/dev/zero") if Path(file).is_char_device()]
    missing = missing_devices(there, 2, ["/dev/null", second])
    verdict, words = node.run("--look")["gpus"]
    assert verdict == ("fail" if missing else "ok")
    assert all(file in words for file in missing)


BUSES = ("0000:07:00.0", "0000:17:00.0", "0000:27:00.0")


@pytest.mark.parametrize("count", range(4))
def test_health_judges_driver_problem(node: Node, count: int) -> None:
    """Where nvidia-smi is there; of which GPU it lists the health check knows the number only."""
    node.settings = {"gpus": "3"}
    rows = (f"{i}, 0000{bus}, P0, 16, 16, 5, 5, 0, 0\n" for i, bus in enumerate(BUSES[:count]))
    node.gpus(gpus="".join(rows))
    problem = driver_problem(BUSES, BUSES[:count], [PurePosixPath("/usr/bin/nvidia-smi")])
    assert node.run("--look")["gpus"][0] == ("fail" if problem else "ok")


RECORD: Final = json.loads((RECORDED.parent / "gpu" / "h200x2.json").read_text())


def benched(**changes: Any) -> set[Outcome]:
    """Outcomes of ``bench gpu`` where the first GPU's parts are changed."""
    record = json.loads(json.dumps(RECORD))
    for part, values in changes.items():
        record["gpus"][0][part] = {**(record["gpus"][0][part] or {}), **values}
    remarks = judge_gpus(read_gpus([f"@@corral-gpus {json.dumps(record)}"]), 2)
    return {remark.outcome for remark in remarks if "GPU 0" in remark.about}


ECC = [(0, 0), (1, 0), (0, CORRECTED_AT_MOST), (0, CORRECTED_AT_MOST + 1), (None, None)]


@pytest.mark.parametrize(("uncorrected", "corrected"), ECC)
def test_health_judges_ecc_faults(
    node: Node, uncorrected: int | None, corrected: int | None
) -> None:
    cells = ["[N/A]" if count is None else str(count) for count in (uncorrected, corrected)]
    node.settings = {"gpus": "1"}
    node.gpus(gpus=f"0, 00000000:07:00.0, P0, 16, 16, 5, 5, {', '.join(cells)}\n")
    faults = ecc_faults(uncorrected, corrected)
    counted = "none" if uncorrected is None else "ok"
    assert node.run("--look")["ecc"][0] == ("fail" if faults else counted)
    state = {"ecc_uncorrected": uncorrected, "ecc_corrected": corrected}
    assert (Outcome.FAIL in benched(after=state)) is bool(faults)


ROWS = [
    (0, 0, "No", "No"),
    (0, 0, "Yes", "No"),
    (0, 0, 1, 0),
    (0, 0, "No", "Yes"),
    (1, ROWS_AT_MOST - 1, "No", "No"),
    (1, ROWS_AT_MOST, "No", "No"),
    (ROWS_AT_MOST, 1, "Yes", "No"),
]


@pytest.mark.parametrize("row", ROWS)
def test_health_judges_remap_faults(node: Node, row: tuple[int, int, str | int, str | int]) -> None:
    """``bench gpu`` too: one threshold, and a row that waits for a reset fails."""
    node.settings = {"gpus": "1"}
    node.gpus(remap=f"00000000:07:00.0, {', '.join(map(str, row))}\n")
    rows = dict(zip(("correctable", "uncorrectable", "pending", "failure"), row, strict=True))
    faults = remap_faults(rows)
    worst = "ok" if not faults else "fail" if any(f.takes_out for f in faults) else "warn"
    assert node.run("--look")["remap"][0] == worst
    outcomes = benched(remapped=rows)
    assert (Outcome.FAIL in outcomes, Outcome.WARN in outcomes) == (
        worst == "fail",
        sum(map(int, row[:2])) > ROWS_AT_MOST,
    )


@pytest.mark.parametrize("link", [(16, 16, 5, 5), (8, 16, 5, 5), (16, 16, 3, 5), (8, 16, 3, 5)])
def test_health_judges_link_faults(node: Node, link: tuple[int, int, int, int]) -> None:
    """On a machine that it sees for the first time: a warning, as ``bench gpu`` gives."""
    width, most, generation, newest = link
    node.settings = {"gpus": "1"}
    node.gpus(gpus=f"0, 00000000:07:00.0, P0, {', '.join(map(str, link))}, 0, 0\n")
    faults = link_faults(width, most, generation, newest)
    assert node.run("--look")["pcie"][0] == ("warn" if faults else "ok")
    now = {"pcie_width": width, "pcie_gen": generation}
    best = {"pcie_width_max": most, "pcie_gen_max": newest}
    assert (Outcome.WARN in benched(load=now, before=best)) is bool(faults)


MESSAGES = ("pid=1, x", "NETIR_LINK_EVT Fatal XC0", "GPU recovery action changed from 0x0 to 0x1")


@pytest.mark.parametrize("number", {row.do: row.numbers[0] for row in xids()}.values())
def test_health_judges_takes_out(node: Node, number: int) -> None:
    """All messages of one number; ``test_xids`` has more of them, and ``bench gpu``."""
    for message in MESSAGES:
        node.gpus(kernel=f"[ 9.5] NVRM: Xid (PCI:0000:07:00): {number}, {message}\n")
        taken = xids_by_number()[number].takes_out(message)
        assert (node.run("--look")["xid"][0] == "fail") is taken, message


HOSTS = (
    "127.0.0.1 localhost\n10.0.0.5 node0",
    "127.0.1.1 node0",
    "127.0.1.1 node0.example.com node0",
    "127.0.1.1\tlocalhost\tnode0",
    "10.0.0.5 node0\n127.0.1.1 node0",
    "# 127.0.1.1 node0\n10.0.0.5 node0",
    "10.0.0.5 node0 # 127.0.1.1 node0",
    "127.0.1.1 localhost # node0",
    "127.0.1.1 node01",
)


def loopback(tmp_path: Path, text: str) -> tuple[IPv4Address, ...]:
    """What discovery judges of a hosts file of the machine node0."""
    file = tmp_path / "hosts"
    file.write_text(f"{text}\n")
    assert OWN_NAME.shell.count("/etc/hosts") == 1
    return on_loopback(
        OWN_NAME.parse(ran(tmp_path, OWN_NAME.shell.replace("/etc/hosts", f"{file}")))
    )


def ran(tmp_path: Path, script: str) -> str:
    (tmp_path / "uname").write_text("#!/bin/sh\necho node0\n")
    (tmp_path / "uname").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("text", HOSTS)
def test_up_judges_name_problems(tmp_path: Path, text: str) -> None:
    """Its change takes the name off each line that discovery reports."""
    addresses = loopback(tmp_path, text)
    block = HostsBlock((("10.0.0.5", "node0"),), str(tmp_path / "hosts"))
    _, _, lines = ran(tmp_path, block.probe()).partition("\n")
    assert [line.split()[0] for line in lines.splitlines()] == [*map(str, addresses)]
    ran(tmp_path, block.write())
    assert ran(tmp_path, block.probe()).splitlines()[1:] == []
    assert loopback(tmp_path, (tmp_path / "hosts").read_text()) == ()


@pytest.mark.parametrize("text", HOSTS)
def test_adopt_judges_name_problems(tmp_path: Path, text: str) -> None:
    """Of any host, as it reads files of many: here there are no others on 127.*."""
    addresses = loopback(tmp_path, text.replace("node01", "localhost"))
    hosts = re.sub(r"\bnode01\b", "localhost", text)
    judged = rule_ids(existing({**GOOD, "hosts": f"{hosts}\n"}, "24.11"))
    assert ("own-name-loopback" in judged) is bool(addresses)


STATES = [*NodeBase, *(f"IDLE+{flag}" for flag in node_flags()), "IDLE*", "IDLE+NEW_FLAG"]


@pytest.mark.parametrize("state", STATES)
def test_up_judges_usable(state: str) -> None:
    """What it reports of a node whose drain is gone; waiting for its own it needs a bit less."""
    node = records.Node("node0", NodeState.parse(state), reason="fan")
    assert (roll.as_it_is(node) == "takes jobs again") is node.state.usable
    assert roll.is_back(node) or not node.state.usable


SWITCHES = ("yes", "YES", "up", "true", "1", "no", "down", "false", "0", "maybe", None)


@pytest.mark.parametrize("constrain", SWITCHES)
@pytest.mark.parametrize("plugin", ["task/cgroup,task/affinity", "affinity,cgroup", "task/none"])
@pytest.mark.parametrize("types", ["gpu", "GPU,mps", "mps", None])
@pytest.mark.parametrize("named", [True, False])
def test_adopt_judges_file_faults(
    constrain: str | None, plugin: str, types: str | None, *, named: bool
) -> None:
    """A task plugin that is missing is not asked for where devices are open already."""
    slurm = re.sub(r"(?m)^TaskPlugin=.*$", f"TaskPlugin={plugin}", GOOD["slurm.conf"])
    slurm = re.sub(r"(?m)^GresTypes=.*\n", f"GresTypes={types}\n" if types else "", slurm)
    slurm = slurm if named else re.sub(r"(?m)^ClusterName=.*\n", "", slurm)
    cgroup = "" if constrain is None else f"ConstrainDevices={constrain}\n"
    faults = set(file_faults(parse(slurm), parse(cgroup), gpus=True))
    files = {"slurm.conf": slurm, "cgroup.conf": f"CgroupPlugin=autodetect\n{cgroup}"}
    view = existing({**GOOD, **files}, "24.11")
    judged = rule_ids(view)
    assert ("cluster-name-missing" in judged) is (FileFault.NO_CLUSTER_NAME in faults)
    assert ("gres-types-missing" in judged) is (FileFault.NO_GPUS in faults)
    assert ("devices-open" in judged) is (FileFault.DEVICES_OPEN in faults)
    assert ("task-plugin" in judged) is (FileFault.NO_TASK_CGROUP in faults)


@pytest.mark.parametrize("memory", ["0", "1", "2", "64000", None])
def test_adopt_judges_no_real_memory(memory: str | None) -> None:
    written = f" RealMemory={memory}" if memory else ""
    slurm = re.sub(r" RealMemory=\S+", written, GOOD["slurm.conf"])
    node = records.Node("node0", NodeState.parse("IDLE"), memory=int(memory or 1))
    judged = rule_ids(existing({**GOOD, "slurm.conf": slurm}, "24.11"))
    assert ("real-memory-missing" in judged) is no_real_memory(node)


@pytest.mark.parametrize("slurm_mib", [1, 499, 500, 501, 999, 1000, 1001])
def test_adopt_judges_memory_short(slurm_mib: int) -> None:
    assert (judged_memory(slurm_mib) == [Level.ERROR]) is memory_short(1000, slurm_mib)


@pytest.mark.parametrize("slurm_mib", [2, 499, 500, 501, 999, 1000, 1001])
def test_adopt_judges_memory_unused(slurm_mib: int) -> None:
    assert (judged_memory(slurm_mib) == [Level.WARNING]) is memory_unused(1000, slurm_mib)


def judged_memory(slurm_mib: int) -> list[Level]:
    """What adoption finds of a node's RealMemory on a machine of 1000 MiB."""
    slurm = re.sub(r" RealMemory=\S+", f" RealMemory={slurm_mib}", GOOD["slurm.conf"])
    known = {"node0": Machine("node0", memory_mib=1000)}
    view = existing({**GOOD, "slurm.conf": slurm}, "24.11", known)
    return [j.level for j in judge(view) if j.rule.id == "real-memory-wrong"]


@pytest.mark.parametrize("there", [(), (0,), (1,), (0, 1), (0, 2), (0, 1, 2)])
def test_adopt_judges_missing_devices(there: tuple[int, ...]) -> None:
    """And a machine with more GPUs than its line in slurm.conf."""
    devices = tuple(f"/dev/nvidia{number}" for number in there)
    slurm = GOOD["slurm.conf"].replace("rtx5090:1", "rtx5090:2")
    gres = "Name=gpu Type=rtx5090 File=/dev/nvidia[0-1]\n"
    known = {"node0": Machine("node0", devices=devices)}
    judged = rule_ids(existing({**GOOD, "slurm.conf": slurm, "gres.conf": gres}, "24.11", known))
    missing = missing_devices(devices, 2, ("/dev/nvidia0", "/dev/nvidia1"))
    assert ("device-missing" in judged) is bool(missing or len(devices) > 2)


def test_a_folder_is_read_only_where_the_function_finds_it_so(tmp_path: Path) -> None:
    """As nobody: root is refused on a read-only file system only, and tests have none."""
    tmp_path.chmod(0o755)
    for name, mode in (("good", 0o777), ("bad", 0o555)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    function = agents.functions("folder-read-only.sh", "folder_read_only")
    script = f"{function}\nfor f in good bad absent; do ! folder_read_only $f || echo $f; done"
    as_nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_nobody, "sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["bad"]
