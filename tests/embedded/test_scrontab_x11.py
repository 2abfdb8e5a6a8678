"""slurm.scrontab and slurm.x11: a job that comes again, and a display that a job reaches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from tests.embedded.conftest import Live, named

from corral.hosts.quote import Script, sh
from corral.spec.models import ClusterSpec

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def live(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    spec = named(f"scron-{os.getpid()}")
    slurm = spec.slurm.model_copy(update={"scrontab": True, "x11": True})
    return fresh_cluster(spec.model_copy(update={"slurm": slurm}))


def printed(live: Live, script: Script) -> str:
    done = live.run(live.controller, script, timeout=180)
    assert done.ok, done.tail
    return done.stdout


def test_a_job_comes_again(live: Live) -> None:
    """In the next minute, or the one after; its number stays."""
    table = "#SCRON --output=/shared/scron-out --open-mode=append\n* * * * * date\n"
    printed(live, sh("install -m 666 /dev/null /shared/scron-out"))
    printed(live, sh("cd /tmp && printf %s {t} | runuser -u corral -- scrontab -", t=table))
    listed = printed(live, sh("runuser -u corral -- scrontab -l"))
    assert "* * * * * date" in listed
    until = time.monotonic() + 180
    while not printed(live, sh("cat /shared/scron-out")):
        assert time.monotonic() < until, printed(live, sh("squeue -u corral; scontrol show job"))
        time.sleep(2)
    printed(live, sh("runuser -u corral -- scrontab -r"))


def test_a_jobs_program_reaches_the_users_display(live: Live) -> None:
    """A listener in place of an X server gets what a program on another node writes to it."""
    job = (
        "xauth list | cut -d' ' -f5; display=${DISPLAY##*:}; "
        "exec 3<>/dev/tcp/localhost/$((6000 + ${display%.*})); echo hello >&3; sleep 2"
    )
    listen = (
        "import socket; s = socket.create_server(('127.0.0.1', 6007)); "
        "c, _ = s.accept(); print(c.recv(5).decode())"
    )
    script = sh(
        "cd /tmp && install -d -o corral /tmp/corral-x && "
        "export XAUTHORITY=/tmp/corral-x/auth DISPLAY=localhost:7 && "
        "{{ timeout 60 python3 -c {listen} >/tmp/corral-x/heard & sleep 1; }} && "
        "runuser -u corral -- xauth -q add localhost:7 . {secret} && "
        "runuser -u corral -- timeout 90 srun --x11 -w node1 bash -c {job}; "
        "wait; cat /tmp/corral-x/heard",
        listen=listen,
        secret=SECRET,
        job=job,
    )
    lines = printed(live, script).split()
    assert lines == [SECRET, "hello"]


def test_slurm_conf_has_both(live: Live) -> None:
    conf = printed(live, sh("grep -E 'PrologFlags|Scron' /etc/slurm/slurm.conf"))
    assert conf.split() == ["PrologFlags=X11,Contain", "ScronParameters=enable"]
