"""Records what a real sbatch reads out of scripts: words and options, from its own ``-vvv``.

    python tests/recorded/sbatch/record.py ROOT > tests/recorded/sbatch/24.11.json

ROOT is a Debian root with Slurm's packages (``tests/recorded/gpus/record.py``); no daemon runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPTS = (
    ["#SBATCH -N2 -n 4 --job-name=ab # c", "#SBATCH --time 10 --mem=1G#x"],
    ["  # a comment", "", "#SBATCH -N3", "   ", "##SBATCH -N9", "echo", "#SBATCH -N7"],
    ["#SBATCH --comment='a # b' -p long", "#SBATCH\t--nodes\t2"],
    ["#SBATCH -Hk -t5", "#SBATCH -Jname -c2"],
    ["#SBATCH --cpus-per-t=3 --job=x"],
    ["#SBATCH --exclusive --nice", "#SBATCH --exclusive=user --nice=5"],
    ["#SBATCH --gres gpu:2 --gpus-per-node=a100:1", "#SBATCH -G 4"],
    ["#SBATCH --nodes=2", "#SBATCH --nodes=4"],
    ['#SBATCH --comment="a\\"b" --account=lab'],
    ["#SBATCH --array=0-9%2 --mail-type=END,FAIL --mail-user=kim@lab.example"],
    ["#SBATCH--nodes=2", "#SBATCH -N 5"],
    [" #SBATCH --nodes=6", "#SBATCH --ntasks-per-node=2"],
    ["#SBATCH --time=1-12 --mem=16000", "set -e", "#SBATCH --mem=1"],
    ["#SBATCH --time=90:30"],
    ["#SBATCH --time=2:00:00 --mem-per-cpu=2G --output=%j.log -e err"],
    ["#SLURM --nodes=2"],
    ["#PBS -l nodes=3", "#SBATCH --ntasks=2"],
    ["#SBATCH -a 1-3 -D /tmp -x node[1-2] -w node3"],
    ["#SBATCH --requeue", "#SBATCH --no-requeue"],
    ["#SBATCH --export=A=1,B=2 --signal=B:USR1@60 --qos=high --constraint='a&b'"],
)


def main(root: str) -> None:
    """Ask that root's sbatch."""
    found: list[dict[str, object]] = []
    for lines in SCRIPTS:
        text = "\n".join(["#!/bin/sh", *lines, "true", ""])
        (Path(root) / "tmp" / "asked.sh").write_text(text)
        argv = ["chroot", root, "timeout", "1", "sbatch", "-vvv", "/tmp/asked.sh"]
        said = subprocess.run(argv, capture_output=True, text=True).stderr.splitlines()
        words = [line.split("argument ", 1)[1][1:-1] for line in said if "Found in script" in line]
        rows = [line.removeprefix("sbatch: ").partition(" : ") for line in said if " : " in line]
        options = {name.strip(): value.strip() for name, _, value in rows if name.strip()}
        options.pop("verbose", None)
        found.append({"script": text, "words": words, "options": options})
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
