"""Questions about Slurm: versions, files and keys on any node; nodes and jobs on the controller."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from corral.hosts.quote import Script, call, defined, sh
from corral.inspect.question import Question, T, pairs, text
from corral.slurm.conf.parse import Document, parse
from corral.slurm.records import Association, Job, Partition
from corral.slurm.states.jobs import HOLDING
from corral.slurm.steps import QUEUE_BATCH
from corral.slurm.text import (
    SHOW_JOB,
    SHOW_NODES,
    SHOW_PARTITION,
    TIME_FORMAT,
    parse_history,
    parse_job,
    parse_queue,
    queue_format,
    readable_associations,
    readable_nodes,
    readable_partitions,
    readable_queue,
    show_associations,
    show_history,
    show_queue,
)
from corral.slurm.version import SlurmVersion

KEYS: Final = (
    "/etc/munge/munge.key",
    "/etc/slurm/slurm.key",
    "/etc/slurm/slurm.jwks",
    "/var/spool/slurmctld/jwt_hs256.key",
)
CONF: Final = ("slurm.conf", "gres.conf", "cgroup.conf")
STATE_FOLDER: Final = "/var/spool/slurmctld"
_USER_PROGRAM: Final = "jobs/user.sh"
LAST: Final = "@last"
"""The last line of an answer that is complete; without it the answer is unknown, not empty."""


def versions(answer: str) -> dict[str, str]:
    """Version by program, "" where a program does not print one."""
    return {
        program: (rest.split() or [""])[-1]
        for program, _, rest in (line.partition(" ") for line in answer.splitlines() if line)
    }


VERSIONS: Final = Question(
    "versions",
    sh(
        "for p in slurmctld slurmd slurmdbd; do"
        ' if command -v "$p" >/dev/null; then printf \'%s %s\\n\' "$p"'
        ' "$("$p" -V 2>&1 | sed \'s/^slurm[a-z-]* //\')"; fi; done'
    ),
    versions,
)
KEY_FILES: Final = Question(
    "keys",
    sh(
        'for k in {keys}; do if [ -e "$k" ]; then'
        ' printf \'%s %s %s\\n\' "$k" "$(sha256sum <"$k" | cut -c1-16)"'
        ' "$(stat -c %U:%a "$k")"; fi; done',
        keys=list(KEYS),
    ),
    pairs,
)
CONF_FILES: Final = Question(
    "conf",
    sh(
        "for d in /var/spool/slurmd/conf-cache /etc/slurm; do for n in {conf}; do"
        ' if [ -f "$d/$n" ]; then printf \'%s %s\\n\' "$d/$n"'
        ' "$(sha256sum <"$d/$n" | cut -c1-16)"; fi; done; done',
        conf=list(CONF),
    ),
    pairs,
)
STEPS: Final = Question(
    "steps",
    sh(
        "{functions}\nroot_steps etimes=,args= && echo {last}",
        functions=defined("slurm-steps.sh", "root_steps"),
        last=LAST,
    ),
    text,
)
JOB_COLUMNS: Final = ("%A", "%T", "%M", "%N")
JOBS: Final = Question(
    "jobs",
    sh(
        "timeout 15 squeue -h -t {states} -o {format} 2>/dev/null && echo {last}",
        states=HOLDING,
        format=queue_format(JOB_COLUMNS),
        last=LAST,
    ),
    text,
)


def settings(answer: str) -> dict[str, str]:
    """Lines ``KEY = VALUE`` of ``scontrol show config``."""
    split = (line.partition("=") for line in answer.splitlines())
    return {key.strip(): value.strip() for key, _, value in split if value}


INNER_S: Final = 20
"""Seconds for one command in it, so that what hangs is named and the rest is read."""
CONFIG: Final = Question(
    "config",
    sh(
        "c=$(timeout {limit} scontrol show config 2>&1); s=$?; printf '%s\\n' \"$c\""
        " | grep -E '^ *(SLURM_CONF|SLURM_VERSION|HASH_VAL|SlurmdSpoolDir|AuthType) |error:'\n"
        "( exit $s )",
        limit=INNER_S,
    ),
    settings,
)
"""The settings that the node works with."""


def setting(key: str) -> Question[str]:
    """One key of ``scontrol show config``; "" where it is unset or Slurm does not answer."""
    shell: Script = sh(
        "timeout {limit} scontrol show config 2>/dev/null | sed -n {edit}",
        limit=INNER_S,
        edit=f"s/^{key} *= *//p",
    )
    return Question(key, shell, str.strip)


RELEASE: Final = Question("release", sh("scontrol --version"), SlurmVersion.parse)
"""The version of Slurm's commands."""


def digests(answer: str) -> dict[str, str]:
    """Digest by path, from lines of sha256sum."""
    rows = (line.split(None, 1) for line in answer.splitlines() if " " in line)
    return {path: digest for digest, path in rows}


IN_USE: Final = Question(
    "files",
    sh(
        "f=$(printf '%s\\n' \"$c\" | sed -n 's/^SLURM_CONF *= *//p')\n"
        "s=$(printf '%s\\n' \"$c\" | sed -n 's/^SlurmdSpoolDir *= *//p'"
        ' | sed "s/%[nh]/$(hostname)/g")\n'
        'cd / && for d in "${{f%/*}}" "${{s:-/var/spool/slurmd}}/conf-cache"; do'
        " for n in {conf}; do"
        ' if [ -n "$d" ] && [ -f "$d/$n" ]; then sha256sum "$d/$n"; fi; done; done',
        conf=list(CONF),
    ),
    digests,
)
"""After ``CONFIG``: digests of the files that it names."""
MADE_FROM: Final = Question(
    "apart", sh('sed -n "s/^# Cluster\'s own: //p" "$f" 2>/dev/null'), str.strip
)
"""After ``IN_USE``: the digest of the cluster's slurm.conf of which a node's own was made."""
STATE: Final = Question("state", sh("stat -c '%U %a' {state} 2>&1", state=STATE_FOLDER), str.strip)
PING: Final = Question(
    "ping", sh("p=$(timeout 10 scontrol ping 2>&1); printf '%s\\n' \"$p\""), str.strip
)
NODES: Final = Question(
    "nodes",
    sh("timeout 15 {show} --details 2>&1", show=SHOW_NODES),
    readable_nodes,
)
BATCH: Final = Question(
    "batch",
    sh("timeout 15 {command} 2>/dev/null", command=[*QUEUE_BATCH]),
    text,
)
QUEUE: Final = Question(
    "queue", sh("timeout 15 squeue --noheader --format=%T 2>/dev/null"), str.split
)
OWN_QUEUE: Final = Question(
    "own-queue",
    sh('timeout 15 squeue --noheader --user="$(id -un)" --format=%T 2>/dev/null'),
    str.split,
)
ACCOUNTING: Final = Question(
    "accounting", sh("timeout 15 sacctmgr -nP show cluster format=cluster 2>&1"), text
)
QOS: Final = Question(
    "qos", sh("sacctmgr --noheader --parsable2 show qos format=Name 2>/dev/null"), str.split
)
"""Names of all QOS."""
CHARGED: Final = ("Account", "QOS")


def _charged(answer: str) -> tuple[Association, ...]:
    return readable_associations(answer, CHARGED)


def associations_of(user: str) -> Question[tuple[Association, ...]]:
    """A user's accounts, each with its QOS; none where there is no accounting."""
    show = show_associations(f"user={user}", columns=CHARGED)
    return Question("associations", sh("{show} 2>/dev/null", show=[*show]), _charged)


UNIX_TIMES: Final = sh("export {time}", time="=".join(TIME_FORMAT))
"""Runs before ``job_queue`` and ``job_history``: Slurm's commands then print unix seconds."""


def job_queue(mark: str, *options: str) -> Question[tuple[Job, ...]]:
    """Jobs that slurmctld knows; reading them raises CorralError for a line of another kind.

    Args:
        mark: separates fields; letters and digits nobody can know beforehand.
        options: of squeue.
    """
    shell = sh("{words}", words=[*show_queue(mark), *options])
    return Question("job-queue", shell, lambda answer: parse_queue(answer, mark))


def job_history(mark: str, *options: str) -> Question[tuple[Job, ...]]:
    """Jobs that accounting knows, as ``job_queue``; none where it does not answer.

    Args:
        mark: as of ``job_queue``.
        options: of sacct.
    """
    shell = sh("{words} 2>/dev/null", words=[*show_history(mark), *options])
    return Question("job-history", shell, lambda answer: parse_history(answer, mark))


def job_request(job: int | str) -> Question[Job | None]:
    """One job as slurmctld has it."""
    return Question("asked", sh("{show} {job} | head -n 1", show=[*SHOW_JOB], job=job), parse_job)


def pending_in(partition: str, columns: Sequence[str]) -> Question[tuple[Job, ...]]:
    """Pending jobs of a partition, each task of an array for itself."""
    shell = sh(
        "squeue -h --array --all --states=PENDING --partition={partition} -o {format}",
        partition=partition,
        format=queue_format(columns),
    )
    return Question("queue-ahead", shell, lambda answer: tuple(readable_queue(answer, columns)))


def running_on(nodes: str, columns: Sequence[str]) -> Question[tuple[Job, ...]]:
    """Jobs that run on nodes, a hostlist."""
    shell = sh("squeue -h -t R -w {nodes} -o {format}", nodes=nodes, format=queue_format(columns))
    return Question("others", shell, lambda answer: tuple(readable_queue(answer, columns)))


def past_jobs(mark: str, days: int) -> Question[str]:
    """All jobs of accounting since so many days, as ``show_history`` prints them.

    Args:
        mark: as of ``job_queue``.
        days: how far back.
    """
    shell = sh(
        "timeout 40 {sacct} --allusers --starttime=now-{days}days --endtime=now",
        sacct=[*show_history(mark, duplicates=False)],
        days=days,
    )
    return Question("past-jobs", shell, text)


def job_script(job: int, longest: int) -> Question[str]:
    """A job's batch script, from slurmctld, else from accounting; "" where neither has it."""
    return Question("script", call(_USER_PROGRAM, "job_script", job, longest), text)


def submit_line(job: int) -> Question[str]:
    """The command that submitted a job, as accounting keeps it."""
    shell = sh(
        "timeout 20 sacct --noheader --parsable2 --allocations --jobs={job} --format=SubmitLine"
        " 2>/dev/null | head -n 1 | head -c 65536",
        job=job,
    )
    return Question("line", shell, text)


def partition_named(name: str) -> Question[tuple[Partition, ...]]:
    """One partition; nothing where slurmctld has none of that name."""
    return Question(
        "partition", sh("{show} {name}", show=[*SHOW_PARTITION], name=name), readable_partitions
    )


def mpi_kinds(answer: str) -> tuple[str, ...]:
    """The kinds of MPI in srun's list, in its words: pmi2, pmix, pmix_v5."""
    words = answer.replace(",", " ").replace(":", " ").split()
    return tuple(dict.fromkeys(w for w in words if w == "pmi2" or w.startswith("pmix")))


PYXIS: Final = Question(
    "pyxis",
    sh("srun --help 2>/dev/null | grep -q -e --container-image || echo no-pyxis"),
    text,
)
"""Not empty where Slurm has no ``--container-image``."""
MPI: Final = Question("mpi", sh("srun --mpi=list 2>&1"), mpi_kinds)
"""What ``srun --mpi`` takes; Slurm may be built without PMIx."""


def _file(name: str) -> Question[Document]:
    path = f"/etc/slurm/{name}"
    return Question(name.replace(".", ""), sh("cat {path} 2>/dev/null", path=path), parse)


SLURM_CONF: Final = _file("slurm.conf")
GRES_CONF: Final = _file("gres.conf")
CGROUP_CONF: Final = _file("cgroup.conf")
"""The controller's files in /etc/slurm."""


def while_up(question: Question[T]) -> Question[T]:
    """The question, asked only where ``PING`` before it found a slurmctld.

    Where none answers, each command asks again until its time is up (24.11).
    """
    shell: Script = sh("case $p in *' is UP'*)\n{shell};;\nesac", shell=question.shell)
    return replace(question, shell=shell)


# apt-cache is asked only while Slurm is missing: without its pkgcache.bin (container images switch
# it off) it reads all package lists, half a second of CPU each time.
# A program that is there and cannot print its version is one that dpkg is unpacking, or was when
# the power went: then apt has to report what comes.
# Plugins of the kinds on which a choice depends; all of them would be a hundred names per node.
_VERSION: Final = sh(
    """\
v=
for c in slurmd slurmctld slurmdbd sackd scontrol; do
  if v=$($c -V 2>/dev/null) && [ -n "$v" ]; then break; else v=; fi
done"""
)


def _installed(answer: str) -> str:
    match = re.search(r"^slurm\S* (\d+\.\d+\.\d+\S*)$", answer, re.MULTILINE)
    return match[1] if match else ""


def _candidate(answer: str) -> str:
    # Debian policy 5.6.12: [epoch:]upstream[-revision]
    releases = re.findall(r"Candidate: (?:\d+:)?(\d+\.\d+\.\d+)", answer)
    return max(releases, key=lambda version: [int(n) for n in version.split(".")], default="")


def _plugins(answer: str) -> frozenset[str]:
    return frozenset(line.removesuffix(".so") for line in answer.split())


VERSION: Final = Question(
    "version",
    sh('{version}\n[ -z "$v" ] || printf \'%s\\n\' "$v"', version=_VERSION),
    _installed,
)
"""Installed version, as ``24.11.5``; "" when there is none."""
CANDIDATE: Final = Question(
    "candidate",
    sh(
        """\
{version}
if [ -z "$v" ] && command -v apt-cache >/dev/null; then
  LC_ALL=C apt-cache policy slurmd slurm-smd-slurmd 2>/dev/null | grep Candidate:
fi""",
        version=_VERSION,
    ),
    _candidate,
)
"""Upstream version the package source offers, the newest of its packages; "" if none."""
PLUGINS: Final = Question(
    "plugins",
    sh(
        """\
for p in auth cgroup cred data_parser gpu metrics mpi serializer switch tls topology; do
  for d in /usr/lib/*/slurm-wlm /usr/lib/*/slurm /usr/lib64/slurm /usr/lib/slurm; do
    for f in $d/${{p}}_*.so; do [ ! -f "$f" ] || echo "${{f##*/}}"; done
  done
done"""
    ),
    _plugins,
)
"""Names of installed plugins, as ``auth_slurm``."""
INSTALLED: Final = (
    VERSION,
    CANDIDATE,
    PLUGINS,
)
"""What is installed and what could be; for facts."""
