"""Questions about Slurm: versions, files and keys on any node; nodes and accounts; its daemons."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from corral.hosts.quote import Script, call, defined, sh
from corral.inspect.question import Question, T, pairs, text
from corral.slurm.conf.parse import Document, parse
from corral.slurm.records import Association, Node, Outage, Partition
from corral.slurm.text import (
    SHOW_NODES,
    SHOW_PARTITION,
    parse_nodes,
    readable_associations,
    readable_nodes,
    readable_outages,
    readable_partitions,
    readable_sizes,
    show_associations,
    show_events,
)
from corral.slurm.version import SlurmVersion
from corral.spec.client import PUBLISHED

KEYS: Final = (
    "/etc/munge/munge.key",
    "/etc/slurm/slurm.key",
    "/etc/slurm/slurm.jwks",
    "/var/spool/slurmctld/jwt_hs256.key",
)
CONF: Final = ("slurm.conf", "gres.conf", "cgroup.conf")
STATE_FOLDER: Final = "/var/spool/slurmctld"


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


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file with a key.

    Attributes:
        digest: begin of its sha256, "" where it could not be read.
        owner: whose it is.
        mode: its permissions; None where they could not be read.
    """

    digest: str
    owner: str
    mode: int | None

    @property
    def access(self) -> str:
        """``OWNER:MODE``, as stat(1) prints them."""
        return f"{self.owner}:{'' if self.mode is None else f'{self.mode:o}'}"


def key_files(answer: str) -> dict[str, KeyFile]:
    """Files by path, from lines ``PATH DIGEST OWNER:MODE``."""
    rows = re.findall(r"^(\S+) (\S*) (?:([^\s:]+):([0-7]+))?$", answer, re.MULTILINE)
    return {
        path: KeyFile(digest, owner, int(mode, 8) if mode else None)
        for path, digest, owner, mode in rows
    }


def path_digests(answer: str) -> dict[PurePosixPath, str]:
    """Digest by path, from lines ``PATH DIGEST``."""
    return {PurePosixPath(path): digest for path, digest in pairs(answer).items()}


KEY_FILES: Final = Question(
    "keys",
    sh(
        'for k in {keys}; do if [ -e "$k" ]; then'
        ' printf \'%s %s %s\\n\' "$k" "$(sha256sum <"$k" | cut -c1-16)"'
        ' "$(stat -c %U:%a "$k")"; fi; done',
        keys=list(KEYS),
    ),
    key_files,
)
CONF_FILES: Final = Question(
    "conf",
    sh(
        "for d in /var/spool/slurmd/conf-cache /etc/slurm; do for n in {conf}; do"
        ' if [ -f "$d/$n" ]; then printf \'%s %s\\n\' "$d/$n"'
        ' "$(sha256sum <"$d/$n" | cut -c1-16)"; fi; done; done',
        conf=list(CONF),
    ),
    path_digests,
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


def _setting(key: str, parse: Callable[[str], T]) -> Question[T]:
    """One key of ``scontrol show config``; "" where it is unset or Slurm does not answer."""
    shell: Script = sh(
        "timeout {limit} scontrol show config 2>/dev/null | sed -n {edit}",
        limit=INNER_S,
        edit=f"s/^{key} *= *//p",
    )
    return Question(key, shell, parse)


def _listed(answer: str) -> frozenset[str]:
    return frozenset(answer.strip().split(",")) - {""}


def _number(answer: str) -> int | None:
    return int(answer) if answer.strip().isdecimal() else None


ENFORCED: Final = _setting("AccountingStorageEnforce", _listed)
"""What accounting refuses."""
ARRAY_SIZE: Final = _setting("MaxArraySize", _number)
"""The largest number of an array's task; None where it is unknown."""
RELEASE: Final = Question("release", sh("scontrol --version"), SlurmVersion.parse)
"""The version of Slurm's commands."""


def digests(answer: str) -> dict[PurePosixPath, str]:
    """Digest by path, from lines of sha256sum."""
    rows = (line.split(None, 1) for line in answer.splitlines() if " " in line)
    return {PurePosixPath(path): digest for digest, path in rows}


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


@dataclass(frozen=True, slots=True)
class Origin:
    """Of which slurm.conf a node's own was made.

    Attributes:
        digest: begin of that file's sha256; "" where the node's is the cluster's.
    """

    digest: str

    def is_of(self, digest: str) -> bool:
        """Whether it was made of the file with this digest."""
        return digest.startswith(self.digest)


def origin(answer: str) -> Origin:
    """Read what ``MADE_FROM`` prints."""
    return Origin(answer.strip())


MADE_FROM: Final = Question(
    "apart", sh('sed -n "s/^# Cluster\'s own: //p" "$f" 2>/dev/null'), origin
)
"""After ``IN_USE``: the digest of the cluster's slurm.conf of which a node's own was made."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder in which slurmctld keeps its state.

    Attributes:
        owner: whose it is; "" where it could not be read.
        shown: owner and mode, or why they could not be read.
    """

    owner: str
    shown: str


def state_folder(answer: str) -> StateFolder:
    """Read ``OWNER MODE``."""
    row = re.fullmatch(r"(\S+) [0-7]+", answer.strip())
    return StateFolder(row[1] if row else "", answer.strip())


STATE: Final = Question(
    "state", sh("stat -c '%U %a' {state} 2>&1", state=STATE_FOLDER), state_folder
)
UP: Final = Question("up", call("slurmctld.sh", "slurmctld_is_up"), text)
"""Whether slurmctld answers: the exit status is the answer."""
ALL_UP: Final = Question("allup", call("slurmctld.sh", "slurmctld_all_up"), text)
"""Whether each slurmctld does, the backup's too."""
PING: Final = Question(
    "ping", sh("p=$(timeout 10 scontrol ping 2>&1); printf '%s\\n' \"$p\""), str.strip
)
NODES: Final = Question(
    "nodes",
    sh("timeout 15 {show} --details 2>&1", show=SHOW_NODES),
    readable_nodes,
)


def nodes_named(nodes: str) -> Question[dict[str, Node]]:
    """Some nodes, as ``NODES``.

    Args:
        nodes: a hostlist.
    """
    shell = sh("timeout 30 {show} {nodes}", show=SHOW_NODES, nodes=nodes)
    return Question("named-nodes", shell, readable_nodes)


def strictly(question: Question[dict[str, Node]]) -> Question[tuple[Node, ...]]:
    """The same question; reading it raises CorralError for a line that is not of a node."""
    return Question(question.name, question.shell, parse_nodes)


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """Nodes that slurmctld knows.

    Attributes:
        nodes: all of them; None where Slurm is not there or slurmctld does not answer.
        silent: slurmctld does not answer, and the node is set up for one.
    """

    nodes: tuple[Node, ...] | None
    silent: bool = False


def known_nodes(answer: str) -> KnownNodes:
    """Read ``nodes_seen`` of ``gates/slurm.sh``.

    Raises:
        CorralError: a line is not of a node.
    """
    first, _, listed = answer.partition("\n")
    if first == "slurmctld":
        return KnownNodes(parse_nodes(listed))
    return KnownNodes(None, silent=first == "silent")


KNOWN_NODES: Final = Question("known-nodes", call("gates/slurm.sh", "nodes_seen"), known_nodes)
"""All nodes, also where Slurm is not set up yet or slurmctld is down."""


def database_fault(answer: str) -> str | None:
    """What sacctmgr printed in place of a cluster; None where it printed one."""
    printed = answer.strip()
    if printed and "error" not in printed.lower():
        return None
    return printed[-300:] or "sacctmgr show cluster: nothing"


ACCOUNTING: Final = Question(
    "accounting",
    sh("timeout 15 sacctmgr -nP show cluster format=cluster 2>&1"),
    database_fault,
)
"""Why the accounting database does not answer; None where it does."""


def _events(event: str, start: str, end: str) -> Script:
    show = [*show_events(event, start, end)]
    return sh("SLURM_TIME_FORMAT=%s timeout 60 {show} 2>/dev/null", show=show)


def outages(start: str, end: str = "now") -> Question[tuple[Outage, ...]]:
    """When nodes took no jobs, and why; nothing without accounting.

    Args:
        start: when the time begins that they fall into, as sacctmgr(1) reads it: ``now-30days``.
        end: when it ends.
    """
    return Question("outages", _events("node", start, end), readable_outages)


def cluster_sizes(start: str, end: str) -> Question[tuple[Outage, ...]]:
    """Which CPUs and GPUs the cluster had, from when to when.

    Args:
        start: as of ``outages``.
        end: when it ends.
    """
    return Question("cluster-sizes", _events("cluster", start, end), readable_sizes)


def _bounds(answer: str) -> tuple[int, int, int]:
    begin, end, now = map(int, answer.split())
    return begin, end, now


def month_bounds(day: str) -> Question[tuple[int, int, int]]:
    """When a month begins and ends, and the time now, by that machine's clock and time zone.

    Args:
        day: its first: ``2026-11-01``.
    """
    next_one = f"{day} +1 month"
    shell = sh("date -d {day} +%s && date -d {end} +%s && date +%s", day=day, end=next_one)
    return Question("month", shell, _bounds)


OUTAGES: Final = outages("now-30days")
"""Those of the last 30 days."""
DATABASE_UP: Final = Question("database-up", sh("timeout 5 sacctmgr -nP show cluster"), text)
"""Whether slurmdbd answers: the exit status is the answer."""
COMMANDS_WORK: Final = Question("commands-work", sh("timeout 10 sinfo -h >/dev/null"), text)
"""Whether Slurm's commands work on a node: the exit status is the answer."""
NODE_LINES: Final = Question("node-lines", sh("timeout 10 sinfo -N -o '%N|%T|%E'"), text)
"""State and reason of each node, for people."""
NODE_VERSIONS: Final = Question("node-versions", sh("timeout 10 sinfo -N -o '%N|%v|%T|%E'"), text)
"""The same with the version of its slurmd."""
QOS: Final = Question(
    "qos", sh("sacctmgr --noheader --parsable2 show qos format=Name 2>/dev/null"), str.split
)
"""Names of all QOS."""
CHARGED: Final = ("Account", "QOS")
_OF_ACCOUNT: Final = ("Account",)


def _charged(answer: str) -> tuple[Association, ...]:
    return readable_associations(answer, CHARGED)


def associations_of(user: str) -> Question[tuple[Association, ...]]:
    """A user's accounts, each with its QOS; none where there is no accounting."""
    show = show_associations(f"user={user}", columns=CHARGED)
    return Question("associations", sh("{show} 2>/dev/null", show=[*show]), _charged)


def accounts_of(user: str) -> Question[tuple[Association, ...]]:
    """A user's accounts; fails where the user is not known, or without accounting."""
    show = show_associations(f"user={user}", columns=_OF_ACCOUNT)
    shell = sh("getent passwd {u} >/dev/null && timeout 20 {show}", u=user, show=[*show])
    return Question("accounts", shell, lambda answer: readable_associations(answer, _OF_ACCOUNT))


def partition_named(name: str) -> Question[tuple[Partition, ...]]:
    """One partition; nothing where slurmctld has none of that name."""
    return Question(
        "partition", sh("{show} {name}", show=[*SHOW_PARTITION], name=name), readable_partitions
    )


def uid(answer: str) -> int:
    """A number."""
    return int(answer)


CLIENT_PROGRAMS: Final = ("sbatch", "squeue", "scontrol", "scancel", "srun")
UID: Final = Question("uid", sh("id -u"), uid)
MISSING: Final = Question(
    "missing-commands",
    call("jobs/user.sh", "programs_missing", *CLIENT_PROGRAMS),
    str.split,
)
"""Commands of Slurm that are not on the user's PATH."""
CLIENT: Final = Question("client", sh("cat {file} 2>/dev/null", file=PUBLISHED), text)


def login_questions(user: str) -> tuple[Question[object], ...]:
    """What a login node is asked as the user, when a profile is made."""
    return UID, MISSING, CLIENT, ENFORCED, associations_of(user), person_of(user)


def person_of(user: str) -> Question[bool]:
    """Whether the node knows the user by a directory of people, and not by its own files."""
    shell = call("user-folders.sh", "person_of_directory", user)
    return Question("person", shell, lambda answer: bool(answer.strip()))


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
    shell: Script = sh(
        '{function}\n! ping_is_up "$p" || {{\n{shell}\n}}',
        function=defined("slurmctld.sh", "ping_is_up"),
        shell=question.shell,
    )
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


def _some(answer: str) -> bool:
    return bool(answer.strip())


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
PMIX: Final = Question(
    "pmix",
    sh(
        """\
{version}
if [ -n "$v" ]; then
  for f in /usr/lib/*/slurm*/mpi_pmix.so /usr/lib64/slurm/mpi_pmix.so /usr/lib/slurm/mpi_pmix.so; do
    [ ! -f "$f" ] || for l in /usr/lib/*/libpmix.so.2 /usr/lib/*/pmix*/lib/libpmix.so.2 \\
      /usr/lib64/libpmix.so.2 /usr/lib/libpmix.so.2; do [ ! -e "$l" ] || echo "$l"; done
  done
elif command -v apt-cache >/dev/null; then
  LC_ALL=C apt-cache depends slurm-wlm-basic-plugins 2>/dev/null | grep 'Depends: libpmix'
fi""",
        version=_VERSION,
    ),
    _some,
)
"""Whether Slurm starts ranks by PMIx: plugin and library are there, or the packages bring them."""
INSTALLED: Final = (
    VERSION,
    CANDIDATE,
    PLUGINS,
    PMIX,
)
"""What is installed and what could be; for facts."""
