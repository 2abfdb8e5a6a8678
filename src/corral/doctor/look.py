"""What every machine is asked, and its answer taken apart. Read-only, one round trip. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from corral.errors import CorralError
from corral.hosts.quote import Script, join, sh
from corral.state.firewall import PROGRAM
from corral.state.job_folders import CHECKS, KINDS, TOP, held
from corral.state.mesh_supervised import UNIT_IS

KEYS: Final = (
    "/etc/munge/munge.key",
    "/etc/slurm/slurm.key",
    "/etc/slurm/slurm.jwks",
    "/var/spool/slurmctld/jwt_hs256.key",
)
CONF: Final = ("slurm.conf", "gres.conf", "cgroup.conf")
DISKS: Final = (
    *("/", "/tmp", "/run", "/var", "/var/log", "/var/log/slurm"),  # noqa: S108 - looked at, not used
    *("/var/lib/mysql", "/var/spool/slurmctld", "/var/spool/slurmd"),
)
LOG_LINES: Final = 400
AT_ONCE: Final = 64
"""Questions that may each wait for a network: names of a dead DNS, ports that a firewall drops."""
RECENT_MIN: Final = 5
"""Minutes of the log of a daemon that runs: slurmd tries to register every few seconds."""
# systemd says that it starts a unit before the unit says anything; slurmd that it has started
# after it could read its files. A reconfigure starts it anew without systemd.
_STARTED: Final = re.compile(
    r"^Starting .+\.\.\.$|slurm(?:ctld|d|dbd) version \S+ started", re.MULTILINE
)

# From then on a daemon takes requests, of users too (seen on 24.11.5).
_SERVES: Final = re.compile(
    r"Running as (?:primary|backup) controller|slurmd started on |slurmdbd version \S+ started"
)
_FATAL: Final = re.compile(r"^(?:slurm\w{1,5}: )?(?:fatal: |error: \w{1,9} initialization failed)")


@dataclass(frozen=True, slots=True)
class Ask:
    """What to ask one node.

    Attributes:
        names: all nodes of the cluster, to be looked up.
        units: systemd units that belong there.
        mounts: shared folders that belong there.
        controller: ask Slurm as well.
        mesh: ask tailscaled as well.
        containers: try what containers of users need.
        shared: the first shared folder, whose owners and modes are read; "" for none.
        keeper: who may own that besides root, "" for nobody.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    mounts: tuple[str, ...] = ()
    controller: bool = False
    mesh: bool = False
    containers: bool = False
    shared: str = ""
    keeper: str = ""


@dataclass(frozen=True)
class Told:
    """What one node told.

    Attributes:
        node: its name.
        sections: its answer by section.
        skew: seconds its clock is ahead of ours beyond what the round trip explains (negative:
            behind).
        error: why it told nothing.
    """

    node: str
    sections: Mapping[str, str] = field(default_factory=dict[str, str])
    skew: float = 0.0
    error: CorralError | None = None

    def text(self, name: str) -> str:
        """One section, "" when it is missing."""
        return self.sections.get(name, "")

    def lines(self, name: str) -> list[str]:
        """Lines of a section that hold something."""
        return [line for line in self.text(name).splitlines() if line.strip()]

    def pairs(self, name: str) -> dict[str, str]:
        """A section of lines ``key value``."""
        split = (line.partition(" ") for line in self.lines(name))
        return {key: value.strip() for key, _, value in split}

    @cached_property
    def units(self) -> dict[str, str]:
        """State of each unit: ``active``, ``failed``, ``inactive`` ..."""
        return self.pairs("units")

    @cached_property
    def down(self) -> tuple[str, ...]:
        """Units that should run and do not."""
        fine = ("active", "reloading", "activating", "deactivating")
        return tuple(
            unit
            for unit, state in self.units.items()
            if state.split()[:1] != [] and (state.split()[0] not in fine)
        )

    def log(self, unit: str) -> str:
        """What the unit wrote since its last start, to the journal and to its own file.

        Users choose names that daemons print, with line ends in them: what is read here needs
        another sign of the same (``launches``). ``trusted`` is what stands for itself.
        """
        journal, file = self.text("log" + unit), self.text("file" + unit)
        return f"{_since_start(journal)}\n{_since_start(file)}"

    def trusted(self, unit: str) -> str:
        """What the unit printed while no user could make it print anything.

        That is what it printed before it took requests, in its last run; its last words where they
        are ``fatal:``, as it printed nothing after them; and, of one that runs, what a process
        printed that was to take its place and ended so (a reconfiguration that failed).
        """
        text = self.text("trusted" + unit)
        state = self.units.get(unit, "").split()[:1]
        if state in (["active"], ["reloading"]):
            return _failed_children(text)
        lines = text.splitlines()
        if state == ["activating"] or not lines:
            return text
        serving = next((n for n, line in enumerate(lines) if _SERVES.search(line)), len(lines))
        last = lines[-1:] if serving < len(lines) and _FATAL.search(lines[-1]) else []
        return "\n".join([*lines[:serving], *last])


def _since_start(text: str) -> str:
    starts = list(_STARTED.finditer(text))
    return text[starts[-1].end() :] if starts else text


def _failed_children(text: str) -> str:
    """Lines ``PID message`` of processes that ended with ``fatal:`` before they took requests."""
    by_process: dict[str, list[str]] = {}
    for line in text.splitlines():
        process, _, message = line.partition(" ")
        by_process.setdefault(process, []).append(message)
    return "\n".join(
        line
        for lines in by_process.values()
        if _FATAL.search(lines[-1]) and not any(_SERVES.search(line) for line in lines)
        for line in lines
    )


def marked(asked: Script, mark: str) -> Script:
    """A script whose sections begin with ``@@MARK@name``.

    Logs hold what users write, with line ends in it: slurmctld prints the partition of a refused
    sbatch as it is. With a mark that is new each time no user can write the beginning of a section.
    """
    return join([sh("mark={mark}", mark=mark), asked])


def sections(text: str, mark: str) -> dict[str, str]:
    """Split the answer of a marked script at the beginnings of its sections."""
    parts = re.split(rf"^@@{re.escape(mark)}@([a-z]+)$", text, flags=re.MULTILINE)
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def script(ask: Ask) -> Script:
    """What one node is asked. Read-only; the clock comes first, before anything slow."""
    parts = [
        _MACHINE,
        sh(
            "echo @@$mark@names; {{ i=0; for n in {names}; do {{"
            ' printf \'%s %s\\n\' "$n" "$(timeout 10 getent ahostsv4 "$n" |'
            " sed -n 's/ *STREAM.*//p' | tr '\\n' ' ')\"; }} &"
            " i=$((i + 1)); [ $((i % {batch})) -ne 0 ] || wait; done; wait; }} | sort",
            names=list(ask.names),
            batch=AT_ONCE,
        ),
        sh(
            '{unit_is}\necho @@$mark@units; for u in {units}; do s=$(unit_is "$u");'
            ' case "$s:$(systemctl is-enabled "$u" 2>/dev/null)" in active:*) ;;'
            # No start brings back such a one, and systemctl is-active does not say so.
            ' *:masked*) s="$s (masked: systemctl unmask $u)";; esac;'
            ' printf \'%s %s\\n\' "$u" "$s"; done',
            unit_is=UNIT_IS,
            units=list(ask.units),
        ),
        sh(
            'echo @@$mark@keys; for k in {keys}; do if [ -e "$k" ]; then'
            ' printf \'%s %s %s\\n\' "$k" "$(sha256sum <"$k" | cut -c1-16)"'
            ' "$(stat -c %U:%a "$k")"; fi; done',
            keys=list(KEYS),
        ),
        sh(
            "echo @@$mark@conf; for d in /var/spool/slurmd/conf-cache /etc/slurm; do"
            " for n in {conf}; do"
            ' if [ -f "$d/$n" ]; then printf \'%s %s\\n\' "$d/$n"'
            ' "$(sha256sum <"$d/$n" | cut -c1-16)"; fi; done; done',
            conf=list(CONF),
        ),
        _DISKS,
        _mounts(ask.mounts),
        *(_log(unit) for unit in ask.units),
    ]
    if ask.controller:
        parts += [_CONTROLLER, _shared(ask.shared, ask.keeper)]
    parts.append(sh(_ALONE, units=[u for u in ask.units if u.startswith("slurm")]))
    if ask.containers:
        parts.append(_USER_NAMESPACE)
    if ask.mesh:
        # The others are asked about of the controller only: one thousand peers are a megabyte.
        parts.append(sh(_TAILNET, p="true" if ask.controller else "false"))
    return join([*parts, sh("true")])


def _mounts(mounts: tuple[str, ...]) -> Script:
    """What each shared folder is, and whether it answers."""
    if not mounts:
        return sh("echo @@$mark@mounts")
    return sh(
        # All at once: a server that is silent may have several. What is mounted is asked of
        # the kernel, which knows without the server, once stat had automount mount it.
        "echo @@$mark@mounts; {{ for m in {mounts}; do {{"
        # SIGKILL: nothing else ends a process that waits for an NFS server (mount option hard).
        ' s=$(timeout -s KILL 10 stat -f -c %T "$m" 2>&1); r=$?; k=folder;'
        " if awk -v m=\"$m\" '$5 == m {{ f = 1 }} END {{ exit !f }}'"
        " /proc/self/mountinfo; then k=mounted; fi;"
        ' case "$r" in 0) ;; 137) s="no answer in 10 s, failed" ;; *) s="$s failed" ;; esac;'
        ' printf \'%s %s\\n\' "$m" "$k $s"; }} &'
        " done; wait; }} | sort",
        mounts=list(mounts),
    )


def _shared(mount: str, keeper: str) -> Script:
    """Who could replace the first shared folder or Corral's own in it, a line each."""
    if not mount:
        return sh("echo @@$mark@shared")
    top = f"{mount}/{TOP}"
    look = sh(
        "{checks}{held}; for f in {own}; do "
        '{{ [ ! -e "$f" ] && [ ! -L "$f" ]; }} || roots "$f"; done',
        checks=CHECKS,
        held=held(mount, keeper),
        own=[top, *(f"{top}/{kind}" for kind in KINDS)],
    )
    return sh("echo @@$mark@shared; LC_ALL=C timeout -s KILL 10 sh -c {look} 2>&1", look=str(look))


_DISKS: Final = sh(
    'echo @@$mark@disks; for p in {disks}; do if [ -d "$p" ]; then'
    ' df -Pk "$p" 2>/dev/null | awk -v p="$p" \'NR==2 {{print p, $4, $2}}\';'
    ' df -Pi "$p" 2>/dev/null | awk -v p="$p" \'NR==2 && $2>0 {{print p":inodes", $4, '
    "$2}}';"
    " fi; done\n"
    # access(2) tells root of a read-only file system, and of nothing else.
    'echo @@$mark@readonly; for p in {written}; do if [ -d "$p" ] && [ ! -w "$p" ]; then'
    ' echo "$p"; fi; done',
    disks=list(DISKS),
    written=list(DISKS[1:]),
)
LAST: Final = "@last"
"""The last line of an answer that is complete; without it the answer is unknown, not empty."""
STEPS: Final = sh(
    # Root's alone: any user may call a process slurmstepd. Status 1: there is none.
    "echo @@$mark@steps; s=$(ps -C slurmstepd -o ruid=,etimes=,args= 2>/dev/null); [ $? -gt 1 ] ||"
    " {{ printf '%s\\n' \"$s\" | sed -n 's/^ *0 //p'; echo {last}; }}",
    last=LAST,
)
JOBS: Final = sh(
    # All states in which a job holds nodes.
    "echo @@$mark@jobs; timeout 15 squeue -h -t R,S,CG,CF,SI,SO,ST,RS -o '%A|%T|%M|%N' 2>/dev/null"
    " && echo {last}",
    last=LAST,
)
_MACHINE: Final = sh(
    "export LC_ALL=C; echo @@$mark@clock; date +%s.%N\n"
    "echo @@$mark@hostname; hostname\n"
    "echo @@$mark@uids; for u in slurm munge; do"
    ' printf \'%s %s\\n\' "$u" "$(id -u "$u" 2>/dev/null)"; done\n'
    "echo @@$mark@version; for p in slurmctld slurmd slurmdbd; do"
    ' if command -v "$p" >/dev/null; then printf \'%s %s\\n\' "$p"'
    ' "$("$p" -V 2>&1 | sed \'s/^slurm[a-z-]* //\')"; fi; done\n'
    "echo @@$mark@firewall; if [ -x {firewall} ]; then {firewall} check; fi\n"
    "echo @@$mark@limits; systemctl show -p LimitMEMLOCK slurmd 2>/dev/null | tr = ' '\n"
    "echo @@$mark@devices; ls /dev/nvidia[0-9]* 2>/dev/null\n"
    "echo @@$mark@driver; if command -v nvidia-smi >/dev/null;"
    " then timeout 20 nvidia-smi -L 2>&1; fi\n"
    "{steps}\n"
    "echo @@$mark@links; if command -v ip >/dev/null; then ip -o link show up; fi\n"
    "echo @@$mark@addresses; if command -v ip >/dev/null; then ip -o -4 addr show; fi\n"
    # A container's kernel log is its host's: what happened there is not this node's.
    "echo @@$mark@kernel; if ! systemd-detect-virt -cq 2>/dev/null; then"
    " journalctl -k --since -1h --no-pager -o cat 2>/dev/null | grep -E"
    " 'Xid|NVRM|nouveau|Out of memory|oom-kill|read-only|nfs: server|No space|EDAC MC.* UE '"
    " | tail -n 40; fi",
    firewall=PROGRAM,
    steps=STEPS,
)

# /proc/PID/net is the network of that process, which may be another than the machine's.
_ALONE: Final = (
    "echo @@$mark@alone; for u in {units}; do"
    " p=$(systemctl show -p MainPID --value $u 2>/dev/null);"
    ' if [ "${{p:-0}}" -gt 0 ] && [ -r /proc/$p/net/fib_trie ] &&'
    " ! awk '/host LOCAL/ && a !~ /^127\\./ {{ f = 1 }} {{ a = $2 }} END {{ exit !f }}'"
    " /proc/$p/net/fib_trie; then echo $u; fi; done"
)
# As nobody: root may where users may not.
_USER_NAMESPACE: Final = sh(
    "echo @@$mark@userns; runuser -u nobody -- timeout 10 unshare -Ur true 2>&1 || echo refused"
)
_TAILNET: Final = (
    "echo @@$mark@tailnet; timeout 10 tailscale status --json --peers={p} 2>/dev/null "
    "| head -c 4000000; echo"
)
STATE_FOLDER: Final = "/var/spool/slurmctld"
_CONTROLLER: Final = sh(
    "echo @@$mark@state; stat -c '%U %a' {state} 2>&1\n"
    # Where no slurmctld answers, each of the others asks again until its time is up (24.11).
    "echo @@$mark@ping; p=$(timeout 10 scontrol ping 2>&1); printf '%s\\n' \"$p\"\n"
    "case $p in *' is UP'*)\n"
    "echo @@$mark@nodes; timeout 15 scontrol show nodes -o 2>&1\n"
    "echo @@$mark@batch; timeout 15 squeue -h -t RUNNING -O"
    " 'JobID:|,StateCompact:|,BatchFlag:|,BatchHost:|,TimeUsed:|' 2>/dev/null\n"
    "{jobs};;\n"
    "esac\n"
    "echo @@$mark@slurmconf; cat /etc/slurm/slurm.conf 2>/dev/null\n"
    "echo @@$mark@gresconf; cat /etc/slurm/gres.conf 2>/dev/null\n"
    "echo @@$mark@cgroupconf; cat /etc/slurm/cgroup.conf 2>/dev/null\n"
    "echo @@$mark@accounting; timeout 15 sacctmgr -nP show cluster format=cluster 2>&1",
    state=STATE_FOLDER,
    jobs=JOBS,
)


def ports_script(targets: Sequence[tuple[str, int]]) -> Script:
    """Which of these addresses and ports a node reaches.

    Asked only when something is wrong: Slurm's daemons log an error for each connection that says
    nothing.
    """
    # bash alone opens TCP connections by itself; every Debian and Ubuntu has it. Many at once: each
    # port that a firewall drops, or of a machine that is off, takes the 5 s.
    return sh(
        "echo @@$mark@ports; {{ n=0; for t in {targets}; do {{"
        ' if timeout 5 bash -c {probe} "${{t%:*}}" "${{t##*:}}" 2>/dev/null;'
        ' then echo "$t open"; else echo "$t closed"; fi; }} &'
        " n=$((n + 1)); [ $((n % {batch})) -ne 0 ] || wait; done; wait; }} | sort",
        targets=[f"{address}:{port}" for address, port in targets],
        probe=": </dev/tcp/$0/$1",
        batch=AT_ONCE,
    )


def _log(unit: str) -> Script:
    """The unit's journal and file; of a unit that runs the last minutes only.

    Slurm's daemons begin each line of their file with ``[2026-11-21T07:00:46.289]``. What may be
    trusted is taken by fields that journald sets itself: the unit's last start, its standard error
    (logger(1) writes by another way), and root for slurmd, whose unit may hold processes of jobs.
    """
    return sh(
        "s=$(date -d -{minutes}min +%FT%T); w=--since=-{minutes}min;"
        " systemctl -q is-active {unit} || {{ s=; w=; }}\n"
        "echo @@$mark@log{unit}; journalctl -u {unit} $w --no-pager -o cat -n {lines} 2>/dev/null\n"
        "echo @@$mark@file{unit}; f=/var/log/slurm/{unit}.log;"
        ' if [ -f "$f" ]; then tail -n {lines} "$f" | awk -v t="[$s" \'$1 >= t\'; fi\n'
        "echo @@$mark@trusted{unit}; r=$(systemctl show -p Result --value {unit} 2>/dev/null);"
        " p=$(systemctl show -p MainPID --value {unit} 2>/dev/null);"
        " i=$(systemctl show -p InvocationID --value {unit} 2>/dev/null);"
        ' set -- -q "_SYSTEMD_INVOCATION_ID=$i" _TRANSPORT=stdout {root} --no-pager -n {lines};'
        ' if [ -n "$i" ]; then case "$(systemctl is-active {unit}):$r" in'
        " active:*|reloading:*)"
        # What failed before the process that runs now began is over.
        ' a=$(($(ps -o etimes= -p "$p" 2>/dev/null || echo 0)));'
        ' [ "$a" -lt $(({minutes} * 60)) ] || a=$(({minutes} * 60));'
        ' journalctl "$@" --since="-${{a}}s" -o short 2>/dev/null |'
        ' awk -v p="[$p]:" \'!index($5, p) {{ q = $5; sub(/^[^]]*\\]: /, ""); print q, $0 }}\';;'
        # It was ended from outside: nothing that it printed tells why.
        ' activating:*) journalctl "$@" -o cat 2>/dev/null;;'
        " *:success|*:signal|*:core-dump|*:oom-kill|*:watchdog) ;;"
        ' *) journalctl "$@" -o cat 2>/dev/null;; esac; fi',
        unit=unit,
        lines=LOG_LINES,
        minutes=RECENT_MIN,
        root=["_UID=0"] if unit == "slurmd" else [],
    )
