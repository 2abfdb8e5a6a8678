"""The cluster files of the rows. Standard library alone: it runs on the other machine too."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

FILES = "files"
"""Folder of the kit with Enroot's packages and Pyxis' source."""

_TEXT = """\
corral: v1
name: {name}
groups:
  - name: gpu
    provider: embedded
    nodes: {nodes}
    gpu: {{type: {kind}, count: {count}, source: {source}}}
partitions:
  - {{name: main, groups: [gpu], default: true, max_time: infinite}}
storage:
  - {{mount: /shared, kind: provider}}
proof: {{every: 1d}}
"""


def cluster_text(
    name: str,
    files: Sequence[str],
    *,
    gpus: int,
    joined: bool,
    root: Path,
    kind: str = "slot",
    source: str = "stand-in",
    metrics: bool = True,
) -> str:
    """A cluster file.

    Args:
        name: the cluster's.
        files: names in the kit's folder of Enroot's packages and Pyxis' source; none: without.
        gpus: how many the machine has.
        joined: one node with all of them, else a node for each.
        root: the kit.
        kind: of the GPUs.
        source: ``host``, or ``stand-in`` where there are none.
        metrics: with Prometheus.
    """
    many = gpus > 1 and not joined
    text = _TEXT.format(
        name=name,
        nodes=f"node[0-{gpus - 1}]" if many else "node0",
        kind=kind,
        count=gpus if joined else 1,
        source=source,
    )
    if metrics:
        text += "services: {metrics: true}\n"
    return text + (containers(files, root) if files else "")


def containers(files: Sequence[str], root: Path) -> str:
    """The section ``software`` with Enroot and Pyxis by their files."""
    debs = [name for name in files if name.endswith(".deb")]
    source = next(name for name in files if "pyxis" in name)
    lines = ["software:", "  containers: pyxis", "  pyxis:", "    enroot:"]
    lines += [f"      - {_file(root, name)}" for name in debs]
    lines += [f"    source: {_file(root, source)}", ""]
    return "\n".join(lines)


def _file(kit: Path, name: str) -> str:
    digest = hashlib.sha256((kit / FILES / name).read_bytes()).hexdigest()
    return f'{{file: /kit/{FILES}/{name}, sha256: "{digest}"}}'
