"""Users, Slurm accounts and logins by job, on a separate cluster that declares all of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.test_prove import proof_of

from corral import api
from corral.events import Event
from corral.hosts.quote import Script, sh
from corral.prove.checks.access import login
from corral.prove.context import as_user
from corral.prove.model import Verdict
from corral.spec import values
from corral.spec.models import ClusterSpec
from corral.spec.sections.people import Access, Account, Limits, Qos, User

ALICE_HOME = "/shared/home/alice"
PEOPLE = (
    User(name="corral", uid=2000),
    User(
        name="alice",
        uid=2001,
        account="vision",
        limits=Limits(gpus=1),
        home=ALICE_HOME,
        keys=(values.SSH_KEY.example,),
    ),
    User(name="bob", uid=2002, account="vision", fair_share=3, qos="high"),
    User(name="ada", uid=2003, admin=True),
)
QOS = (Qos(name="low"), Qos(name="high", priority=100, preempts=("low",)))
NODE = "node1"  # not the controller, so only jobs open it


def declared(**changes: object) -> ClusterSpec:
    existing = os.environ.get("CORRAL_TEST_CLUSTER", "")
    spec = named(
        existing or f"people-{os.getpid()}",
        users=PEOPLE,
        accounts=(Account(name="vision", fair_share=5, qos=("low", "high")),),
        qos=QOS,
        access=Access(ssh="jobs_only", between_nodes=True),
    )
    return spec.model_copy(update=changes)


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Live:
    """A cluster for this file; CORRAL_TEST_CLUSTER=NAME makes it under that name and keeps it."""
    spec = declared()
    if os.environ.get("CORRAL_TEST_CLUSTER"):
        asyncio.run(api.up(spec))
        return Live(spec, {})
    bring_up: Callable[[ClusterSpec], Live] = request.getfixturevalue("fresh_cluster")
    return bring_up(spec)


def submit(lab: Live, user: str, options: str, command: str = "sleep 300") -> str:
    words = options.split()
    script = sh(
        "cd /tmp && sbatch --parsable --mem=64 -t 5 -o /dev/null {options} --wrap {command}",
        options=words,
        command=command,
    )
    done = lab.run(lab.controller, as_user(user, script))
    assert done.ok, done.tail
    return done.stdout.strip()


def wait(lab: Live, job: str, state: str, reason: str = "") -> None:
    done = lab.run(
        lab.controller,
        sh(
            'i=0; while [ $i -lt 600 ]; do i=$((i + 1)); s=$(squeue -h -j {job} -o "%T %r"); '
            'case "$s" in {state}" "*{reason}*) exit 0 ;; esac; sleep 0.2; done; echo "$s"; exit 1',
            job=job,
            state=state,
            reason=reason,
        ),
        timeout=400,
    )
    assert done.ok, done.stdout


def begun(lab: Live, user: str, command: str) -> None:
    """A job's process runs on the node: Slurm reports RUNNING before the node has heard of it."""
    done = lab.run(
        NODE,
        sh(
            "i=0; until pgrep -u {user} -x {command}; do i=$((i + 1)); "
            "[ $i -lt 600 ] || exit 1; sleep 0.2; done",
            user=user,
            command=command,
        ),
        timeout=400,
    )
    assert done.ok, done.tail


def cancel(lab: Live) -> None:
    done = lab.run(
        lab.controller,
        sh(
            "scancel --state=PENDING --state=RUNNING -u alice; scancel -u bob; scancel -u alice; "
            'i=0; while [ -n "$(squeue -h)" ] && [ $i -lt 200 ]; do i=$((i + 1)); sleep 0.2; done'
        ),
    )
    assert done.ok


def test_people_are_the_same_on_all_nodes(lab: Live) -> None:
    for node in ("node0", "node1", "node2"):
        account = lab.run(node, sh("id -u alice; id -g alice; getent passwd alice | cut -d: -f6"))
        assert account.stdout.split() == ["2001", "2001", ALICE_HOME]
        keys = lab.run(node, sh("cat {home}/.ssh/authorized_keys", home=ALICE_HOME))
        assert values.SSH_KEY.example in keys.stdout
        sudo = as_user("ada", sh("sudo -n id -u"))
        assert lab.run(node, sudo).stdout.strip() == "0"
        assert not lab.run(node, as_user("bob", sh("sudo -n id -u"))).ok


def test_a_user_over_the_gpu_limit_waits_with_the_reason(lab: Live) -> None:
    try:
        first = submit(lab, "alice", "--gres=gpu:1")
        wait(lab, first, "RUNNING")
        second = submit(lab, "alice", "--gres=gpu:1")
        wait(lab, second, "PENDING", "AssocGrpGRES")
    finally:
        cancel(lab)


def test_a_qos_preempts_another(lab: Live) -> None:
    # All of its CPUs and no GPU: alice's account has a limit on those.
    cpus = lab.run(lab.controller, sh("sinfo -h -n {node} -o %c", node=NODE)).stdout.strip()
    try:
        low = submit(lab, "alice", f"-w {NODE} -n {cpus} --qos=low --requeue")
        wait(lab, low, "RUNNING")
        high = submit(lab, "bob", f"-w {NODE} --exclusive")
        wait(lab, high, "RUNNING")
        wait(lab, low, "PENDING")
    finally:
        cancel(lab)


def test_of_preempted_jobs_only_one_with_requeue_starts_again(lab: Live) -> None:
    cpus = lab.run(lab.controller, sh("sinfo -h -n {node} -o %c", node=NODE)).stdout.strip()
    for requeue in (True, False):
        fields = {"command": ("sleep", "600"), "user": "alice", "qos": "low", "nodelist": NODE}
        fields |= {"ranks_per_node": int(cpus), "requeue": requeue}
        events: list[Event] = []
        try:
            job = asyncio.run(api.submit(lab.spec, api.job_spec(fields), events.append))
            notes = [event.message for event in events if event.subject == "preemption"]
            ends = "jobs of QOS low may be preempted: this one then ends; --requeue starts it again"
            assert notes == ([] if requeue else [ends])
            wait(lab, str(job.id), "RUNNING")
            high = submit(lab, "bob", f"-w {NODE} --exclusive")
            wait(lab, high, "RUNNING")
            if requeue:
                wait(lab, str(job.id), "PENDING")
            else:
                ended = sh(
                    "timeout 60 sh -c 'until sacct -X -n -P -j {id} -o State | grep PREEMPTED; "
                    "do sleep 0.5; done'",
                    id=job.id,
                )
                assert lab.run(lab.controller, ended, timeout=90).ok
        finally:
            cancel(lab)


def test_drift_of_a_limit_is_seen_and_fixed_and_others_stay(lab: Live) -> None:
    lab.run(
        lab.controller,
        sh(
            "sacctmgr -iQ modify user where name=alice account=vision set GrpTRES=gres/gpu=9; "
            "sacctmgr -iQ add account theirs; sacctmgr -iQ add user bob account=theirs"
        ),
    )
    plan = asyncio.run(api.plan(lab.spec))
    changes = [c.change for s in plan.stages for c in s.changes]
    assert [c.resource for c in changes] == [f"slurm-accounts:{lab.spec.name}"]
    assert "GrpTRES gres/gpu 1" in changes[0].summary
    asyncio.run(api.up(lab.spec))
    shown = lab.run(lab.controller, sh("sacctmgr -nP show assoc format=account,user,grptres"))
    assert "vision|alice|gres/gpu=1" in shown.stdout
    assert "theirs|bob|" in shown.stdout


def test_only_those_with_a_job_log_in(lab: Live) -> None:
    closed = lab.run(NODE, login("alice"))
    assert "Access denied by pam_slurm_adopt" in closed.stdout
    assert "@ in " not in closed.stdout
    try:
        job = submit(lab, "alice", f"-w {NODE} --gres=gpu:1")
        wait(lab, job, "RUNNING")
        begun(lab, "alice", "sleep")
        opened = lab.run(NODE, login("alice")).stdout
        assert "@ in alice" in opened
        assert f"@ cgroup job_{job}" in opened
        assert opened.count("@ dev /dev/nvidia") == 2
        assert (
            len([x for x in opened.splitlines() if x.startswith("@ dev") and x.endswith(" 1")]) == 1
        )
        # What was started in the session ends with the job.
        left = sh("setsid sleep 987654 >/dev/null 2>&1 </dev/null & echo @ in $!")
        lab.run(NODE, login("alice", left))
        assert lab.run(NODE, sh("pgrep -f 'sleep 987654'")).ok
        cancel(lab)
        gone = sh(
            "i=0; while pgrep -f 'sleep 98765[4]' >/dev/null; do i=$((i + 1)); "
            "[ $i -lt 400 ] || exit 1; sleep 0.2; done"
        )
        assert lab.run(NODE, gone, timeout=200).ok
    finally:
        cancel(lab)


def from_node(lab: Live, user: str, source: str, target: str) -> str:
    """What a user sees who goes on from a node to another one by plain ssh, without a key."""
    words = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", target, "hostname; id -un")
    return lab.run(source, as_user(user, sh("ssh {words} 2>&1", words=words))).stdout


def files_of(lab: Live) -> str:
    paths = ("ssh_known_hosts2", "shosts.equiv", "ssh_config.d", "sshd_config.d")
    return lab.run(NODE, sh("cd /etc/ssh && grep -ls Corral -r {p}", p=list(paths))).stdout


def test_who_has_a_job_on_several_nodes_goes_from_one_to_another_without_a_key(lab: Live) -> None:
    assert not lab.run(NODE, as_user("bob", sh("ls ~/.ssh/id_*"))).ok
    assert "Access denied by pam_slurm_adopt" in from_node(lab, "bob", NODE, "node2")
    try:
        job = submit(lab, "bob", f"-N2 -n2 -w {NODE},node2", "srun sleep 300")
        wait(lab, job, "RUNNING")
        begun(lab, "bob", "sleep")
        assert from_node(lab, "bob", NODE, "node2").split() == ["node2", "bob"]
        assert from_node(lab, "bob", "node2", NODE).split() == [NODE, "bob"]
        address = lab.run(NODE, sh("getent hosts node2")).stdout.split()[0]
        assert from_node(lab, "bob", NODE, address).split() == ["node2", "bob"]
        # Not as somebody else, nor as root or who may become root.
        for other in ("alice", "root", "ada"):
            assert "Permission denied" in from_node(lab, "bob", NODE, f"{other}@node2")
        for able in ("root", "ada"):
            assert "Permission denied" in from_node(lab, able, NODE, "node2")
        # A host whose key is not the one that was distributed is nobody.
        swap = sh(
            "cd /etc/ssh && mkdir /root/kept && mv ssh_host_*_key* /root/kept && ssh-keygen -A -q"
        )
        assert lab.run(NODE, swap).ok
        assert "Permission denied" in from_node(lab, "bob", NODE, "node2")
    finally:
        lab.run(NODE, sh("[ ! -d /root/kept ] || mv /root/kept/* /etc/ssh/; rm -rf /root/kept"))
        cancel(lab)


@pytest.mark.slow
@pytest.mark.parametrize(
    "breaks",
    [
        sh("rm /etc/ssh/shosts.equiv"),
        sh("echo node9 >>/etc/ssh/shosts.equiv"),
        sh("sed -i s/yes/no/ /etc/ssh/sshd_config.d/01-corral-host-based.conf"),
        sh(
            r"printf 'Match all\n HostbasedAuthentication no\n' >/etc/ssh/sshd_config.d/00-own.conf"
        ),
    ],
)
def test_logins_between_nodes_that_somebody_broke_are_seen(lab: Live, breaks: Script) -> None:
    """As after a crash between two of its files."""
    try:
        assert lab.run(NODE, breaks).ok
        plan = asyncio.run(api.plan(lab.spec))
        changes = [(c.nodes, c.change.resource) for s in plan.stages for c in s.changes]
        assert changes == [((NODE,), "host-based")]
    finally:
        lab.run(NODE, sh("rm -f /etc/ssh/sshd_config.d/00-own.conf"))
        asyncio.run(api.up(lab.spec))
    assert not [c for s in asyncio.run(api.plan(lab.spec)).stages for c in s.changes]


def test_nobody_is_locked_out_when_slurm_is_dead(lab: Live) -> None:
    try:
        assert lab.run(NODE, sh("systemctl stop slurmd")).ok
        assert "@ in root" in lab.run(NODE, login("root")).stdout
        assert "@ in ada" in lab.run(NODE, login("ada")).stdout
        assert "@ in " not in lab.run(NODE, login("bob")).stdout
    finally:
        asyncio.run(api.up(lab.spec))


def test_without_its_line_in_pam_the_check_fails_and_apply_adds_it(lab: Live) -> None:
    assert proof_of(lab, ("smoke.launch", "access.adopt")).good
    lab.run(NODE, sh("sed -i '/pam_slurm_adopt.so/d' /etc/pam.d/sshd"))
    proof = {r.check: r for r in proof_of(lab, ("smoke.launch", "access.adopt")).results}
    assert proof["access.adopt"].verdict is Verdict.FAIL
    assert f"{NODE} lets a user in who has no job there" in proof["access.adopt"].summary
    asyncio.run(api.up(lab.spec))
    assert proof_of(lab, ("smoke.launch", "access.adopt")).good


def test_who_is_named_no_longer_cannot_log_in_and_loses_nothing(lab: Live) -> None:
    less = declared(users=tuple(u for u in PEOPLE if u.name != "bob"))
    asyncio.run(api.up(less))
    try:
        refused = lab.run("node0", login("bob")).stdout
        assert "@ in " not in refused
        assert lab.run("node0", sh("ls -d /home/bob")).ok
    finally:
        asyncio.run(api.up(lab.spec))
    assert "@ in bob" in lab.run("node0", login("bob")).stdout


def test_restored_sshd_is_as_it_was(lab: Live) -> None:
    asyncio.run(api.up(declared(access=Access())))
    try:
        assert "@ in bob" in lab.run(NODE, login("bob")).stdout
        assert not lab.run(NODE, sh("grep -i corral /etc/pam.d/sshd")).ok
        assert files_of(lab) == ""
        assert "Host key verification failed" in from_node(lab, "bob", "node2", NODE)
    finally:
        asyncio.run(api.up(lab.spec))
