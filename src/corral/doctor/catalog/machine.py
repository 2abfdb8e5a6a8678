"""The machine under everything: disks, limits, cgroups, containers, mounts."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer, Mend, Source

FAILURES: Final = (
    Failure(
        "F15",
        "cgroup-unusable",
        "Slurm cannot use the machine's cgroups",
        "Slurm was built without dbus or bpf, a controller is not mounted, or the node is a "
        "container "
        "without systemd",
        "on a machine: Slurm with dbus, slurmd's unit with Delegate=yes; in a container: its own "
        "cgroup "
        "namespace with systemd as process 1; without systemd: CgroupPlugin=disabled, and no "
        "isolation",
        "slurm-k8s-cluster issues 38 and 39",
        Layer.SOFTWARE,
        symptoms=(
            r"cannot find cgroup plugin",
            r"cgroup_dbus_attach_to_scope: cannot connect to dbus",
            r"unable to initialize cgroup plugin",
            r"cgroup namespace '\w+' not mounted",
            r"unable to create \w+ cgroup namespace",
            r"cannot create proctrack context for proctrack/cgroup",
        ),
        where=(Source.SLURMD,),
        mend=Mend.APPLY,
    ),
    Failure(
        "F20",
        "userns-blocked",
        "user namespaces are blocked",
        "Ubuntu since 23.10 restricts them by AppArmor, a container by seccomp, or "
        "user.max_user_namespaces is 0",
        "enroot's own package since 3.5.0 brings an AppArmor profile; else corral apply (with "
        "containers: pyxis) sets kernel.apparmor_restrict_unprivileged_userns=0 and "
        "user.max_user_namespaces",
        "enroot doc/requirements.md",
        Layer.SOFTWARE,
        symptoms=(
            r"enroot-nsenter: failed to create user namespace",
            # ENOSPC: user.max_user_namespaces is 0, or that many are there (unshare(2)).
            r"unshare(?: failed)?: (?:unshare failed: )?"
            r"(?:operation not permitted|permission denied|no space left on device)",
        ),
        mend=Mend.APPLY,
    ),
    Failure(
        "F21",
        "enroot-dirs",
        "enroot cannot make its folders",
        "ENROOT_RUNTIME_PATH is not per user, or nobody makes it before the job",
        "per-user paths in enroot.conf and a prolog that makes them with the job's uid",
        "pyxis issues 12 and 138",
        Layer.CONFIG,
        symptoms=(r"cannot create directory '?\S*enroot\S*'?: permission denied",),
    ),
    Failure(
        "F29",
        "memlock-limit",
        "too little memory may be locked",
        "slurmd was started with a small hard limit (limits.conf does not count for units), or the "
        "submit host's limit came along with the job",
        "LimitMEMLOCK=infinity in slurmd's unit and PropagateResourceLimitsExcept=MEMLOCK in "
        "slurm.conf: corral apply",
        "Slurm FAQ; nccl-tests issue 206",
        Layer.CONFIG,
        symptoms=(
            r"ibv_reg_mr\S* .*cannot allocate memory",
            r"please set max locked memory",
            r"failed to register memory.*memlock|memlock.*too (?:low|small)",
        ),
        mend=Mend.APPLY,
    ),
    Failure(
        "F41",
        "root-squash-enroot",
        "root may not use that folder: it is squashed to nobody",
        "enroot, or a script, runs as root on an NFS folder that is exported with root_squash",
        "run it as the job's user; keep enroot's folders on the local disk",
        "enroot issue 140",
        Layer.CONFIG,
        symptoms=(r"enroot-mount: failed to mount: .*permission denied",),
    ),
    Failure(
        "F42",
        "apparmor-abi",
        "enroot's AppArmor profile is for newer systems",
        "its profile names abi/4.0, which Ubuntu 22.04 does not have",
        "disable the profile there: 22.04 does not restrict user namespaces",
        "enroot issue 201",
        Layer.SOFTWARE,
        symptoms=(r"could not open 'abi/4\.0'",),
    ),
    Failure(
        "F52",
        "cgroup-mode",
        "cgroup/v2 is set on a machine with cgroup v1 or both",
        "CgroupPlugin=cgroup/v2 needs the unified hierarchy alone",
        "CgroupPlugin=autodetect (corral apply), or boot with systemd.unified_cgroup_hierarchy=1",
        "cgroup.conf(5)",
        Layer.CONFIG,
        symptoms=(
            r"hybrid mode is not supported\. mounted cgroups are",
            r"\S+ is not a valid cgroup2 mountpoint",
        ),
        where=(Source.SLURMD,),
        mend=Mend.APPLY,
    ),
    Failure(
        "F58",
        "expired-release-file",
        "a package source is older than it says it may be",
        "a frozen archive: its Release file has run out",
        'Acquire::Check-Valid-Until "false" for that one source, never for all',
        "apt.conf(5)",
        Layer.SOFTWARE,
        symptoms=(r"release file for \S+ is expired",),
    ),
    Failure(
        "F61",
        "wrong-package",
        "the package called slurm is another program",
        "apt install slurm gives a network monitor",
        "remove it; the workload manager is slurm-wlm (distribution) or slurm-smd (SchedMD's "
        "packages)",
        "packages of Debian and Ubuntu",
        Layer.SOFTWARE,
        symptoms=(r"(?:^|\n)\s*(?:ii|Setting up|Unpacking|Selecting .* package) slurm(?:[: (]|$)",),
        where=(Source.PACKAGES,),
    ),
    Failure(
        "F63",
        "runtime-refuses-cgroups",
        "the container runtime refuses the machine's cgroups",
        "crun takes neither hybrid mounts nor cgroup v1 with systemd",
        "runc works: podman --runtime runc",
        "seen on Debian 12 with hybrid mounts",
        Layer.MACHINE,
        symptoms=(r"crun: .*(?:cgroup.*(?:hybrid|v1|unsupported|not supported)|unknown version)",),
    ),
    Failure(
        "F64",
        "container-ulimits",
        "a container asks for higher limits than its starter has",
        "without CAP_SYS_RESOURCE nobody raises a hard limit",
        "pass --ulimit nofile= and nproc= at or below the caller's own",
        "seen with podman 4.3",
        Layer.MACHINE,
        symptoms=(
            r"(?:setrlimit|setting) .*rlimit_\w+.*operation not permitted",
            r"setting rlimit type \d+: operation not permitted",  # runc 1.1.5
        ),
    ),
    Failure(
        "F65",
        "hosts-file-replaced",
        "/etc/hosts cannot be replaced",
        "in a container it is a bind mount: renaming over it fails",
        "write it in place",
        "seen with podman and Docker",
        Layer.MACHINE,
        symptoms=(r"/etc/hosts\S*'?: device or resource busy",),
    ),
    Failure(
        "F67",
        "disk-full",
        "a disk is full",
        "logs, core files or job output filled it; slurmctld then cannot save its state, MariaDB "
        "stops",
        "find what fills it: du -xh / | sort -h | tail; free some, then look again",
        "errno(3) ENOSPC",
        Layer.MACHINE,
        symptoms=(
            # unshare(2) and inotify_add_watch(2) say so of limits that are no disk's.
            r"^(?!.*(?:unshare|namespace|inotify|failed to watch)).*no space left on device",
            r"disk quota exceeded",
            r"errcode: 28\b",
        ),
    ),
    Failure(
        "F68",
        "mount-stale",
        "a shared folder does not answer",
        "its NFS server is down or was set up anew (stale handle), or the folder is not mounted",
        "look at the server (systemctl status nfs-server, exportfs -v); then umount -f and mount "
        "again",
        "nfs(5)",
        Layer.MACHINE,
        symptoms=(r"stale (?:nfs )?file handle", r"nfs: server \S+ not responding"),
        mend=Mend.APPLY,
    ),
    Failure(
        "F69",
        "unreachable",
        "a machine does not answer",
        "it is off, hung, or cut off from the network; or sshd refuses this key",
        "look at its console and its cables; then: corral ssh NODE",
        "ssh(1)",
        Layer.MACHINE,
    ),
    Failure(
        "F70",
        "out-of-memory",
        "the kernel killed processes for want of memory",
        "jobs without a memory limit, or a limit above what the machine has",
        "ConstrainRAMSpace=yes and a real RealMemory (corral apply); ask for --mem in the job",
        "kernel log",
        Layer.MACHINE,
        symptoms=(
            r"out of memory: kill(?:ed)? process \d+ \((?:slurm|munge|mariadb|mysqld)\w*\)",
            r"oom-kill:.*task=(?:slurmd|slurmctld|mariadbd)",
        ),
        where=(Source.KERNEL,),
    ),
    Failure(
        "F71",
        "read-only-disk",
        "a file system has become read-only",
        "the kernel remounts a file system after errors of its disk",
        "read dmesg; replace the disk; never only remount it",
        "ext4(5), errors=remount-ro",
        Layer.MACHINE,
        symptoms=(r"remounting filesystem read-only", r"read-only file system"),
        where=(Source.KERNEL, Source.SLURMCTLD, Source.SLURMD, Source.SLURMDBD),
    ),
    Failure(
        "F230",
        "shared-folder-taken",
        "a folder of jobs on shared storage is not root's",
        "a user made it before Corral did, or the storage is open to all without the sticky bit: "
        "that user could read and replace what others upload, so no job is submitted there",
        "corral up FILE sets the folder aside and makes one of root's; on storage of your own: "
        "chmod +t on its top folder",
        "chmod(1), restricted deletion flag",
        Layer.MACHINE,
        mend=Mend.APPLY,
    ),
)
