"""``python -m tests.mesh.lab up NAME 0 0 1p``: a lab by hand; a node by its home, p for a pod."""

from __future__ import annotations

import argparse
import sys

from tests.mesh.lab.labs import Kind, Lab, lab_names, needs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mesh.lab", description=__doc__)
    parser.add_argument("verb", choices=("up", "down", "show", "list"))
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("nodes", nargs="*", default=["0", "1"])
    args = parser.parse_args()
    if reason := needs():
        print(reason, file=sys.stderr)
        return 3
    if args.verb == "list":
        print(*lab_names(), sep="\n")
        return 0
    if args.verb == "down":
        Lab(args.name).remove()
        return 0
    lab = Lab.make(args.name, [_node(word) for word in args.nodes]) if args.verb == "up" else None
    lab = lab or Lab(args.name)
    print(f"control server {lab.control.url}, key {lab.control.key_file}, ssh key {lab.key}")
    for node in lab.nodes:
        print(f"{node.name}  home {node.home}  {node.kind}  root@{node.address}")
    return 0


def _node(word: str) -> tuple[int, Kind]:
    return int(word.rstrip("p")), "pod" if word.endswith("p") else "machine"


if __name__ == "__main__":
    sys.exit(main())
