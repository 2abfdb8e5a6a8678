"""``python -m tests.machines.lab up NAME -n 3``: bare machines by hand."""

from __future__ import annotations

import argparse
import os
import sys

from tests.machines.lab import image
from tests.machines.lab.labs import MEMORY, Lab, lab_names


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.machines.lab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="make and start a lab, or start an existing one")
    up.add_argument("name")
    up.add_argument("-n", type=int, default=3, help="machines (3)")
    up.add_argument("--suite", choices=sorted(image.SUITES), default="trixie")
    up.add_argument("--memory", default=MEMORY, help=f"of each machine ({MEMORY})")
    for verb, text in (("down", "remove it"), ("reset", "bare again"), ("show", "addresses")):
        verbs.add_parser(verb, help=text).add_argument("name")
    for verb in ("ssh", "cut", "reconnect", "kill", "on", "console"):
        subparser = verbs.add_parser(
            verb, help={"kill": "power cut", "cut": "pull the cable"}.get(verb)
        )
        subparser.add_argument("name")
        subparser.add_argument("index", type=int)
        if verb == "ssh":
            subparser.add_argument("command", nargs=argparse.REMAINDER)
    verbs.add_parser("list", help="existing labs")
    return _do(parser.parse_args())


def _do(args: argparse.Namespace) -> int:
    if reason := image.needs():
        print(reason, file=sys.stderr)
        return 3
    if args.verb == "list":
        print(*lab_names(), sep="\n")
        return 0
    if args.verb == "up":
        _show(Lab.make(args.name, args.n, args.suite, args.memory))
        return 0
    lab = Lab.open(args.name)
    return _lab_verb(lab, args.verb) if "index" not in args else _machine_verb(lab, args)


def _lab_verb(lab: Lab, verb: str) -> int:
    if verb == "show":
        _show(lab)
    elif verb == "reset":
        lab.reset()
    else:
        lab.remove()
        for left in lab.left():
            print(f"left: {left}", file=sys.stderr)
        return 1 if lab.left() else 0
    return 0


def _machine_verb(lab: Lab, args: argparse.Namespace) -> int:
    machine = lab.machines[args.index]
    if args.verb == "ssh":
        argv = [*machine.ssh_argv(), *args.command]
        os.execvp(argv[0], argv)  # noqa: S606
    if args.verb == "console":
        sys.stdout.write(machine.console.read_text(errors="replace"))
        return 0
    action = {
        "cut": machine.cut_network,
        "reconnect": machine.reconnect_network,
        "kill": machine.power_cut,
        "on": machine.on,
    }
    action[args.verb]()
    return 0


def _show(lab: Lab) -> None:
    for machine in lab.machines:
        state = f"pid {machine.pid}" if machine.pid else "off"
        print(f"{machine.index}  {machine.address}  {state}")
    print(f"key {image.key()}  user {image.USER}  folder {lab.folder}")


if __name__ == "__main__":
    sys.exit(main())
