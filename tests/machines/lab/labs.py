"""Labs: made, found again, used and removed."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.machines.lab import image, keeper, kernel, network
from tests.machines.lab.network import Network

MEMORY = "768M"
BOOT_S = 240.0
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


def labs() -> Path:
    return image.cache() / "labs"


def lab_names() -> list[str]:
    """Names of the labs that have a folder."""
    return sorted(p.parent.name for p in labs().glob("*/lab.json"))


def wait_for(true: Callable[[], bool], seconds: float, what: str, each: float = 0.25) -> None:
    """Wait until it is true.

    Raises:
        TimeoutError: it did not come true.
    """
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(each)


@dataclass(frozen=True)
class Machine:
    """One machine of a lab: a disk over the shared image, a tap, and a process when it is on."""

    lab: str
    index: int
    net: Network
    base: Path
    memory: str
    folder: Path

    @property
    def address(self) -> str:
        return self.net.address(self.index)

    @property
    def console(self) -> Path:
        """What the kernel and systemd printed on the console, over all starts."""
        return self.folder / f"console{self.index}.log"

    @property
    def disk(self) -> Path:
        return self.folder / f"disk{self.index}.cow"

    @property
    def pid(self) -> int:
        """Its keeper's process id, 0 when it is off."""
        with suppress(OSError, ValueError):
            pid, started = (self.folder / f"pid{self.index}").read_text().split()
            if _started(int(pid)) == started:
                return int(pid)
        return 0

    @property
    def _kernel(self) -> Path:
        """Where the keeper notes the process id of what it runs."""
        return self.folder / f"kernel{self.index}"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def on(self) -> None:
        """Switch it on; ``answers`` or ``Lab.wait`` show when it is there."""
        if self.pid:
            return
        kept = [sys.executable, "-I", keeper.__file__, str(self.console), str(self._kernel)]
        with self.console.open("ab") as console:
            process = subprocess.Popen(
                [*kept, *self._argv()],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
                env=self._environment(),
            )
        record = f"{process.pid} {_started(process.pid)}"
        (self.folder / f"pid{self.index}").write_text(record)

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": _ram()}

    def _argv(self) -> list[str]:
        gateway, mtu = self.net.gateway, network.mtu()
        return [
            str(image.built_kernel().program),
            *kernel.OPTIONS,
            f"mem={self.memory}",
            f"ubd0={self.disk},{self.base}",
            "root=/dev/ubda",
            "rw",
            f"vec0:transport=tap,ifname={self.net.tap(self.index)},mac={self.net.mac(self.index)}",
            f"ip={self.address}::{gateway}:255.255.255.0::vec0:off:{mtu}",
            "con=null",
            "con0=null,fd:1",
            "console=tty0",
            f"uml_dir={self.folder}/uml",
            f"umid=m{self.index}",
            "noreboot",
            "systemd.show_status=false",
            "quiet",
        ]

    def power_cut(self) -> None:
        """Kill it, as if its plug were pulled: nothing is written back."""
        pid = self.pid
        if pid:
            os.killpg(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            # The keeper first, or it would switch it on again; the kernel leads its own group.
            groups = [pid]
            with suppress(OSError, ValueError):
                groups.append(int(self._kernel.read_text()))
                os.killpg(groups[-1], signal.SIGKILL)
            wait_for(lambda: not any(_group(g) for g in groups), 20, f"processes of {groups} end")
        self._kernel.unlink(missing_ok=True)
        (self.folder / f"pid{self.index}").unlink(missing_ok=True)

    def cut_network(self) -> None:
        """Pull its cable; the machine itself runs on."""
        self.net.cut(self.index)

    def reconnect_network(self) -> None:
        """Put the cable back."""
        self.net.reconnect(self.index)

    def ssh(
        self, command: str, *, user: str = image.USER, timeout: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command there as ``user``, outside of Corral."""
        argv = [*self.ssh_argv(user), command]
        end = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
        if check and end.returncode != 0:
            raise RuntimeError(f"{self.lab}/{self.index}: {command}: {end.stdout}{end.stderr}")
        return end

    def root(self, command: str, *, timeout: float = 60, check: bool = True) -> str:
        """Run a shell command there as root; what it printed."""
        import shlex  # noqa: PLC0415

        inner = f"sudo -n sh -c {shlex.quote(command)}"
        return self.ssh(inner, timeout=timeout, check=check).stdout

    def ssh_argv(self, user: str = image.USER) -> list[str]:
        """``ssh`` with all that is needed to log in, without a command."""
        return [
            *("ssh", "-F", "none", "-i", str(image.key()), "-o", "IdentitiesOnly=yes"),
            *("-o", "StrictHostKeyChecking=accept-new", "-o", "ConnectTimeout=5"),
            *("-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "LogLevel=ERROR"),
            *("-o", "IdentityAgent=none", "-o", "BatchMode=yes", f"{user}@{self.address}"),
        ]

    def answers(self) -> bool:
        """It takes a login now."""
        try:
            return self.ssh("true", timeout=10, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def skew(self, seconds: int) -> None:
        """Set its clock ahead (or back); the guest's own, no other machine's."""
        self.root(f"date -s @$(( $(date +%s) + {seconds} ))")


class Lab:
    """Some bare machines on their own network.

    ``Lab.make`` makes one or finds the existing one of that name; ``remove`` takes all of it away.
    """

    def __init__(self, name: str, number: int, base: Path, count: int, memory: str) -> None:
        self.name, self.base, self.memory = name, base, memory
        self.folder = labs() / name
        self.net = Network(number)
        self.machines = tuple(
            Machine(name, i, self.net, base, memory, self.folder) for i in range(count)
        )

    @classmethod
    def make(cls, name: str, count: int = 3, suite: str = "trixie", memory: str = MEMORY) -> Lab:
        """Make and start the lab; an existing one is started where it is off, as it is."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r}: a lab's name is letters, digits and dashes")
        if name not in lab_names():
            base = image.build(suite)
            labs().mkdir(parents=True, exist_ok=True)
            with (labs() / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                taken = network.used() | {cls.open(n).net.number for n in lab_names()}
                number = next(n for n in network.SUBNETS if n not in taken)
                lab = cls(name, number, base, count, memory)
                lab.folder.mkdir(mode=0o700, exist_ok=True)
                lab._write()
        lab = cls.open(name)
        lab.net.make(len(lab.machines))
        for machine in lab.machines:
            machine.on()
        lab.wait()
        return lab

    @classmethod
    def open(cls, name: str) -> Lab:
        """The existing lab of that name.

        Raises:
            FileNotFoundError: there is none.
        """
        data = json.loads((labs() / name / "lab.json").read_text())
        return cls(name, data["number"], Path(data["base"]), data["count"], data["memory"])

    def _write(self) -> None:
        data = {
            "number": self.net.number,
            "base": str(self.base),
            "count": len(self.machines),
            "memory": self.memory,
        }
        (self.folder / "lab.json").write_text(json.dumps(data))

    @property
    def addresses(self) -> list[str]:
        return [machine.address for machine in self.machines]

    def wait(self, seconds: float = BOOT_S) -> None:
        """Wait until all machines take logins.

        Raises:
            TimeoutError: with the last lines of the console that stays dark.
        """
        for machine in self.machines:
            try:
                wait_for(machine.answers, seconds, f"ssh of {self.name}/{machine.index}", each=0.5)
            except TimeoutError as error:
                text = machine.console.read_text(errors="replace")[-2000:]
                raise TimeoutError(f"{error}; its console:\n{text}") from None

    def reset(self) -> None:
        """All machines bare again: new disks over the same image."""
        for machine in self.machines:
            machine.power_cut()
            machine.disk.unlink(missing_ok=True)
        (self.folder / "known_hosts").unlink(missing_ok=True)
        for machine in self.machines:
            machine.reconnect_network()
            machine.on()
        self.wait()

    def remove(self) -> None:
        """Switch all off and remove processes, taps, bridge, rules, disks and folder."""
        for machine in self.machines:
            machine.power_cut()
        self.net.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def left(self) -> list[str]:
        """What of it is still there: processes, links, rules, folder."""
        pids = [f"process {m.pid}" for m in self.machines if m.pid]
        folder = [str(self.folder)] if self.folder.exists() else []
        return [*pids, *self.net.left(), *folder]


def _started(pid: int) -> str:
    """When a process began, in clock ticks: a pid alone may belong to somebody else by now."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _group(pid: int) -> bool:
    """Processes of this group live (zombies do not count)."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if fields[0] not in "ZX" and int(fields[2]) == pid:
                return True
    return False


def _ram() -> str:
    """Where the machines' memory is stored: in memory, when there is such a place."""
    shm = Path("/dev/shm")
    return str(shm) if shm.is_dir() and os.access(shm, os.W_OK) else "/tmp"
