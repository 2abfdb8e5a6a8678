"""Ways to break a running cluster, at least one for every check of a proof. Data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.hosts.quote import Script, join, sh

CTL = "node0"
CONF = "/etc/slurm/slurm.conf"
DROP_IN = "/etc/systemd/system/slurmrestd.service.d/zz-break.conf"

# scontrol reconfigure ends when slurmctld runs again; the nodes are back once they registered.
SETTLED = sh(
    "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); s=$(scontrol show nodes -o);"
    " if ! printf '%s\\n' \"$s\" | grep -qE"
    " 'SlurmdStartTime=None|State=(UNKNOWN|DOWN|INVAL)|NOT_RESPONDING'"
    ' && [ -n "$s" ]; then exit 0; fi; sleep 0.1; done; scontrol show nodes -o; exit 1'
)
RECONFIGURE = join([sh("scontrol reconfigure || exit 1"), SETTLED])

# Set again and again: ReturnToService=2 takes a node that was set down back with any answer of
# its slurmd's, and one to an earlier question may still be on its way (seen 0.1 s later).
DOWN = sh(
    "systemd-run -q --unit=corral-test-down sh -c {keep}",
    keep="while :; do scontrol update nodename=node1 state=down reason='Not responding'; sleep 0.5;"
    " done",
)
# A node that is back already cannot be resumed.
UP = sh(
    "systemctl stop corral-test-down; scontrol update nodename=node1 state=resume 2>/dev/null; true"
)
# Nothing on its way brings it back any more.
STAYS_DOWN = sh(
    "i=0 n=0; while [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.3;"
    " if scontrol show node node1 -o | grep -q ' State=DOWN'; then n=$((n + 1)); else n=0; fi;"
    " [ $n -lt 4 ] || exit 0; done; scontrol show node node1 -o; exit 1"
)


ELSEWHERE = {
    "smoke.reached": "tests/embedded/test_prove_slow.py",
    "smoke.directory": "tests/embedded/test_directory.py",
    "multinode.mpi": "tests/embedded/test_mpi.py",
    "multinode.nccl": "tests/embedded/test_prove_nccl.py",
    "multinode.tcpxo": "tests/embedded/test_mega.py",
    "multinode.tcpxo-speed": "tests/embedded/test_mega.py",
    "storage.mounts": "tests/machines/test_storage.py",
    "access.adopt": "tests/embedded/test_people.py",
    "health.nodes": "tests/embedded/test_health.py",
}
"""Checks that other tests break; most of them have nothing to prove on examples/laptop.yaml."""


@dataclass(frozen=True)
class Break:
    """One way to break the cluster.

    Attributes:
        check: the check that must fail.
        name: what is done, in words.
        do: script per node that breaks it.
        undo: script per node that fixes it; must work whatever ``do`` got done.
        summary: a piece of text the check's summary must hold.
        implies: checks that may fail too.
        sed: the controller's file that is changed, and how, where that and a reconfigure is all.
    """

    check: str
    name: str
    do: Mapping[str, Script]
    undo: Mapping[str, Script]
    summary: str
    implies: frozenset[str] = frozenset()
    sed: tuple[str, str] | None = None


def edit(path: str, expression: str) -> Script:
    """Change a file in place by sed, with a copy next to it; in place: hosts is mounted."""
    return sh(
        "cp -p {path} {kept} && sed {expression} {kept} >{path} && ! cmp -s {path} {kept}",
        path=path,
        kept=f"{path}.kept",
        expression=expression,
    )


def restore(path: str) -> Script:
    """Put the file back."""
    return sh(
        "[ ! -f {kept} ] || {{ cat {kept} >{path} && rm {kept}; }}", path=path, kept=f"{path}.kept"
    )


def conf(check: str, name: str, path: str, expression: str, summary: str, *implies: str) -> Break:
    """A setting changed on the controller and given to all by reconfigure."""
    return Break(
        check,
        name,
        {CTL: join([edit(path, expression), RECONFIGURE], " && ")},
        {CTL: join([restore(path), RECONFIGURE])},
        summary,
        frozenset(implies),
        (path, expression),
    )


def wrapper(path: str, text: str) -> Script:
    """A program of ours before the real one in PATH."""
    return sh("printf '%s\\n' '#!/bin/sh' {text} >{path} && chmod 755 {path}", text=text, path=path)


def rest_unit(command: str) -> dict[str, Script]:
    """Another program under slurmrestd's unit; up when its port is open."""
    return {
        CTL: sh(
            "printf '%s\\n' '[Service]' 'ExecStart=' {command} >{path} && systemctl daemon-reload"
            " && systemctl restart slurmrestd && i=0; while [ $i -lt 400 ]; do i=$((i + 1));"
            " if grep -q ':1AA4 .* 0A ' /proc/net/tcp; then exit 0; fi; sleep 0.1; done; exit 1",
            command=f"ExecStart={command}",
            path=DROP_IN,
        )
    }


REST_BACK = {
    CTL: sh(
        "rm -f {path} /usr/local/lib/open.pl; systemctl daemon-reload;"
        " systemctl reset-failed slurmrestd; systemctl restart slurmrestd && i=0;"
        " while [ $i -lt 400 ]; do i=$((i + 1));"
        " if grep -q ':1AA4 .* 0A ' /proc/net/tcp; then exit 0; fi; sleep 0.1; done; exit 1",
        path=DROP_IN,
    )
}
# Answers everybody with the node's record, as an open proxy before slurmrestd would.
OPEN = """use IO::Socket::INET; my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1",
LocalPort => 6820, Listen => 9, ReuseAddr => 1) or die;
while (my $c = $l->accept) { while (<$c>) { last if /^\\r?$/ }
print $c qq(HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n{"nodes": [{"name": "node0"}]})
}"""

JOBS = frozenset(
    {"concurrency.slots", "isolation.memory", "multinode.ranks", "multinode.tcp"}
    | {"isolation.devices", "isolation.cores", "accounting.records"}
)
REST = frozenset({"rest.answers", "rest.refuses", "rest.loopback"})

BREAKS = (
    Break(
        "smoke.nodes",
        "a drained node",
        {CTL: sh("scontrol update nodename=node2 state=drain reason='loose cable'")},
        {CTL: join([sh("scontrol update nodename=node2 state=resume"), SETTLED])},
        "loose cable",
    ),
    Break(
        "smoke.nodes",
        "slurmd stopped and known to be down",
        {
            "node1": sh("systemctl stop slurmd"),
            CTL: join([DOWN, STAYS_DOWN]),
        },
        {
            "node1": sh("systemctl reset-failed slurmd; systemctl start slurmd"),
            CTL: join([UP, SETTLED]),
        },
        "node1",
        frozenset({"smoke.services", "smoke.config"}),  # configless: without slurmd no settings
    ),
    Break(
        "smoke.services",
        "slurmrestd stopped",
        {CTL: sh("systemctl stop slurmrestd")},
        REST_BACK,
        "slurmrestd on node0",
        REST,
    ),
    Break(
        "smoke.names",
        "the installer's line in /etc/hosts",
        {"node1": edit("/etc/hosts", "1i 127.0.1.1 node1")},
        {"node1": restore("/etc/hosts")},
        "127.0.1.1",
    ),
    Break(
        "smoke.versions",
        "an older slurmd on one node",
        {"node1": wrapper("/usr/local/sbin/slurmd", "echo slurm-wlm 23.11.4")},
        {"node1": sh("rm -f /usr/local/sbin/slurmd")},
        "slurmd on node1 is 23.11.4",
    ),
    Break(
        "smoke.clocks",
        "a clock 60 s ahead",
        {"node2": wrapper("/usr/local/bin/date", 'exec /usr/bin/date -d "+60 seconds" "$@"')},
        {"node2": sh("rm -f /usr/local/bin/date")},
        "node2 is at least",
        frozenset({"health.nodes"}),
    ),
    Break(
        "smoke.config",
        "a setting changed on one node only",
        {"node1": edit("/var/spool/slurmd/conf-cache/slurm.conf", "$a MaxJobCount=500")},
        {"node1": restore("/var/spool/slurmd/conf-cache/slurm.conf")},
        "node1",
    ),
    Break(
        "smoke.config",
        "a setting changed on the controller without reconfigure",
        {CTL: edit(CONF, "$a MaxJobCount=500")},
        {CTL: restore(CONF)},
        "node0",
    ),
    conf(
        "smoke.registered",
        "fewer CPUs than the machine has",
        CONF,
        "s/CPUs=2 Sockets=1 CoresPerSocket=2/CPUs=1 Sockets=1 CoresPerSocket=1/",
        "1 CPUs in Slurm",
        "concurrency.slots",
    ),
    Break(
        "smoke.launch",
        "a node that calls itself by another name",
        {"node2": sh("hostname stranger")},
        {"node2": sh("hostname node2")},
        "stranger",
        JOBS,
    ),
    conf(
        "concurrency.slots",
        "a partition that gives one CPU per node",
        CONF,
        "s/^PartitionName=main.*/& MaxCPUsPerNode=1/",
        "3 of 6 jobs",
        "isolation.memory",
    ),
    Break(
        "concurrency.slots",
        "more GPUs and cores configured than there are",
        {
            "node1": sh("mknod -m 666 /dev/nvidia2 c 195 2"),
            CTL: join(
                [
                    edit(
                        CONF,
                        "/^NodeName=/{h;s/node\\[0-2\\]/node[0,2]/;s/\\.\\[10-12\\]/.[10,12]/;p;x;"
                        "s/node\\[0-2\\]/node1/;s/\\.\\[10-12\\]/.11/;s/slot:2/slot:3/;"
                        "s/CPUs=2 Sockets=1 CoresPerSocket=2/CPUs=3 Sockets=1 CoresPerSocket=3/};"
                        "$a SlurmdParameters=config_overrides",
                    ),
                    edit(
                        "/etc/slurm/gres.conf",
                        "/^NodeName=/{h;s/node\\[0-2\\]/node[0,2]/;p;x;"
                        "s/node\\[0-2\\]/node1/;s/\\[0-1\\]/[0-2]/}",
                    ),
                    RECONFIGURE,
                ],
                " && ",
            ),
        },
        {
            CTL: join([restore(CONF), restore("/etc/slurm/gres.conf"), RECONFIGURE]),
            "node1": sh("rm -f /dev/nvidia2"),
        },
        "7 jobs ran at once",
        frozenset({"smoke.registered"}),
    ),
    conf(
        "isolation.devices",
        "ConstrainDevices=no",
        "/etc/slurm/cgroup.conf",
        "s/ConstrainDevices=yes/ConstrainDevices=no/",
        "reaches /dev/nvidia1",
    ),
    conf(
        "isolation.memory",
        "ConstrainRAMSpace=no",  # and of swap: either limit kills
        "/etc/slurm/cgroup.conf",
        r"s/Constrain\(RAM\|Swap\)Space=yes/Constrain\1Space=no/",
        "256 MiB though it asked for 64",
    ),
    conf(
        "isolation.cores",
        "ConstrainCores=no",
        "/etc/slurm/cgroup.conf",
        "s/ConstrainCores=yes/ConstrainCores=no/",
        "1 core of 2 runs on 2 CPUs",
    ),
    Break(
        "multinode.ranks",
        "a task prolog that lets each rank believe it is alone",
        {
            **{
                n: wrapper("/root-task-prolog", "echo export SLURM_NTASKS=1")
                for n in ("node1", "node2")
            },
            CTL: join(
                [
                    wrapper("/root-task-prolog", "echo export SLURM_NTASKS=1"),
                    edit(CONF, "$a TaskProlog=/root-task-prolog"),
                    RECONFIGURE,
                ],
                " && ",
            ),
        },
        {
            CTL: join([restore(CONF), RECONFIGURE, sh("rm -f /root-task-prolog")]),
            **{n: sh("rm -f /root-task-prolog") for n in ("node1", "node2")},
        },
        "knows of 1 ranks",
        frozenset({"multinode.tcp"}),
    ),
    Break(
        "multinode.tcp",
        "no route between two nodes",
        {
            "node1": sh(
                'ip route add blackhole "$(getent ahostsv4 node2 | cut -d" " -f1 | head -1)"'
            )
        },
        {"node1": sh("ip route flush type blackhole")},
        "node1 cannot reach node2",
        frozenset({"multinode.mpi"}),
    ),
    Break(
        "accounting.records",
        "slurmdbd stopped",
        {CTL: sh("systemctl stop slurmdbd")},
        {
            CTL: sh(
                "systemctl reset-failed slurmdbd; systemctl start slurmdbd;"
                " timeout 60 sh -c 'until sacct -n; do sleep 0.2; done'"
            )
        },
        "sacct",
        frozenset({"smoke.services"}),
    ),
    conf(
        "rest.answers",
        "slurmctld without JWT",
        CONF,
        "/^AuthAlt/d",
        "token",
    ),
    Break(
        "rest.refuses",
        "something on the port that answers everybody",
        {
            CTL: join(
                [
                    sh("printf '%s\\n' {text} >/usr/local/lib/open.pl", text=OPEN),
                    rest_unit("/usr/bin/perl /usr/local/lib/open.pl")[CTL],
                ],
                " && ",
            )
        },
        REST_BACK,
        "is answered (200)",
    ),
    Break(
        "rest.loopback",
        "slurmrestd on all addresses",
        rest_unit("/usr/sbin/slurmrestd -a rest_auth/jwt 0.0.0.0:6820"),
        REST_BACK,
        "open on 0.0",
    ),
    Break(
        "storage.shared",
        "a shared folder closed to the user",
        {CTL: sh("chmod 0700 /shared")},
        {CTL: sh("chmod 1777 /shared")},
        "cannot write",
    ),
    Break(
        "storage.shared",
        "a shared folder not mounted on one node",
        {"node2": sh("mount -t tmpfs -o mode=1777 none /shared")},
        {"node2": sh("umount /shared")},
        "/shared of node0 on node2",
    ),
)
