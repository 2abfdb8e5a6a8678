"""A machine for the node health program: its tools and Slurm's commands are stand-ins."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from corral.roles.slurm import health as role
from corral.roles.slurm.health import TAG

RECORDED = Path(__file__).parents[3] / "recorded" / "health"
GPUS = "".join(f"{i}, 00000000:{i}7:00.0, P0, 16, 16, 5, 5, 0, 0\n" for i in range(4))
SCONTROL = """#!/bin/sh
cd "$SLURM_FAKE" || exit 1
case "$1 $2" in
  'show config') echo "Configuration data as of $(date +%s)" ;;
  'show node') cat own ;;
  'show nodes') cat all ;;
  update*) shift; printf '%s|' "$@" >>updates; echo >>updates
    case "$*" in
      *state=drain*) r=${3#reason=}
        echo "NodeName=n1 State=IDLE+DRAIN Foo=1 Reason=$r [root@2026-11-21T10:00:05]" >own
        cat own all.more >all 2>/dev/null || cat own >all ;;
      *undrain*) echo 'NodeName=n1 State=IDLE Foo=1' >own ;;
    esac ;;
esac
"""


@dataclass
class Node:
    """A folder with the files and tools of a machine."""

    root: Path
    settings: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for name in ("bin", "gpus", "slurm", "kept", "run", "spool"):
            (self.root / name).mkdir()
        self.tool("nvidia-smi", (RECORDED / "nvidia-smi").read_text())
        self.tool("scontrol", SCONTROL)
        self.tool("squeue", "#!/bin/sh\n")
        self.tool("logger", "#!/bin/sh\n")
        self.tool("systemctl", "#!/bin/sh\n")
        self.tool("dmesg", '#!/bin/sh\ncat "$FAKE_GPUS/kernel" 2>/dev/null\ntrue\n')
        self.gpus(gpus=GPUS)
        self.slurm(own="NodeName=n1 State=IDLE Foo=1\n", all="NodeName=n1 State=IDLE Foo=1\n")
        self.program = self.root / "health"
        # As patient as it is, and awake sooner.
        text = role.program().replace("sleep 1\n", "sleep 0\n")
        text = text.replace("sleep 0.1\n", "sleep 0.02\n").replace(
            "\npatience=40 ", "\npatience=200 "
        )
        assert "sleep 0.02\n" in text
        assert "\npatience=200 " in text
        self.program.write_text(text)
        (self.root / "proc").mkdir()
        (self.root / "proc/mounts").touch()
        (self.root / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 8 kB\n")

    def tool(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def gpus(self, **files: str) -> None:
        for name, text in files.items():
            (self.root / "gpus" / name).write_text(text)

    def slurm(self, **files: str) -> None:
        for name, text in files.items():
            (self.root / "slurm" / name.replace("_", ".")).write_text(text)

    def run(self, *args: str) -> dict[str, tuple[str, str]]:
        """Verdict and message by check, without the tag."""
        settings = {"node": "n1", "gpus": "4", "spool": str(self.root / "spool")}
        settings |= {"proc": str(self.root / "proc"), "sys": str(self.root)} | self.settings
        (self.root / "conf").write_text("".join(f"{k.strip()} {v}\n" for k, v in settings.items()))
        env = {
            "CORRAL_HEALTH_PATH": str(self.root / "bin"),
            "CORRAL_HEALTH_CONF": str(self.root / "conf"),
            "CORRAL_HEALTH_KEPT": str(self.root / "kept"),
            "CORRAL_HEALTH_RUN": str(self.root / "run"),
            "FAKE_GPUS": str(self.root / "gpus"),
            "SLURM_FAKE": str(self.root / "slurm"),
        }
        done = subprocess.run(
            ["/bin/sh", str(self.program), *args],
            capture_output=True,
            text=True,
            env=os.environ | env,
            check=True,
        )
        assert done.stderr == ""
        lines = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
        return {id_.removeprefix(TAG): (verdict, words) for verdict, id_, words in lines}

    @property
    def updates(self) -> list[str]:
        """Calls of `scontrol update` since the property was last read."""
        path = self.root / "slurm" / "updates"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines
