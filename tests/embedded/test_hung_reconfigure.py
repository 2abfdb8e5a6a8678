"""A reconfiguration of slurmd that hangs half way, made to happen: stops, starts and time fix it.

The real one is a lock of OpenSSL's in a forked process, once in some hundred times
(docs/guide/living.md#reconfigurations-that-hang). Here each process that a slurmd forked waits at
its exit for ever, at the same place, unless a file is there.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.conftest import Live
from tests.embedded.injection import GRES
from tests.embedded.prove_breaks import CTL, RECONFIGURE, edit, restore

from corral import api
from corral.hosts.quote import Script, sh

pytestmark = pytest.mark.slow

NODE = "node1"
STALL = "/opt/corral-stall.so"
NO_STALL = "/run/corral-no-stall"
DROP_IN = "/run/systemd/system/slurmd.service.d/stall.conf"
GUARDS = "/etc/systemd/system/slurmd.service.d/corral-reconfigure-guard.conf"

SOURCE = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pid_t first;
static void stall(void) {
  if (getpid() != first && access("/run/corral-no-stall", F_OK)) for (;;) pause();
}
__attribute__((constructor)) static void begin(void) {
  if (strcmp(program_invocation_short_name, "slurmd")) return;
  first = getpid();
  atexit(stall);
}
"""

# The daemons of the unit: one, and two more (the old one and the helper) while it hangs.
DAEMONS = sh("pgrep -f '^/usr/sbin/slurmd( |$)' | wc -l")
# A sixth start within ten seconds is refused whatever the unit would have done (StartLimitBurst=).
START = sh("systemctl reset-failed slurmd; systemctl start slurmd")
MAIN = sh("systemctl show -p MainPID --value slurmd")
# Else it may end what hangs before a test has seen it.
ALONE = sh("systemctl stop corral-reconfigure-guard.timer corral-reconfigure-guard.service")
GUARDED = sh("systemctl start corral-reconfigure-guard.timer")
LOG = sh("journalctl -u slurmd -n 30 --no-pager -o cat")
HEALTHY = sh(
    "timeout 60 sh -c 'until sinfo -h -n node1 -o %t | grep -qxE \"idle|mix\"; do sleep 0.3; done'"
)


@pytest.fixture
def stalling(cluster: Live, tmp_path: Path) -> Iterator[Live]:
    """slurmd on one node whose forked processes never end, with a reconfiguration that hangs.

    The timer that would end it is stopped.
    """
    source, made = tmp_path / "stall.c", tmp_path / "stall.so"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", made, source], check=True)
    drop_in = f"[Service]\nEnvironment=LD_PRELOAD={STALL}\n"
    try:
        assert cluster.run(NODE, ALONE).ok
        assert cluster.run(NODE, sh("cat >{to}", to=STALL), stdin=made.read_bytes()).ok
        put = sh('mkdir -p "$(dirname {to})" && cat >{to}', to=DROP_IN)
        assert cluster.run(NODE, put, stdin=drop_in.encode()).ok
        renewed(cluster)
        hung(cluster)
        yield cluster
    finally:
        remove = sh("rm -f {files}; {guarded}", files=[DROP_IN, STALL, NO_STALL], guarded=GUARDED)
        cluster.run(NODE, remove)
        renewed(cluster)


def renewed(live: Live) -> None:
    again = sh("systemctl daemon-reload; systemctl stop slurmd; {start}", start=START)
    done = live.run(NODE, again, timeout=240)
    assert done.ok, done.tail
    assert live.run(live.controller, HEALTHY, timeout=90).ok


def hung(live: Live, daemons: int = 3) -> None:
    """Reconfigure, and wait until the helper would be seen as one that does not end."""
    assert live.run(live.controller, sh("timeout 60 scontrol reconfigure"), timeout=90).ok
    until(live, sh("[ $({n}) -ge {least} ]", n=DAEMONS, least=daemons))


def until(live: Live, condition: Script, seconds: int = 90) -> None:
    wait = sh("until {c}; do sleep 0.3; done", c=condition)
    done = live.run(
        NODE, sh("timeout {s} bash -c {w}", s=seconds, w=str(wait)), timeout=seconds + 30
    )
    assert done.ok, live.run(NODE, sh("ps -eo pid,ppid,comm,args | grep -F slurmd")).stdout


def test_a_stop_takes_the_new_daemon_along(stalling: Live) -> None:
    done = stalling.run(NODE, sh("systemctl stop slurmd"), timeout=150)
    assert done.ok, done.tail
    assert stalling.run(NODE, DAEMONS).stdout.strip() == "0"
    shown = stalling.run(NODE, sh("systemctl show -p Result --value slurmd")).stdout.strip()
    assert shown == "success"


def test_the_old_daemon_leaves_by_itself_in_time(stalling: Live) -> None:
    old = stalling.run(NODE, MAIN).stdout.strip()
    assert stalling.run(NODE, GUARDED).ok
    until(stalling, sh('[ "$({main})" != {old} ] && [ $({n}) = 1 ]', main=MAIN, old=old, n=DAEMONS))
    assert stalling.run(NODE, sh("systemctl is-active slurmd")).ok


def test_a_daemon_that_was_reconfigured_again_goes_on(stalling: Live) -> None:
    """The one that the old daemon would name is gone then, and systemd would end the unit."""
    hung(stalling, daemons=5)
    assert stalling.run(NODE, sh("sleep 4; corral-reconfigure-guard")).ok
    assert stalling.run(NODE, sh("systemctl is-active slurmd")).ok
    assert stalling.run(stalling.controller, HEALTHY, timeout=90).ok


def test_the_doctor_reports_a_failed_reconfiguration_until_a_later_one_succeeded(
    stalling: Live,
) -> None:
    """The first of them hung, so systemd's main process is older than all of them."""
    old = stalling.run(NODE, MAIN).stdout.strip()
    assert stalling.run(NODE, sh("touch {f}", f=NO_STALL)).ok
    try:
        assert stalling.run(CTL, edit(GRES, "$aName=gpu Count=1")).ok
        stalling.run(CTL, sh("scontrol reconfigure"), timeout=90)
        assert reported(stalling, "F14")
    finally:
        stalling.run(CTL, restore(GRES))
        fixed = stalling.run(CTL, RECONFIGURE, timeout=120)
    assert fixed.ok, fixed.tail
    assert not reported(stalling, "F14", until=False), stalling.run(NODE, LOG).stdout
    assert stalling.run(NODE, MAIN).stdout.strip() == old


def reported(live: Live, failure: str, *, until: bool = True) -> bool:
    """Whether the doctor reports it of the node, once it does (or does not) or time is up."""
    end = time.monotonic() + 60
    while True:
        findings = asyncio.run(api.doctor(live.spec)).findings
        nodes = {node for f in findings if f.failure.id == failure for node in f.nodes}
        if (NODE in nodes) is until or time.monotonic() > end:
            return NODE in nodes
        time.sleep(0.5)


def test_without_it_the_new_daemon_stays_behind_and_holds_the_port(stalling: Live) -> None:
    """What the guard is for; and that a start gets over what was left before it was there."""
    kept = "/opt/corral-reconfigure-guard.kept"
    without = sh(
        "mv {g} {k} && "
        "systemctl daemon-reload && systemctl kill -s KILL --kill-whom=main slurmd && "
        "timeout 60 sh -c 'while systemctl -q is-active slurmd; do sleep 0.2; done'; {n}",
        g=GUARDS,
        k=kept,
        n=DAEMONS,
    )
    back = sh("mv {k} {g}; systemctl daemon-reload", k=kept, g=GUARDS)
    try:
        assert int(stalling.run(NODE, without, timeout=90).stdout.split()[-1]) >= 1
        refused = stalling.run(NODE, START, timeout=150)
        assert not refused.ok
        log = stalling.run(NODE, LOG).stdout
        assert "Address already in use" in log
    finally:
        stalling.run(NODE, back)
    started = stalling.run(NODE, START, timeout=150)
    assert started.ok, stalling.run(NODE, LOG).stdout
