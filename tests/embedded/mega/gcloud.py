"""A simulated ``gcloud``: a token, and IAP's tunnel to a machine of the world."""

from __future__ import annotations

import os
import selectors
import socket
import sys

from tests.embedded.mega.google import TOKEN
from tests.embedded.mega.world import changing, note, read


def main(argv: list[str]) -> int:
    note("gcloud", argv)
    match argv:
        case ["auth", "application-default", "print-access-token"]:
            if read().get("nobody"):
                print(
                    "ERROR: (gcloud.auth.application-default.print-access-token) Your default "
                    "credentials were not found.",
                    file=sys.stderr,
                )
                return 1
            print(TOKEN)
            return 0
        case ["compute", "start-iap-tunnel", node, port, "--listen-on-stdin", *_]:
            instance = read()["instances"].get(node)
            if instance is None or "address" not in instance:
                print(f"ERROR: [4003: 'failed to connect to backend'] {node}", file=sys.stderr)
                return 1
            return pump(socket.create_connection((instance["address"], int(port)), timeout=10))
        case ["compute", what, "delete", name, "--project=my-project", zone, "--quiet", *more]:
            return delete(what, name, zone.removeprefix("--zone="), more)
        case _:
            print(f"ERROR: (gcloud) Invalid choice: {argv}", file=sys.stderr)
            return 2


def delete(what: str, name: str, zone: str, more: list[str]) -> int:
    """A machine's disk stays unless it is named: Packer's have no autoDelete."""
    with changing() as world:
        kinds = [what, *(["disks"] if more == ["--delete-disks=boot"] else [])]
        if any(name not in world[kind] for kind in kinds):
            print(f"ERROR: (gcloud.compute.{what}.delete) {name} was not found", file=sys.stderr)
            return 1
        if what == "disks" and name in world["instances"]:
            print("ERROR: The disk resource is already being used", file=sys.stderr)
            return 1
        for kind in kinds:
            del world[kind][name]
            del world["created"][f"projects/my-project/zones/{zone}/{kind}/{name}"]
    print(f"Deleted [{name}].", file=sys.stderr)
    return 0


def pump(there: socket.socket) -> int:
    there.settimeout(None)
    chosen = selectors.DefaultSelector()
    typed = sys.stdin.fileno()
    chosen.register(typed, selectors.EVENT_READ, "in")
    chosen.register(there, selectors.EVENT_READ, "out")
    while True:
        for key, _ in chosen.select():
            if key.data == "in":
                data = os.read(typed, 65536)
                if not data:
                    return 0
                there.sendall(data)
            else:
                data = there.recv(65536)
                if not data:
                    return 0
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
