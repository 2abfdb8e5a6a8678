"""A simulated ``packer``: version, init, validate, build."""

from __future__ import annotations

import sys
from pathlib import Path

from ruamel.yaml import YAML
from tests.embedded.mega.world import changing, note


def main(argv: list[str]) -> int:
    note("packer", argv)
    if argv[0] == "version":
        print("Packer v1.15.0")
    elif argv[0] == "validate":
        print("The configuration is valid.")
    elif argv[0] == "build":
        deployment = next(p for p in Path.cwd().parents if (p / ".ghpc").is_dir())
        text = (deployment / ".ghpc/artifacts/expanded_blueprint.yaml").read_text()
        family = YAML(typ="safe").load(text)["vars"]["final_image_family"]
        print("==> slurm-image.googlecompute.toolkit_image: Creating instance...")
        with changing() as world:
            number = len(world["images"]) + 1
            world["images"][f"{family}-20261122t0{number:05d}z"] = family
        print(
            "Build 'slurm-image.googlecompute.toolkit_image' finished after 25 minutes 3 seconds."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
