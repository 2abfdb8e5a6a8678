"""Failures of the catalogue, made to happen on a running embedded cluster. Data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.embedded.injection import (
    CGROUP,
    GRES,
    KEY,
    N1,
    PLUGSTACK,
    Injection,
    conf,
    drained,
    hosts,
    stopped,
)
from tests.embedded.prove_breaks import CONF, CTL, DOWN, RECONFIGURE, SETTLED, UP, edit, restore

from corral.hosts.quote import join, sh

# Not waited for: slurmd notifies systemd only once it has registered.
_SLURMD = sh("systemctl reset-failed slurmd; systemctl --no-block restart slurmd")
_IN_N1 = "nsenter -n -t $(podman inspect -f '{{.State.Pid}}' corral-$C-node1)"
_KEEP = sh("cp -p {k} {k}.kept", k=KEY)
_KEY_BACK = sh("[ ! -f {k}.kept ] || mv {k}.kept {k}", k=KEY)

# What Pyxis is to slurmd after an upgrade of Slurm alone: a plugin built for another version.
_OLD_PLUGIN = """d=$(mktemp -d) && trap 'rm -r "$d"' EXIT && cat >"$d/old.c" <<'C' &&
const char plugin_name[] = "old"; const char plugin_type[] = "spank";
const unsigned int plugin_version = 0x150800; const unsigned int spank_plugin_version = 1;
C
gcc -shared -fPIC -o "$d/old.so" "$d/old.c" && for n in 0 1 2; do
podman cp "$d/old.so" "corral-$C-node$n:/usr/lib/spank_old.so" || exit 1; done"""

INJECTIONS: tuple[Injection, ...] = (
    replace(
        conf("F22", "a plugin of another release", PLUGSTACK, "1irequired /usr/lib/spank_old.so"),
        host=_OLD_PLUGIN,
    ),
    Injection(
        "F01",
        "another key on one node",
        {N1: join([_KEEP, sh("head -c 1024 /dev/urandom >{k}", k=KEY), _SLURMD])},
        {N1: join([_KEY_BACK, _SLURMD])},
        (N1,),
    ),
    Injection(
        "F75",
        "the key can be read by all",
        {N1: sh("chmod 644 {k}", k=KEY)},
        {N1: sh("chmod 600 {k}", k=KEY)},
        (N1,),
    ),
    Injection(
        "F75",
        "the key is gone",
        {N1: sh("mv {k} {k}.kept", k=KEY)},
        {N1: join([_KEY_BACK, _SLURMD])},
        (N1,),
    ),
    hosts("F05", "another node's name means nothing", "s/node2/elsewhere/"),
    hosts("F05", "another node's name means another address", "/node2/s/^[0-9.]*/203.0.113.7/"),
    hosts("F06", "the own name on 127.0.1.1", "1i127.0.1.1 node1"),
    Injection(
        "F04",
        "slurmd keeps another slurm.conf",
        {N1: sh("echo '# x' >>/var/spool/slurmd/conf-cache/slurm.conf")},
        {N1: sh("sed -i '/^# x$/d' /var/spool/slurmd/conf-cache/slurm.conf")},
        (N1,),
    ),
    conf("F07", "too much memory", CONF, r"s/RealMemory=[0-9]*/RealMemory=999999/"),
    conf("F08", "no RealMemory", CONF, r"s/ RealMemory=[0-9]*//"),
    conf(
        "F09",
        "too many CPUs",
        CONF,
        r"s/ CPUs=[0-9]*/ CPUs=64/;s/ \(Sockets\|CoresPerSocket\|ThreadsPerCore\)=[0-9]*//g",
    ),
    conf("F10", "more GPUs than devices", CONF, r"s/\(Gres=gpu:[a-z0-9]*\):[0-9]*/\1:5/"),
    conf("F11", "no GresTypes", CONF, r"/^GresTypes/d;s/ Gres=[^ ]*//;/^AccountingStorageTRES/d"),
    conf("F16", "devices not fenced", CGROUP, "s/^ConstrainDevices=.*/ConstrainDevices=no/"),
    Injection(
        "F13",
        "a device file is gone",
        {N1: sh("rm /dev/nvidia0")},
        {N1: sh("[ -e /dev/nvidia0 ] || mknod -m 666 /dev/nvidia0 c 195 0")},
        (N1,),
    ),
    Injection(
        "F17",
        "slurm has another number",
        {N1: sh("usermod -u 64999 slurm")},
        {N1: sh("usermod -u 64030 slurm")},
        (N1,),
    ),
    Injection(
        "F28",
        "a smaller MTU",
        {N1: sh("ip link set eth0 mtu 1280")},
        {N1: sh("ip link set eth0 mtu 1500")},
        (N1,),
    ),
    Injection(
        "F37",
        "two interfaces in one subnet",
        {
            N1: sh(
                "ip link add corral0 type veth peer name corral1 && ip link set corral0 up &&"
                " a=$(ip -o -4 addr show eth0 | awk '{{print $4}}') &&"
                ' p=${{a#*/}} && n=${{a%.*}} && ip addr add "$n.250/$p" dev corral0 noprefixroute'
            )
        },
        {N1: sh("ip link del corral0 2>/dev/null; true")},
        (N1,),
    ),
    Injection(
        "F67",
        "a full disk",
        {
            N1: sh(
                "mount -t tmpfs -o size=1m tmpfs /var/spool/slurmctld 2>/dev/null ||"
                " {{ mkdir -p /var/spool/slurmctld &&"
                " mount -t tmpfs -o size=1m tmpfs /var/spool/slurmctld; }};"
                " dd if=/dev/zero of=/var/spool/slurmctld/fill bs=64k 2>/dev/null; true"
            )
        },
        {N1: sh("umount /var/spool/slurmctld; rmdir /var/spool/slurmctld 2>/dev/null; true")},
        (N1,),
    ),
    Injection(
        "F68",
        "the shared folder is not mounted",
        {
            N1: sh(
                "cd /; mount --bind /shared /run/kept-shared 2>/dev/null ||"
                " {{ mkdir -p /run/kept-shared && mount --bind /shared /run/kept-shared; }};"
                " umount -l /shared"
            )
        },
        {
            N1: sh(
                "k=/run/kept-shared; mountpoint -q /shared || mount --bind $k /shared; umount -l $k"
            )
        },
        (N1,),
    ),
    stopped("F73", "slurmd", N1),
    stopped("F73", "slurmrestd", CTL),
    Injection(
        "F73",
        "slurmctld stopped",
        {CTL: sh("systemctl stop slurmctld")},
        {CTL: join([sh("systemctl reset-failed slurmctld; systemctl start slurmctld"), SETTLED])},
        (CTL,),
    ),
    stopped("F38", "slurmdbd", CTL),
    Injection(
        "F38",
        "MariaDB stopped",
        {CTL: sh("systemctl stop mariadb")},
        {
            CTL: sh(
                "systemctl start mariadb; systemctl reset-failed slurmdbd;"
                " systemctl restart slurmdbd"
            )
        },
        (CTL,),
    ),
    Injection(
        "F31",
        "no ClusterName",
        {
            CTL: join(
                [edit(CONF, "/^ClusterName/d"), sh("systemctl --no-block restart slurmctld; true")],
                " && ",
            )
        },
        {
            CTL: join(
                [
                    restore(CONF),
                    sh("systemctl reset-failed slurmctld; systemctl restart slurmctld"),
                    SETTLED,
                ]
            )
        },
    ),
    Injection(
        "F72",
        "an unknown word",
        {
            CTL: join(
                [
                    edit(CONF, "1iGiveMeGpus=yes"),
                    sh("systemctl --no-block restart slurmctld; true"),
                ],
                " && ",
            )
        },
        {
            CTL: join(
                [
                    restore(CONF),
                    sh("systemctl reset-failed slurmctld; systemctl restart slurmctld"),
                    SETTLED,
                ]
            )
        },
    ),
    Injection(
        "F53",
        "another controller named",
        {
            CTL: join(
                [
                    edit(CONF, "s/^SlurmctldHost=.*/SlurmctldHost=elsewhere(203.0.113.9)/"),
                    sh("systemctl --no-block restart slurmctld; true"),
                ],
                " && ",
            )
        },
        {
            CTL: join(
                [
                    restore(CONF),
                    sh("systemctl reset-failed slurmctld; systemctl restart slurmctld"),
                    SETTLED,
                ]
            )
        },
    ),
    Injection(
        "F51",
        "a prolog that fails",
        # In brackets: what waits for the nodes ends the shell.
        {
            CTL: sh(
                "{edit} && ({reconfigure}) && {{ timeout 40 srun -w node1 true; true; }}",
                edit=edit(CONF, "$aProlog=/bin/false"),
                reconfigure=RECONFIGURE,
            )
        },
        {
            CTL: sh(
                "{restore}; ({reconfigure}); scontrol update nodename=node1 state=resume; true",
                restore=restore(CONF),
                reconfigure=RECONFIGURE,
            )
        },
        (N1,),
    ),
    conf("F12", "AutoDetect=nvml", GRES, "s/^NodeName=.*/AutoDetect=nvml/"),
    conf("F14", "lines of gres.conf contradict each other", GRES, "$aName=gpu Count=1"),
    conf("F15", "no cgroup is there", CGROUP, "$aCgroupMountpoint=/nonexistent", restart=True),
    *(
        ()
        if Path("/sys/fs/cgroup/cgroup.controllers").exists()  # only where v1 is mounted as well
        else (
            conf(
                "F52", "cgroup/v2 asked for", CGROUP, "s,^CgroupPlugin=.*,CgroupPlugin=cgroup/v2,"
            ),
        )
    ),
    hosts("F66", "the own name means nothing", "/node1$/d"),
    Injection(
        "F18",
        "slurmd's port is dropped",
        {CTL: DOWN},
        {CTL: UP},
        (N1,),
        host=f"{_IN_N1} iptables -A INPUT -p tcp --dport 6818 ! -i lo -j DROP",
        host_undo=f"{_IN_N1} iptables -D INPUT -p tcp --dport 6818 ! -i lo -j DROP",
    ),
    Injection(
        "F18",
        "slurmctld's port is dropped",
        {N1: _SLURMD, CTL: DOWN},
        {N1: _SLURMD, CTL: UP},
        (N1,),
        host=f"{_IN_N1} iptables -A OUTPUT -p tcp --dport 6817 -j DROP",
        host_undo=f"{_IN_N1} iptables -D OUTPUT -p tcp --dport 6817 -j DROP",
    ),
    Injection(
        "F69",
        "a machine is frozen",
        {},
        {},
        (N1,),
        host="podman pause corral-$C-node1",
        host_undo="podman unpause corral-$C-node1",
    ),
    Injection(
        "F19",
        "slurmd reports that it is newer",
        {
            N1: sh(
                "printf '%s\\n' '#!/bin/sh'"
                " '[ \"$1\" = -V ] && {{ echo slurm-wlm 25.05.1; exit; }}'"
                " 'exec /usr/sbin/slurmd \"$@\"' >/usr/local/sbin/slurmd &&"
                " chmod 755 /usr/local/sbin/slurmd"
            )
        },
        {N1: sh("rm -f /usr/local/sbin/slurmd")},
        (N1,),
    ),
    Injection(
        "F67",
        "no inodes are left",
        {
            N1: sh(
                "mkdir -p /var/spool/slurmctld &&"
                " mount -t tmpfs -o size=64m,nr_inodes=200 tmpfs /var/spool/slurmctld &&"
                " cd /var/spool/slurmctld && i=0 && while touch f$i; do i=$((i + 1)); done"
                " 2>/dev/null; true"
            )
        },
        {N1: sh("umount /var/spool/slurmctld; rmdir /var/spool/slurmctld 2>/dev/null; true")},
        (N1,),
    ),
    Injection(
        "F74",
        "slurmctld's state is another user's",
        {
            CTL: sh(
                "systemctl stop slurmctld; chown root:root /var/spool/slurmctld;"
                " chmod 700 /var/spool/slurmctld; systemctl --no-block start slurmctld"
            )
        },
        {
            CTL: join(
                [
                    sh(
                        "chown slurm:slurm /var/spool/slurmctld;"
                        " systemctl reset-failed slurmctld; systemctl restart slurmctld"
                    ),
                    SETTLED,
                ]
            )
        },
        (CTL,),
    ),
    drained("F39", "Node unexpectedly rebooted"),
    drained("F84", "Kill task failed"),
)

MUNGE_KEY = "/etc/munge/munge.key"
_MUNGE_BACK = sh(
    "[ ! -f {k}.kept ] || mv {k}.kept {k}; chmod 400 {k}; systemctl restart munge;"
    " systemctl reset-failed slurmd; systemctl restart slurmd",
    k=MUNGE_KEY,
)

MUNGE_INJECTIONS: tuple[Injection, ...] = (
    Injection(
        "F01",
        "another munge key on one node",
        {
            N1: join(
                [
                    sh(
                        "cp -p {k} {k}.kept; head -c 1024 /dev/urandom >{k};"
                        " systemctl restart munge",
                        k=MUNGE_KEY,
                    ),
                    _SLURMD,
                ]
            )
        },
        {N1: _MUNGE_BACK},
        (N1,),
    ),
    Injection(
        "F75",
        "the munge key can be read by all",
        {N1: sh("chmod 644 {k}", k=MUNGE_KEY)},
        {N1: sh("chmod 400 {k}", k=MUNGE_KEY)},
        (N1,),
    ),
    Injection(
        "F03",
        "munged stopped on a node",
        {N1: sh("systemctl stop munge")},
        {N1: _MUNGE_BACK},
        (N1,),
    ),
    Injection(
        "F03",
        "munged stopped on the controller",
        {CTL: sh("systemctl stop munge")},
        {CTL: join([sh("systemctl start munge"), SETTLED])},
        (CTL,),
    ),
)
"""On a cluster with munge."""
