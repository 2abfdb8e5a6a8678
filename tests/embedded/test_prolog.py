"""Prolog and epilog on real nodes: leftovers go, other jobs and logins live, failures drain."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator

import pytest
from tests.embedded.conftest import Live, named

from corral import api
from corral.hosts.quote import Script, sh
from corral.prove.context import as_user
from corral.spec.models import ClusterSpec, Slurm
from corral.spec.sections.services import Prolog

NODE = "node1"  # not the controller: nobody but jobs works there
SITE = "/etc/slurm/epilog.d/90-job-site"


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Live:
    """A cluster for this file; CORRAL_TEST_CLUSTER=NAME makes it under that name and keeps it."""
    existing = os.environ.get("CORRAL_TEST_CLUSTER", "")
    slurm = Slurm(prolog=Prolog(drop_caches=True))
    spec = named(existing or f"prolog-{os.getpid()}", slurm=slurm)
    if existing:
        asyncio.run(api.up(spec))
        return Live(spec, {})
    bring_up: Callable[[ClusterSpec], Live] = request.getfixturevalue("fresh_cluster")
    return bring_up(spec)


def on_node(lab: Live, script: Script) -> str:
    done = lab.run(NODE, script, timeout=120)
    assert done.ok, done.tail
    return done.stdout.strip()


def job(lab: Live, command: str, *options: str) -> None:
    """A job of the job user on the node, waited for until its epilog has ended there."""
    # Not sbatch --wait: it looks after 2 s, and then after 8 more (_job_wait in sbatch.c).
    script = sh(
        "j=$(sbatch --parsable -p main -w {node} --mem=64M -t 2 -o /dev/null {options}"
        " --wrap {command}) || exit 1; i=0; while [ $i -lt 900 ]; do i=$((i + 1));"
        " s=$(squeue -h -t all -j $j -o %T); case $s in COMPLETED) exit 0 ;;"
        ' PENDING|CONFIGURING|RUNNING|COMPLETING) sleep 0.1 ;; *) break ;; esac; done; echo "$s";'
        " exit 1",
        node=NODE,
        options=options,
        command=command,
    )
    done = lab.run(lab.controller, as_user("corral", script), timeout=120)
    assert done.ok, done.tail
    calm(lab)


def calm(lab: Live) -> None:
    """No job's epilog runs on the node."""
    on_node(
        lab,
        sh(
            # The runner's note of a job goes when its epilog begins.
            "i=0; while ls /run/corral/jobs/*.* 2>/dev/null | grep -qv since || "
            "pgrep -f '^slurmstepd|/etc/slurm/epilog.sh' >/dev/null; do i=$((i + 1)); "
            "[ $i -lt 600 ] || exit 1; sleep 0.1; done"
        ),
    )


def journal(lab: Live) -> str:
    # --sync: what was logged a moment ago may not be in the journal's files yet.
    return on_node(
        lab,
        sh("journalctl --sync; journalctl -t slurm-epilog -t slurm-prolog --no-pager -o cat -n 40"),
    )


@pytest.fixture
def site_part(lab: Live) -> Iterator[Callable[[str, str], None]]:
    """Puts a script of somebody else's into a folder; it goes at the end, and the node is back."""
    paths: list[str] = []

    def put(path: str, text: str) -> None:
        paths.append(path)
        on_node(lab, sh("printf %s {text} > {path}; chmod 755 {path}", text=text, path=path))

    yield put
    on_node(lab, sh("rm -f {paths}", paths=paths))
    lab.run(
        lab.controller,
        sh("scontrol update NodeName={node} State=RESUME 2>/dev/null || :", node=NODE),
    )


def test_what_a_job_leaves_goes_and_a_login_stays(lab: Live) -> None:
    on_node(
        lab,
        sh(
            "runuser -u corral -- touch /tmp/before; sleep 0.05; "
            # Past Slurm's cgroups, as a docker daemon or cron would start it.
            "systemd-run -q --uid=corral --unit=leak sleep 1000; "
            "systemd-run -q --unit=other --uid=nobody sleep 1000"
        ),
    )
    job(lab, "touch /dev/shm/leak /var/tmp/leak; mkdir -p /tmp/leak/d; ipcmk -M 1000 >/dev/null")
    assert on_node(lab, sh("pgrep -u corral -a sleep || :")) == ""
    left = on_node(
        lab, sh("ls -d /dev/shm/leak /var/tmp/leak /tmp/leak /tmp/before 2>/dev/null; :")
    )
    assert left == "/tmp/before"
    assert on_node(lab, sh("ipcs -m | grep -c corral || :")) == "0"
    assert on_node(lab, sh("pgrep -u nobody -c sleep; systemctl stop other; rm -f /tmp/before"))
    assert "removed /dev/shm/leak" in journal(lab)


def test_a_process_next_to_another_job_of_the_user_is_not_a_leftover(lab: Live) -> None:
    first = sh(
        "sbatch --parsable -p main -w {node} --mem=64M -t 2 -o /dev/null --wrap 'sleep 300'",
        node=NODE,
    )
    done = lab.run(lab.controller, as_user("corral", first))
    long = done.stdout.strip()
    try:
        on_node(
            lab,
            sh(
                "i=0; until pgrep -u corral -x sleep; do i=$((i+1)); [ $i -lt 300 ] || exit 1; "
                "sleep 0.1; done"
            ),
        )
        script = sh("srun -Q -p main -w {node} --mem=64M -t 2 touch /dev/shm/kept", node=NODE)
        assert lab.run(lab.controller, as_user("corral", script), timeout=120).ok
        on_node(
            lab,
            sh(
                "i=0; while pgrep -f /etc/slurm/epilog.sh >/dev/null; do i=$((i+1)); "
                "[ $i -lt 300 ] || exit 1; sleep 0.1; done"
            ),
        )
        assert on_node(lab, sh("ls /dev/shm/kept; pgrep -c -u corral -x sleep")).split()[0]
    finally:
        lab.run(lab.controller, sh("scancel {job}", job=long))
        calm(lab)
    assert on_node(lab, sh("ls /dev/shm/kept 2>/dev/null || echo gone")) == "gone"


def test_exclusive_parts_run_for_complete_nodes_only(
    lab: Live, site_part: Callable[[str, str], None]
) -> None:
    site_part("/etc/slurm/epilog.d/85-exclusive-site", "#!/bin/sh\necho complete node\n")
    site_part(SITE, "#!/bin/sh\necho any job $SLURM_JOB_GPUS.\n")
    on_node(lab, sh("journalctl --rotate -q; journalctl --vacuum-time=1s -q 2>/dev/null || :"))
    job(lab, "true", "-n1", "--gres=gpu:1")
    logged = journal(lab)
    assert "90-job-site: any job 0." in logged
    assert "complete node" not in logged
    job(lab, "true", "--exclusive")
    assert "85-exclusive-site: complete node" in journal(lab)


@pytest.mark.parametrize("when", ["prolog", "epilog"])
def test_a_part_that_fails_drains_the_node_and_is_its_reason(
    lab: Live, site_part: Callable[[str, str], None], when: str
) -> None:
    site_part(f"/etc/slurm/{when}.d/60-job-disk", "#!/bin/sh\necho scratch disk is full; exit 3\n")
    submitted = lab.run(
        lab.controller,
        as_user(
            "corral",
            sh(
                "sbatch --parsable -p main -w {node} -t 2 --mem=64M -o /dev/null --wrap true",
                node=NODE,
            ),
        ),
    )
    reason = lab.run(
        lab.controller,
        sh(
            "i=0; until scontrol show node {node} | grep -q DRAIN; do i=$((i + 1)); "
            "[ $i -lt 300 ] || exit 1; sleep 0.2; done; "
            "scontrol show node {node} | sed -n 's/^ *Reason=//p'; "
            "squeue -h -j {job} -o %r; scancel {job}",
            node=NODE,
            job=submitted.stdout.strip(),
        ),
        timeout=120,
    )
    calm(lab)
    assert reason.ok, reason.tail
    assert f"{when} part 60-job-disk failed (3): scratch disk is full" in reason.stdout
    assert "held" not in reason.stdout.lower()


def test_other_peoples_scripts_stay_and_the_plan_is_empty(
    lab: Live, site_part: Callable[[str, str], None]
) -> None:
    site_part(SITE, "#!/bin/sh\nexit 0\n")
    assert asyncio.run(api.plan(lab.spec)).empty
    assert on_node(lab, sh("cat {path}", path=SITE)).endswith("exit 0")
