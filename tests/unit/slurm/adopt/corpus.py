"""141 public Slurm configurations, rebuilt from facts, and what is wrong with each.

Each folder of ``tests/corpora/slurm_conf`` holds the files and a ``judgement.yaml``, which was
written before Corral read them. Keys of ``problems`` are the judge's words; ``RULES_OF`` lists
which rules of ``lint --existing`` are about the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.unit.slurm.adopt.second_reader import Reading, read

FOLDER = Path(__file__).parents[3] / "corpora" / "slurm_conf"
KEYS = (
    "controller-spelling removed-key obsolete-key defunct-key unknown-key accounting "
    "procs-old-name value-unknown"
)
RULES_OF: Mapping[str, str] = {
    "template": "template",
    "memory-free": "select-type",
    "memory-no-default": "memory-default-missing",
    "memory-unset": "real-memory-missing",
    "one-cpu": "cpus-missing",
    "cpus-odd": "cpu-layout",
    "linear-gpus": "select-type",
    "cons-res": "select-type",
    "root": "slurm-user-root",
    "state": "state-location",
    "state-local": "state-not-shared",
    "enforce-free": "accounting-enforced",
    "acct-none": "accounting",
    "acct-dead": "accounting",
    "tres-free": "accounting",
    "gres-no-conf": "gres-conf-missing",
    "gres-types": "gres-types-missing",
    "gres-unused": "gres-not-on-node gres-types-missing",
    "gres-differs": "gres-mismatch",
    "gres-stranger": "gres-record",
    "nvml": "gres-autodetect",
    "gres-mixed": "gres-autodetect",
    "parts-ghosts": "partition-nodes",
    "parts-none": "partition-default",
    "parts-default": "partition-default",
    "idle": "node-unused",
    "no-confine": "task-plugin",
    "proctrack": "process-tracking",
    "devices": "devices-open",
    "cgroup-loose": "cores-memory-open",
    "cgroup-plugin": "cgroup-plugin",
    "old-keys": KEYS,
    "twice": "repeated-key",
    "no-name": "cluster-name-missing",
    "no-controller": "controller-spelling",
    "auth-none": "authentication",
    "db-pass": "slurmdbd-password",
    "db-differs": "slurmdbd-differs",
    "overrides": "fault-hidden",
    "crlf": "line-ends",
    "inc-lost": "include-lost",
    "spool-shared": "state-location",
    "fragment": "",
}


@dataclass(frozen=True)
class Case:
    """One configuration."""

    name: str
    folder: Path
    held: bool
    placeholders: bool
    gpus: Mapping[str, int]
    problems: tuple[str, ...]

    def files(self) -> dict[str, str]:
        """Texts by file name, as the second reader takes them."""
        return {
            path.name.removesuffix(".j2"): path.read_bytes().decode("utf-8", "replace")
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.name != "judgement.yaml"
        }

    def reading(self) -> Reading:
        """The second reader's reading."""
        return read(self.files())


@cache
def cases() -> tuple[Case, ...]:
    """All of them, in order."""
    cases_read: list[Case] = []
    for folder in sorted(path for path in FOLDER.iterdir() if path.is_dir()):
        judgement: dict[str, Any] = YAML(typ="safe").load(folder / "judgement.yaml")
        cases_read.append(
            Case(
                folder.name,
                folder,
                judgement["held"],
                judgement["placeholders"],
                judgement["gpus"] or {},
                tuple(judgement["problems"] or ()),
            )
        )
    return tuple(cases_read)


def real() -> tuple[Case, ...]:
    """Those that a slurmctld could read: no templates, no fragments."""
    return tuple(c for c in cases() if not c.placeholders and "fragment" not in c.problems)
