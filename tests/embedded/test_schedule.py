"""The scheduled proof for real: idle nodes only, preempted at once, bad nodes drained, undrained.

Collectives too, begun by its own timer: measured, kept, and who is slow named.

CORRAL_TEST_SCHEDULE=NAME uses a running cluster with that name and ``proof: {every: 1d}``.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.links import shaped

from corral import api
from corral.hosts.quote import Script, sh
from corral.prove.model import Verdict
from corral.spec.models import ClusterSpec
from corral.spec.sections.services import ScheduledProof

pytestmark = pytest.mark.slow
PROOF = ScheduledProof(every="1d", minutes=15)  # a loaded machine starves what is nice
ROUND = Script("corral-proof-round")
FIGURES = "/var/lib/corral/proof/figures"


@pytest.fixture(scope="module")
def proving(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    existing = os.environ.get("CORRAL_TEST_SCHEDULE", "")
    if existing:
        return Live(named(existing, proof=PROOF), {})
    return fresh_cluster(named(f"sched-{os.getpid()}", proof=PROOF))


@pytest.fixture(autouse=True)
def settings(proving: Live) -> Iterator[None]:
    """Small measurements that may drain, and no past; the node's own file comes back."""
    # What ended just now still completes, or is planned with: a round passes by such nodes.
    print(
        do(
            proving,
            sh(
                "i=0; while n=$(sinfo -h -N -p corral-proof -o '%N %t %E') &&"
                " echo \"$n\" | grep -v ' idle '; do i=$((i + 1));"
                " [ $i -lt 300 ] || exit 1; sleep 0.3; done"
            ),
        )
    )
    do(
        proving,
        sh(
            "cp /etc/corral/proof.conf /run/proof.conf; rm -f {f};"
            " sed -i 's/^drain .*/drain yes/' /etc/corral/proof.conf;"
            " echo 'mib 8' >>/etc/corral/proof.conf",
            f=FIGURES,
        ),
    )
    yield
    # A round that a failed test left goes on, and the next test would meet it.
    do(
        proving,
        sh(
            "scancel -u corral; scancel -u corral-proof;"
            " flock -w 200 /var/lib/corral/proof/lock true;"
            " i=0; while squeue -h -a | grep -q . && [ $i -lt 300 ]; do i=$((i + 1));"
            " sleep 0.2; done;"
            " cp /run/proof.conf /etc/corral/proof.conf; rm -f {f}",
            f=FIGURES,
        ),
        timeout=400,
    )


def do(live: Live, script: Script, timeout: float = 240) -> str:
    done = live.run(live.controller, script, timeout=timeout)
    assert done.ok, done.tail
    return done.stdout


def reason(live: Live, node: str) -> str:
    text = do(live, sh("scontrol show node {n} -o", n=node))
    match = re.search(r" State=\S*DRAIN\S* .* Reason=(.*?) \[", text)
    return match[1] if match else ""


def past(live: Live, node: str, value: float) -> None:
    """Give a node a past in which its processors did so much."""
    line = f"1 {node} cpu_mb_s {value}\n"
    do(live, sh("mkdir -p /var/lib/corral/proof; printf %s {t} >{f}", t=line * 4, f=FIGURES))


def test_a_round_measures_idle_nodes_and_is_read_back(proving: Live) -> None:
    script = sh(
        "runuser -u corral -- sbatch -Q -o /dev/null -D /tmp -w node2 --wrap 'sleep 120' || exit 1;"
        " i=0; until squeue -h -t R -w node2 -o %i | grep -q .; do i=$((i + 1));"
        " [ $i -lt 100 ] || exit 1; sleep 0.2; done; {round}",
        round=ROUND,
    )
    try:
        output = do(proving, script)
    finally:
        do(proving, Script("scancel -u corral; true"))
    assert re.findall(r"^node (\S+) pass", output, re.MULTILINE) == ["node0", "node1"]
    assert "node2" not in output  # somebody's job runs there
    assert re.search(r"^figure node0 disk_write_mb_s \d", output, re.MULTILINE)
    assert asyncio.run(api.fetch_rounds(proving.spec)) >= 1
    assert asyncio.run(api.fetch_rounds(proving.spec)) == 0
    last = api.proofs(proving.spec.name)[-1]
    assert (last.by, last.proof.good) == ("schedule", True)
    together = last.proof.results[0].evidence[-1]
    assert {e.node for e in last.proof.results[0].evidence} == {"node0", "node1", "node0,node1"}
    assert together.figures["all_reduce_wrong"] == 0
    assert together.figures["all_reduce_gb_s"] > 0


def test_a_users_job_ends_it_at_once(proving: Live) -> None:
    script = sh(
        "sed -i 's/^mib .*/mib 100000/' /etc/corral/proof.conf;"
        " {round} >/run/round.out 2>&1 & r=$!;"
        " i=0; until [ $(squeue -h -t R -u corral-proof | wc -l) = 3 ]; do i=$((i + 1));"
        " [ $i -lt 600 ] || exit 1; sleep 0.2; done;"
        " cd /; timeout 60 runuser -u corral -- srun -N3 --exclusive -p main hostname || exit 1;"
        " wait $r; cat /run/round.out; echo @@;"
        " sacct -X -n -P -u corral-proof -S now-5minutes -o state",
        round=ROUND,
    )
    output, _, states = do(proving, script).partition("@@")
    assert output.startswith(("node0\n", "node1\n", "node2\n"))  # the user's job ran, on all three
    assert len(re.findall(r"^node node\d preempted", output, re.MULTILINE)) == 3
    assert states.split().count("PREEMPTED") >= 3


def test_nobody_else_may_use_its_partition(proving: Live) -> None:
    script = sh(
        "s='sbatch --parsable -o /dev/null -D /tmp -p corral-proof --wrap true';"
        " j=$(runuser -u corral -- $s); i=0; until squeue -h -a -j $j -o %r | grep group;"
        " do i=$((i + 1)); [ $i -lt 100 ] || exit 1; sleep 0.2; done; scancel $j"
    )
    assert "not in group permitted to use this partition" in do(proving, script)


def test_a_bad_node_is_drained_and_taken_back_by_it_alone(proving: Live) -> None:
    by_hand = sh("scontrol update nodename=node2 state=drain reason='my own'")
    try:
        do(proving, by_hand)
        past(proving, "node1", 1e9)
        output = do(proving, ROUND)
        drained = reason(proving, "node1")
        why = asyncio.run(api.explain_drained(proving.spec, "node1"))
        again = do(
            proving, ROUND
        )  # its past is as it was: measured behind a reservation, still bad
        still = reason(proving, "node1")
        past(proving, "node1", 0.001)
        healthy = do(proving, ROUND)
        after, mine = reason(proving, "node1"), reason(proving, "node2")
        left = do(proving, Script("scontrol show reservation; ls /var/lib/corral/proof/testing"))
    finally:
        do(proving, Script("scontrol update nodename=node[1-2] state=resume 2>/dev/null; true"))
    assert "node node1 fail cpu_mb_s is" in output
    assert drained.startswith("proof.cpu_mb_s: cpu_mb_s is ")
    assert re.search(r"it had (1e\+09|1000000000) before$", drained)
    assert "measured too slow twice by the scheduled proof" in why.meaning
    assert "F104" in {f.failure.id for f in why.findings}
    assert "node node1 fail" in again
    assert still == drained
    assert "node node1 pass healthy again, undrained" in healthy
    assert (after, mine) == ("", "my own")
    assert "No reservations" in left
    assert "node1" not in left
    asyncio.run(api.fetch_rounds(proving.spec))
    verdicts = [k.proof.results[0].verdict for k in api.proofs(proving.spec.name)[-3:]]
    assert verdicts == [Verdict.FAIL, Verdict.FAIL, Verdict.PASS]


def by_timer(live: Live) -> str:
    """Let the timer itself begin a round now, and wait until its result is kept."""
    drop_in = "/run/systemd/system/corral-proof.timer.d/soon.conf"
    script = sh(
        "last() {{ ls /var/lib/corral/proof/rounds | sort | tail -n 1; }}; before=$(last);"
        " mkdir -p $(dirname {f}) && printf '%s\\n' '[Timer]' OnActiveSec= OnUnitActiveSec="
        " RandomizedDelaySec=0 AccuracySec=1s OnActiveSec=1s >{f} && systemctl daemon-reload &&"
        " systemctl restart corral-proof.timer;"
        ' i=0; until [ "$(last)" != "$before" ]; do i=$((i + 1)); [ $i -lt 4000 ] || break;'
        " sleep 0.3; done; rm -f {f}; systemctl daemon-reload;"
        " systemctl restart corral-proof.timer;"
        ' [ "$(last)" != "$before" ] && cat /var/lib/corral/proof/rounds/$(last)',
        f=drop_in,
    )
    return do(live, script, timeout=1500)


def test_collectives_are_measured_by_its_timer_and_who_is_slow_is_named(proving: Live) -> None:
    # Disks of one machine differ at random, and a node that is not healthy is left out: here no
    # node has peers.
    apart = Script(r"sed -i 's/^node \([^ ]*\) [^ ]*/node \1 \1/' /etc/corral/proof.conf")
    do(proving, apart)
    healthy = by_timer(proving)
    assert "group node0,node1,node2 pass healthy" in healthy
    # Three such rounds are a past: what was just measured, thrice.
    do(proving, sh("grep ' all:3 ' {f} >/run/all && cat /run/all /run/all >>{f}", f=FIGURES))
    with shaped(proving, "node2", "50mbit"):
        slow = by_timer(proving)
    assert "group node0,node1,node2 fail all_" in slow
    assert re.search(r"node2 is slow with every other node \(\S+ of \S+ GB/s\): look at its", slow)
    assert "node0 is slow" not in slow
    assert "node1 is slow" not in slow
    assert reason(proving, "node2") == ""  # collectives drain nobody: docs/decisions/0039
    assert asyncio.run(api.fetch_rounds(proving.spec)) >= 2
    good, bad = api.proofs(proving.spec.name)[-2:]
    assert (good.by, bad.by) == ("schedule", "schedule")
    assert (good.proof.good, bad.proof.good) == (True, False)
    summary = bad.proof.results[0].summary
    assert summary.startswith("collectives over node0,node1,node2: all_")
    assert "node2 is slow" in summary
    assert "corral bench run" in bad.proof.results[0].hint
    kept = {e.node: e.figures for e in bad.proof.results[0].evidence}
    before = {e.node: e.figures for e in good.proof.results[0].evidence}
    name = "all_reduce_gb_s"
    assert kept["node0,node1,node2"][name] < before["node0,node1,node2"][name] / 2
