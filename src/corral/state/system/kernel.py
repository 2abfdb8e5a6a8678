"""Kernel modules, and the reboot that a new kernel or driver needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Seen, Standalone

# Two seconds later and by systemd, so that this script ends and reports first.
REBOOT: Final = sh(
    "systemd-run --quiet --on-active=2s --timer-property=AccuracySec=100ms systemctl reboot"
)


@dataclass(frozen=True, slots=True)
class Module(Standalone):
    """A module that is loaded where the kernel has it.

    nvidia-peermem comes with the driver and lets adapters read GPU memory; without it, and without
    DMA-BUF, NCCL goes through the host's memory at a fraction of the speed.

    Attributes:
        name: as modprobe takes it.
    """

    name: str

    @property
    def path(self) -> str:
        """The file that loads it at each boot (modules-load.d(5))."""
        return f"/etc/modules-load.d/corral-{self.name}.conf"

    @property
    def id(self) -> str:
        return f"file:{self.path}"

    def probe(self) -> Script:
        """``none`` where the kernel has no such module; else loaded or not, and kept or not."""
        return call("state/machine.sh", "module_probe", self.name, self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Load it, and at each boot."""
        if seen.text in ("none", "loaded kept"):
            return None
        return Change(
            self.id,
            f"load {self.name}, also at each boot",
            seen.text,
            "loaded kept",
            sh("modprobe {name} && printf '%s\\n' {name} > {path}", name=self.name, path=self.path),
        )


@dataclass(frozen=True, slots=True)
class Reboot:
    """No reboot is due.

    Only a rolling stage may hold it: that one drains the node and waits until it is back.

    Attributes:
        required: also when the machine's packages ask for one (/run/reboot-required).
        driver: also when another NVIDIA driver is loaded than the one whose libraries are
            installed (F24), or nouveau in its place.
        after: ids of resources whose change asks for one.
    """

    required: bool = False
    driver: bool = False
    after: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return "reboot"

    @property
    def watches(self) -> tuple[str, ...]:
        """What needs one when it changes."""
        return self.after

    def probe(self) -> Script:
        """Why a reboot is due, a word each; nothing when none is."""
        return call(
            "state/machine.sh",
            "reboot_probe",
            "yes" if self.required else "no",
            "yes" if self.driver else "no",
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """A reboot when one is due, or when a change of this plan needs one."""
        why = [_words(word) for word in seen.text.split()]
        why += [w.partition(":")[2] for w in self.after if w in context.changed]
        if not why:
            return None
        return Change(
            self.id,
            f"reboot ({', '.join(why)})",
            seen.text,
            "",
            REBOOT,
            Impact.REBOOT,
        )


def _words(word: str) -> str:
    if word == "required":
        return "its packages ask for one"
    if word == "nouveau":
        return "nouveau is loaded"
    _, loaded, installed = word.split(":", 2)
    return f"NVIDIA driver {installed} is installed, {loaded} is loaded"
