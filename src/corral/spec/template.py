"""Complete, commented cluster files to start from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.spec import tree
from corral.spec.findings import has_errors, shown
from corral.spec.load import invalid, load_text
from corral.spec.providers import CONTAINERS, OWNED
from corral.spec.slurm.hostlist import expand

Value = str | int | float

_LAPTOP: Final = """\
# A cluster on one Linux machine, no GPU needed: each node is a container with its own systemd,
# sshd and GPUs (this machine's, or device files that Slurm's cgroups really guard).
#
#   corral lint {file}        what is wrong with this file
#   corral plan {file}        what would be done
#   corral up {file}          do it, and prove that it works
#   corral down {file}        remove all of it
corral: v1
name: {name}
groups:
  - name: cpu
    provider: {containers}
    nodes: {nodes}
    gpu:
      type: {gpu_type}
      count: {gpu_count}
      source: {gpu_source:<10} # stand-in: nothing computes on them; host: this machine's own GPUs
    # memory_mib: 2048          # left out: an equal share of this machine's memory
partitions:
  - name: main
    groups: [cpu]
    default: true
    max_time: infinite          # or [days-]hours:minutes:seconds, such as "2-00:00:00"
storage:
  - mount: /shared
    kind: provider
# users:                        # left out: one user called corral
#   - name: alice
#     uid: 2001
"""

_LAB: Final = """\
# A cluster of machines you have, reached by ssh with your own keys and ssh config.
#
#   corral lint {file}            what is wrong with this file
#   corral up {file} --rehearse   try all of it in containers on this machine first
#   corral plan {file}            what would be done to the machines
#   corral up {file}              do it, and prove that it works
corral: v1
name: {name}
slurm:
  version: ">=22.05"            # what your machines' package source offers must match
  auth: auto                    # auth/slurm where every node has 24.05 or newer, else munge
  accounting: true              # slurmdbd with MariaDB on the controller
groups:
  - name: gpu
    provider: {owned}
    nodes: {nodes}
    addresses: {addresses:<15}  # same order and number as nodes
    gpu:
      type: {gpu_type}
      count: {gpu_count:<17}  # in each node, not in all of them
    ssh:
      user: {user:<18}  # root, or a user with sudo
      port: {port}
controller: {controller}
partitions:
  - name: main
    groups: [gpu]
    default: true
    max_time: infinite          # or [days-]hours:minutes:seconds, such as "2-00:00:00"
network:
  control: lan
  data:                         # between GPUs (NCCL); use the wired interface
    # interface: eno1           # left out: the interface of the node's address
    fabric: ethernet
    gbps: {gbps}
storage:
  - mount: /shared
    kind: nfs                   # existing: it is mounted already, from your own server
    server: {controller}
    path: /srv/corral
# users:                        # left out: one user called corral
#   - name: alice
#     uid: 2001                 # the same number on every node
"""

_TEXTS: Final[Mapping[str, str]] = MappingProxyType({"laptop": _LAPTOP, "lab": _LAB})
_VALUES: Final[Mapping[str, Mapping[str, Value]]] = MappingProxyType(
    {
        "laptop": {
            "name": "laptop",
            "nodes": "node[0-2]",
            "gpu_type": "slot",
            "gpu_count": 2,
            "gpu_source": "stand-in",
        },
        "lab": {
            "name": "lab",
            "nodes": "node[0-2]",
            "addresses": "192.168.1.[10-12]",
            "gpu_type": "rtx5090",
            "gpu_count": 1,
            "user": "root",
            "port": 22,
            "controller": "",
            "gbps": 2.5,
        },
    }
)
KINDS: Final = tuple(_TEXTS)


def values_of(kind: str) -> dict[str, Value]:
    """The values a template takes, with their defaults.

    Raises:
        CorralError: USAGE, the template does not exist.
    """
    if kind not in _VALUES:
        raise CorralError(
            Code.USAGE, f"no template is called {shown(kind)}", hint=f"one of: {', '.join(KINDS)}"
        )
    return dict(_VALUES[kind])


def init_text(kind: str, **values: Value) -> str:
    """A complete cluster file with comments.

    Args:
        kind: laptop (containers of this machine) or lab (three machines by ssh).
        **values: what to write instead of the defaults of ``values_of(kind)``.

    Raises:
        CorralError: USAGE for an unknown template or value, SPEC_INVALID (a SpecInvalidError with
            all findings) where the file would not load with these values.
    """
    known = values_of(kind)
    unknown = sorted(set(values) - set(known))
    if unknown:
        hint = f"values of {kind}: {', '.join(known)}"
        raise CorralError(Code.USAGE, f"the template takes no {', '.join(unknown)}", hint=hint)
    known.update(values)
    if known.get("controller") == "":
        known["controller"] = _first(str(known["nodes"]))
    written = {name: _scalar(value) for name, value in known.items()}
    file = f"{known['name']}.yaml"
    text = _TEXTS[kind].format(
        **written,
        file=file if written["name"] == known["name"] else "FILE",
        containers=CONTAINERS,
        owned=OWNED,
    )
    loaded = load_text(text, file)
    if has_errors(loaded.findings):
        raise invalid(loaded.findings, file)
    return text


def _first(nodes: str) -> str:
    try:
        return expand(nodes, strict=True)[0]
    except CorralError:
        return nodes


def _scalar(value: Value) -> str:
    """A value as one YAML scalar: plain where that reads back as the same, in quotes elsewhere."""
    if not isinstance(value, str):
        return json.dumps(value)
    top, faults = tree.parse(f"key: {value}\n")
    plain = top is not None and not faults and top.plain() == {"key": value}
    return value if plain else json.dumps(value)
