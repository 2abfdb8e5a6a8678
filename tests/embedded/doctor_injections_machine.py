"""What happens to a machine itself: read-only disks, folders whose server is gone. Data."""

from __future__ import annotations

from pathlib import Path

from tests.embedded.injection import N1, Injection
from tests.embedded.prove_breaks import CTL, SETTLED

from corral.hosts.quote import Script, join, sh

_DEAD_MOUNT = (Path(__file__).parent / "programs" / "dead_mount.py").read_text()


def _read_only(name: str, node: str, folder: str) -> Injection:
    """The folder's own files, and nothing of it can be written: as after an error of the disk."""
    return Injection(
        "F71",
        name,
        {node: sh("mount --bind {f} {f} && mount -o remount,ro,bind {f}", f=folder)},
        {node: sh("umount -l {f}; [ -w {f} ]", f=folder)},
        (node,),
    )


def _dead_mount(kind: str, name: str) -> Injection:
    """/shared as an NFS client sees it whose server was rebuilt (stale) or is off (silent)."""
    return Injection(
        "F68",
        name,
        {
            N1: sh(
                "printf %s {program} >/run/dead_mount.py && cd / && systemd-run -q"
                " --unit=corral-test-mount python3 /run/dead_mount.py /shared {kind} &&"
                ' timeout 20 sh -c \'until grep -q " /shared fuse.gone" /proc/mounts;'
                " do sleep 0.1; done'",
                program=_DEAD_MOUNT,
                kind=kind,
            )
        },
        {
            N1: sh(
                "while grep -q ' /shared fuse.gone' /proc/mounts; do umount -l /shared; done;"
                " systemctl stop corral-test-mount 2>/dev/null; rm -f /run/dead_mount.py"
            )
        },
        (N1,),
    )


_ALONE = "/run/systemd/system/slurmd.service.d/alone.conf"


def _restarted(change: Script) -> Script:
    restart = sh(
        "systemctl daemon-reload; systemctl reset-failed slurmd;"
        " systemctl --no-block restart slurmd"
    )
    return join([change, restart])


MACHINE_INJECTIONS: tuple[Injection, ...] = (
    _read_only("slurmd's folder is read-only", N1, "/var/spool/slurmd"),
    _read_only("slurmctld's state is read-only", CTL, "/var/spool/slurmctld"),
    _dead_mount("stale", "a shared folder is stale"),
    _dead_mount("silent", "a shared folder's server is silent"),
    Injection(
        "F73",
        "slurmd is masked",
        {N1: sh("systemctl stop slurmd && systemctl mask slurmd")},
        {
            N1: sh(
                "systemctl unmask slurmd && systemctl reset-failed slurmd; systemctl start slurmd"
            ),
            CTL: SETTLED,
        },
        (N1,),
    ),
    Injection(
        "F105",
        "a machine has another hostname",
        {N1: _restarted(sh("hostname elsewhere"))},
        {N1: _restarted(sh("hostname node1")), CTL: SETTLED},
        (N1,),
    ),
    Injection(
        "F54",
        "slurmd has no address but loopback",
        {
            N1: _restarted(
                sh(
                    "mkdir -p $(dirname {u}) && printf '%s\\n' '[Service]' PrivateNetwork=yes >{u}",
                    u=_ALONE,
                )
            )
        },
        {N1: join([_restarted(sh("rm -f {u}", u=_ALONE))]), CTL: SETTLED},
        (N1,),
    ),
)
