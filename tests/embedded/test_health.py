"""Node health for real: a broken node is drained with the reason, and taken back when fixed."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.embedded.conftest import Live

from corral import api
from corral.apply.session import Session
from corral.hosts.quote import Script, sh

RECORDED = Path(__file__).parents[1] / "recorded" / "health"
N1 = "node1"
CHECK_ONLY = Script("corral-health --look")
RUN = Script("corral-health")
TWICE = Script("corral-health; corral-health")
SMI = (RECORDED / "nvidia-smi").read_text()
GOOD = "".join(f"{i}, 00000000:{i + 1}7:00.0, P0, 16, 16, 5, 5, 0, 0\n" for i in range(2))
REMAP = "00000000:17:00.0, 0, 0, No, No\n00000000:27:00.0, 0, 0, No, No\n"


@dataclass(frozen=True)
class Fault:
    """One way to break node1.

    Attributes:
        id: the check that must fail.
        words: what the drain reason must contain.
        do: breaks it.
        undo: fixes it.
        runs: how the program is run: twice where one failure is not enough.
    """

    id: str
    words: str
    do: Script
    undo: Script
    runs: Script = RUN


def fake(name: str, text: str) -> Script:
    return sh(
        "printf %s {text} >/usr/local/bin/{name} && chmod 755 /usr/local/bin/{name}",
        text=text,
        name=Script(name),  # type: ignore[arg-type]
    )


def smi(**files: str) -> Script:
    """A stand-in for nvidia-smi that prints these files."""
    parts = {"gpus": GOOD, "remap": REMAP} | files
    script = fake("nvidia-smi", SMI)
    for name, text in parts.items():
        script = sh(
            "{before} && mkdir -p /run/fake-gpus && printf %s {text} >/run/fake-gpus/{name}",
            before=script,
            text=text,
            name=name,
        )
    return script


NO_SMI = Script("rm -rf /usr/local/bin/nvidia-smi /run/fake-gpus /var/lib/corral/health")
XID = (
    "[    5.1] NVRM: Xid (PCI:0000:17:00): 31, pid=1, MMU Fault\n"
    "[   12.25] NVRM: Xid (PCI:0000:27:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
)
FAULTS = (
    Fault(
        "health.gpus",
        "have no device file: /dev/nvidia1",
        Script("mv /dev/nvidia1 /dev/nvidia1.away"),
        Script("mv /dev/nvidia1.away /dev/nvidia1"),
    ),
    Fault(
        "health.gpus",
        "1 of 2 GPUs answer: Unable to determine the device handle",
        smi(
            gpus=GOOD.splitlines(keepends=True)[0]
            + "Unable to determine the device handle for GPU0000:27:00.0: Unknown Error\n",
            **{"gpus.status": "15"},
        ),
        NO_SMI,
    ),
    Fault(
        "health.ecc",
        "GPU 1 .*: 2 uncorrected errors",
        smi(
            gpus=GOOD.replace("5, 0, 0\n1", "5, 0, 0\n1").replace(
                "1, 00000000:27:00.0, P0, 16, 16, 5, 5, 0",
                "1, 00000000:27:00.0, P0, 16, 16, 5, 5, 2",
            )
        ),
        NO_SMI,
    ),
    Fault(
        "health.remap",
        "a row waits to be remapped",
        smi(remap=REMAP.replace("No", "Yes", 1)),
        NO_SMI,
    ),
    Fault(
        "health.pcie",
        "GPU 0 .* has 8 PCIe lanes, once 16",
        sh("{a} && corral-health && sed -i '1s/16, 16/8, 16/' /run/fake-gpus/gpus", a=smi()),
        NO_SMI,
    ),
    Fault(
        "health.xid",
        "Xid 79 on GPU 0000:27:00, the GPU fell off the bus",
        sh(
            "{smi} && printf %s {log} >/run/fake-gpus/kernel && {dmesg}",
            smi=smi(),
            log=XID,
            dmesg=fake("dmesg", "#!/bin/sh\ncat /run/fake-gpus/kernel\n"),
        ),
        sh("rm -f /usr/local/bin/dmesg; {gone}", gone=NO_SMI),
    ),
    Fault(
        "health.mounts",
        "/shared is not mounted",
        Script("mount --bind /shared /mnt && umount -l /shared"),
        Script("mount --bind /mnt /shared && umount /mnt"),
        TWICE,
    ),
    Fault(
        "health.clock",
        r"the clock is (89|9\d) s from the controller's",
        fake("date", '#!/bin/sh\nexec /bin/date -d "90 seconds" "$@"\n'),
        Script("rm -f /usr/local/bin/date"),
        TWICE,
    ),
    Fault(
        "health.disk",
        "/tmp has 0 MiB of 2 left",
        Script("mount -t tmpfs -o size=2m full /tmp && head -c 2000k /dev/zero >/tmp/big"),
        Script("umount -l /tmp"),
    ),
    Fault(
        "health.spool",
        "/tmp cannot be written",
        Script("mount -t tmpfs -o ro,size=100m readonly /tmp"),
        Script("umount -l /tmp"),
    ),
    Fault(
        "health.leftover",
        r"processes of jobs that have ended: \d+ \(job 99999\)",
        Script(
            "for d in /sys/fs/cgroup/freezer /sys/fs/cgroup; do [ ! -d $d ] || break; done;"
            " m=$(sed -n 's/^[0-9]*:freezer://p; s/^0:://p' /proc/1/cgroup | head -n 1);"
            ' g="$d$m"; [ -d "$g" ] || g=$d; g="$g/slurm_left/uid_0/job_99999";'
            ' mkdir -p "$g" || exit 1;'
            ' sleep 600 >/dev/null 2>&1 & echo $! >"$g/cgroup.procs"; echo "$g $!" >/run/leftover'
        ),
        Script(
            "read -r g p </run/leftover; kill $p; i=0; "
            "until rmdir $g 2>/dev/null || [ $i -ge 300 ]; do i=$((i + 1)); sleep 0.1; done; "
            "rmdir ${g%/*} ${g%/uid_0/*}; rm /run/leftover"
        ),
        TWICE,
    ),
)


def state(cluster: Live, node: str = N1) -> tuple[str, str]:
    """Slurm's state of a node and its reason."""
    text = cluster.run(cluster.controller, sh("scontrol show node {n} -o", n=node)).stdout
    reason = re.search(r" Reason=(.*?) \[", text)
    return (re.search(r" State=(\S+)", text) or [""])[1], reason[1] if reason else ""


def done(cluster: Live, script: Script, node: str = N1) -> str:
    result = cluster.run(node, script, timeout=180)
    assert result.ok, result.tail
    return result.stdout


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.id}: {f.words}")
def test_a_broken_node_is_drained_and_resumed_when_fixed(fault: Fault, cluster: Live) -> None:
    assert "DRAIN" not in state(cluster)[0]
    try:
        done(cluster, fault.do)
        output = done(cluster, fault.runs)
        seen, reason = state(cluster)
        why = asyncio.run(api.explain_drained(cluster.spec, N1))
    finally:
        done(cluster, fault.undo)
    still = state(cluster)
    done(cluster, RUN)
    after, left = state(cluster)
    assert "DRAIN" in seen, output
    assert reason.startswith(f"{fault.id}: "), reason
    assert re.search(fault.words, reason), reason
    assert not why.usable
    assert why.meaning
    assert "undrains it automatically" in why.advice
    assert why.findings
    assert "DRAIN" in still[0]
    assert ("DRAIN" in after, left) == (False, "")


def test_a_node_drained_by_hand_stays_drained(cluster: Live) -> None:
    ctl = cluster.controller
    fault = FAULTS[0]
    try:
        done(cluster, sh("scontrol update nodename={n} state=drain reason='new memory'", n=N1), ctl)
        done(cluster, fault.do)
        done(cluster, TWICE)
        sick = state(cluster)
        done(cluster, fault.undo)
        done(cluster, RUN)
        healthy = state(cluster)
    finally:
        done(cluster, sh("scontrol update nodename={n} state=resume", n=N1), ctl)
    assert sick[1] == healthy[1] == "new memory"
    assert "DRAIN" in healthy[0]


def test_a_cause_of_all_nodes_takes_out_a_share(cluster: Live) -> None:
    """Every node loses a GPU at the same moment: one of three goes, the rest is reported."""
    nodes = ("node0", "node1", "node2")

    async def everywhere(script: Script) -> None:
        async with await Session.open(cluster.spec) as session:
            await session.fleet.all(script, nodes, timeout=60)

    try:
        asyncio.run(everywhere(FAULTS[0].do))
        asyncio.run(everywhere(RUN))
        out = [n for n in nodes if "DRAIN" in state(cluster, n)[0]]
    finally:
        asyncio.run(everywhere(FAULTS[0].undo))
        asyncio.run(everywhere(RUN))
    assert len(out) == 1
    assert not [n for n in nodes if "DRAIN" in state(cluster, n)[0]]


def test_slurmd_runs_it_by_itself(cluster: Live) -> None:
    """Slurmd runs the program when it starts; the node is out before a job can meet the fault."""
    disk = next(f for f in FAULTS if f.id == "health.disk")
    wait = sh(
        "i=0; until scontrol show node {n} -o | grep -q 'Reason=health.disk'; do i=$((i + 1));"
        " [ $i -lt 400 ] || exit 1; sleep 0.1; done",
        n=N1,
    )
    try:
        done(cluster, disk.do)
        done(cluster, Script("systemctl restart slurmd"))
        done(cluster, wait, cluster.controller)
    finally:
        done(cluster, disk.undo)
        done(cluster, RUN)
    assert "DRAIN" not in state(cluster)[0]


def test_looking_changes_nothing(cluster: Live) -> None:
    fault = FAULTS[0]
    try:
        done(cluster, fault.do)
        output = done(cluster, CHECK_ONLY)
        proof = asyncio.run(api.prove(cluster.spec, only=["health.nodes"]))
        health = asyncio.run(api.node_health(cluster.spec))
    finally:
        done(cluster, fault.undo)
    assert "fail\thealth.gpus" in output
    summaries = {result.check: result.summary for result in proof.results}
    assert (proof.good, "node1: health.gpus" in summaries["health.nodes"]) == (False, True), (
        summaries
    )
    assert {line.node for line in health.lines if line.word == "fail"} == {N1}
    assert "DRAIN" not in state(cluster)[0]
