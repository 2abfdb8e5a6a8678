"""Slurm's own files, plugins, daemons, versions and database."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer, Mend, Source

_BOTH: Final = (Source.SLURMCTLD, Source.SLURMD, Source.JOB)

FAILURES: Final = (
    Failure(
        "F04",
        "config-drift",
        "nodes have other configuration files than the controller",
        "slurm.conf was changed on one machine only, or slurmd keeps an old copy",
        "configless: nodes take it from the controller; corral apply. Never NO_CONF_HASH",
        "slurm proc_req.c",
        Layer.CONFIG,
        symptoms=(r"appears to have a different slurm\.conf than the slurmctld",),
        where=(Source.SLURMCTLD,),
        mend=Mend.APPLY,
    ),
    Failure(
        "F11",
        "gres-not-declared",
        "Slurm does not know of any GPU",
        "GresTypes=gpu, or Gres= on the node's line, is missing: gres.conf alone has no effect",
        "both, even with AutoDetect: corral apply writes them",
        "SchedMD gres.html",
        Layer.CONFIG,
        symptoms=(
            r"invalid generic resource \(gres\) specification",
            r"gres .*not (?:listed )?in grestypes|no gres types? configured",
        ),
        where=_BOTH,
        mend=Mend.APPLY,
    ),
    Failure(
        "F12",
        "autodetect-unavailable",
        "Slurm cannot detect GPUs by itself here",
        "AutoDetect=nvml needs a Slurm built with NVML, which no distribution has; "
        "AutoDetect=nvidia "
        "needs 24.11",
        "AutoDetect=nvidia from 24.11 on, explicit File= before: corral apply",
        "DeepOps issue 1214; gres.html",
        Layer.CONFIG,
        symptoms=(
            r"configured to autodetect \w+ functionality, but we weren't able to find that lib",
            r"unknown autodetect flag",
        ),
        mend=Mend.APPLY,
    ),
    Failure(
        "F14",
        "gres-conflict",
        "lines of gres.conf contradict each other",
        "AutoDetect stands beside bare Name=gpu lines, or lines with and without Type= or File=",
        "one style per node: corral apply",
        "slurm-operator issue 111",
        Layer.CONFIG,
        symptoms=(
            r"gres\.conf duplicate records for gpu",
            r"gres\.conf for gpu, some records have \"?\w+=?\"? specification while others do not",
            r"following autodetected gpus are being ignored",
        ),
        mend=Mend.APPLY,
    ),
    Failure(
        "F16",
        "no-gpu-isolation",
        "jobs can open GPUs that are not theirs",
        "ConstrainDevices is no, which is its default, or TaskPlugin lacks task/cgroup",
        "ConstrainDevices=yes and TaskPlugin=task/cgroup,task/affinity: corral apply",
        "cgroup.conf(5)",
        Layer.CONFIG,
        mend=Mend.APPLY,
    ),
    Failure(
        "F19",
        "slurm-version-mix",
        "Slurm's versions do not fit together",
        "a node's Slurm is newer than the controller's, or older than it still talks to",
        "one source of packages for all nodes; upgrade slurmdbd, then slurmctld, then slurmd",
        "SchedMD upgrades.html",
        Layer.SOFTWARE,
        symptoms=(
            r"incompatible versions of client and server code",
            r"appears to have a different version",
            r"invalid protocol[ _]version",
        ),
    ),
    Failure(
        "F22",
        "spank-plugin-version",
        "a plugin was built for another Slurm",
        "Pyxis and other SPANK plugins are bound to one release",
        "build it anew in the same step in which Slurm is upgraded",
        "Pyxis README",
        Layer.SOFTWARE,
        symptoms=(
            r"spank: \S+: incompatible plugin version",
            r"failed to load plugin \S*\.so\. aborting",
            r"(?:spank|srun: error): plug-?in initialization failed",
        ),
    ),
    Failure(
        "F31",
        "no-clustername",
        "slurm.conf has no ClusterName",
        "since 20.02 nothing starts without one",
        "write ClusterName: corral apply does",
        "slurm.conf(5)",
        Layer.CONFIG,
        symptoms=(r"clustername needs to be specified",),
        mend=Mend.APPLY,
    ),
    Failure(
        "F38",
        "accounting-db",
        "accounting does not work",
        "slurmdbd or MariaDB does not run, or the cluster is not registered in it",
        "systemctl restart mariadb slurmdbd; read /var/log/slurm/slurmdbd.log; corral apply",
        "slurm-docker-cluster issues 33 and 9",
        Layer.SERVICE,
        symptoms=(
            r"failed to open persistent connection to (?:host:)?\S+:6819",
            r"sending persistinit msg: connection refused",
            r"running with a database but for some reason we have no tres",
            r"table '\S+_job_table' doesn't exist",
            r"mysql_real_connect failed|can't connect to (?:local )?(?:mysql|mariadb|server)",
        ),
        mend=Mend.APPLY,
    ),
    Failure(
        "F40",
        "srun-cpu-inheritance",
        "tasks get one CPU each",
        "srun of 22.05 to 23.02 does not read SLURM_CPUS_PER_TASK",
        "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK; later releases read it again",
        "Slurm CHANGELOG 22.05 and 23.11",
        Layer.JOB,
    ),
    Failure(
        "F53",
        "not-a-controller",
        "slurmctld runs on a machine that is not the controller",
        "SlurmctldHost names another host, or this one's short name is another",
        "SlurmctldHost=SHORTNAME(ADDRESS): corral apply",
        "slurm.conf(5)",
        Layer.CONFIG,
        symptoms=(r"this host \(\S+\) not a valid controller",),
        mend=Mend.APPLY,
    ),
    Failure(
        "F72",
        "config-broken",
        "slurm.conf cannot be read",
        "a word nobody knows, a value out of range, a file that is not there",
        "the message names file and line: corral lint --existing /etc/slurm; corral apply writes "
        "a good "
        "one",
        "slurm parse_config.c",
        Layer.CONFIG,
        symptoms=(
            r"parsing error at unrecognized key: \S+",
            r"unable to process configuration file",
            r"could not open(?:/read/parse)? .*(?:slurm|cgroup|gres)\.conf",
            r"line \d+ of file \S+\.conf",
            r"resuming operation, reconfigure failed",
        ),
        excludes=(r"clustername needs to be specified",),
        mend=Mend.APPLY,
    ),
    Failure(
        "F73",
        "daemon-down",
        "a daemon does not run",
        "it was stopped, killed, or failed to start",
        "systemctl status and journalctl -u of the unit named; corral apply starts it again",
        "systemctl(1)",
        Layer.SERVICE,
        mend=Mend.APPLY,
    ),
    Failure(
        "F101",
        "port-taken",
        "another process holds a Slurm daemon's port",
        "a daemon that an earlier stop left behind (systemctl status names it), or a second one "
        "that somebody started by hand",
        "ss -ltnp 'sport = :6817 or sport = :6818' names the process; end it, then corral apply",
        "Slurm 24.11.5, slurmd after a reconfiguration that hung "
        "(docs/decisions/0076-reconfigurations-that-hang.md)",
        Layer.SERVICE,
        symptoms=(
            r"unable to bind listen port",
            r"(?:slurmctld|slurmd|slurmdbd|sackd)\S*: .*address already in use",
        ),
        where=(Source.SLURMCTLD, Source.SLURMD),
    ),
    Failure(
        "F74",
        "state-lost",
        "slurmctld cannot read or write its saved state",
        "StateSaveLocation is missing, has another owner, or is on a full disk",
        "it belongs to slurm with mode 0700: corral apply; never start with -c, which forgets all "
        "jobs",
        "slurmctld(8)",
        Layer.CONFIG,
        symptoms=(
            r"statesavelocation .*(?:not|permission|invalid)",
            r"can't (?:open|create|write|save).*(?:state file|/slurmctld/)",
            r"(?:create|write) file \S*slurmctld/\S+.*(?:denied|no such)",
        ),
        excludes=(r"no space left",),
        where=(Source.SLURMCTLD,),
        mend=Mend.APPLY,
    ),
    Failure(
        "F75",
        "key-unreadable",
        "a key file is missing, or has the wrong owner or mode",
        "Slurm and munge refuse keys that others can read or that are not theirs",
        "munge.key 0400 munge, slurm.key 0600 slurm, jwt 0600 slurm: corral apply",
        "SchedMD authentication.html",
        Layer.IDENTITY,
        symptoms=(
            r"(?:slurm\.key|slurm\.jwks|jwt_hs256\.key|munge\.key)\S*.{0,40}(?:no such "
            r"file|permission"
            r"|denied|insecure|should be|mode)",
            r"(?:could not (?:load|open|read)|unable to (?:open|read)|cannot stat|can't stat) \S*"
            r"(?:slurm\.key|slurm\.jwks|jwt_hs256\.key|munge\.key)",
            r"failed to (?:load|read|stat) (?:key|\S+key)\b.*(?:slurm|munge|jwt)",
        ),
        mend=Mend.APPLY,
    ),
    Failure(
        "F102",
        "launch-unconfirmed",
        "a batch job counts as running and its script was never started",
        "slurmctld was killed between its order to start the job and the node's answer, and was "
        "away for half a minute: slurmd did not start the script and could not say so, and the "
        "job's extern step keeps Slurm from noticing",
        "nothing of the script has run, so it may run again: scontrol requeue JOB, and scontrol "
        "release JOB where Slurm holds it; or scancel JOB",
        "Slurm 24.11.5, slurmd req.c, _rpc_batch_job",
        Layer.JOB,
        symptoms=(r"could not confirm batch launch for job \d+",),
        where=(Source.SLURMD,),
    ),
)
