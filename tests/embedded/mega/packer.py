"""A simulated ``packer``: version, init, validate, build.

In the order of its plugin for Google (builder/googlecompute, v1.2.8): the machine is made and
deleted, its disk stays and becomes the image, at last the disk is deleted. Google finishes an image
that nobody waits for.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from tests.embedded.mega.world import changing, expanded, note, now, step

ZONE = "projects/my-project/zones/us-central1-c"
NAME = "==> slurm-image.googlecompute.toolkit_image:"
FINISHED_S = 0.5
"""Seconds after which Google has made the image."""


def main(argv: list[str]) -> int:
    note("packer", argv)
    if argv[0] == "version":
        print("Packer v1.15.0")
    elif argv[0] == "validate":
        print("The configuration is valid.")
    elif argv[0] == "build":
        return build()
    return 0


def build() -> int:
    deployment = next(p for p in Path.cwd().parents if (p / ".ghpc").is_dir())
    blueprint = expanded(deployment)
    machine = f"packer-{uuid.uuid4().hex[:6]}"
    interrupted: list[int] = []
    print(f"{NAME} Creating instance...", flush=True)
    with changing() as world:
        world["instances"][machine] = {"role": "packer", "deployment": deployment.name}
        world["disks"][machine] = ""
        for kind in ("instances", "disks"):
            world["created"][f"{ZONE}/{kind}/{machine}"] = now()
    step("packer: its machine made")
    signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    print(f"{NAME} Deleting instance...", flush=True)
    with changing() as world:
        del world["instances"][machine]
        del world["created"][f"{ZONE}/instances/{machine}"]
    step("packer: its machine deleted")
    if not interrupted:
        image(blueprint, deployment.name, machine)
    print(f"{NAME} Deleting disk...", flush=True)
    with changing() as world:
        del world["disks"][machine]
        del world["created"][f"{ZONE}/disks/{machine}"]
    step("packer: its disk deleted")
    if interrupted:
        return 1
    print("Build 'slurm-image.googlecompute.toolkit_image' finished after 25 minutes 3 seconds.")
    return 0


def image(blueprint: dict[str, Any], deployment: str, disk: str) -> None:
    # In the blueprint, or where the real gcluster writes what Packer reads.
    texts = [json.dumps(blueprint), *(path.read_text() for path in Path.cwd().glob("*.hcl"))]
    own = re.search(r'"?corral_image"?\s*[:=]\s*"(\w+)"', "\n".join(texts))
    family = blueprint["vars"]["final_image_family"]
    print(f"{NAME} Creating image...", flush=True)
    with changing() as world:
        name = f"{family}-20261122t0{len(world['images']) + 1:05d}z"
        world["images"][name] = {
            "family": family,
            "labels": {"ghpc_deployment": deployment, **({"corral_image": own[1]} if own else {})},
            "disk": f"{ZONE}/disks/{disk}",
            "finished": time.time() + FINISHED_S,
        }
        world["created"][f"images/{name}"] = now()
    step("packer: image begun")
    with changing() as world:
        world["images"][name]["finished"] = 0
    step("packer: image ready")


if __name__ == "__main__":
    # As Go's programs: one that writes to a closed pipe dies.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
