"""Kernel modules, loaded now and at each boot. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Seen, Standalone


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
        """``file:<path>``."""
        return f"file:{self.path}"

    def probe(self) -> Script:
        """``none`` where the kernel has no such module; else loaded or not, and kept or not."""
        return sh(
            "if ! modinfo {name} >/dev/null 2>&1; then echo none; else "
            "[ -d /sys/module/{word} ] && a=loaded || a=out; "
            '[ -e {path} ] && echo "$a kept" || echo "$a once"; fi',
            name=self.name,
            word=self.name.replace("-", "_"),
            path=self.path,
        )

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
