"""A simulated ``gcluster``: its command line and what it prints, over terraform and packer on PATH.

Made from cmd/ and pkg/shell/ of the Cluster Toolkit v1.95.0 and v1.39.0; test_mega.py runs the real
program in its place where there is one. It checks no module and no setting: the real one does.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from tests.embedded.mega.world import note

RELEASE = os.environ.get("CORRAL_TEST_MEGA_RELEASE", "v1.95.0")
OLD = RELEASE == "v1.39.0"
YAML_SAFE = YAML(typ="safe")


def info(text: str) -> None:
    """With the time since some release between the two."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    print(text if OLD else f"{stamp}: {text}", flush=True)


def fatal(text: str) -> None:
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    print(text if OLD else f"{stamp}: {text}", file=sys.stderr)
    sys.exit(1)


def main(argv: list[str]) -> None:
    note("gcluster", argv)
    if argv[:1] == ["--version"]:
        print(f"gcluster version {RELEASE}")
        return
    parser = argparse.ArgumentParser("gcluster", allow_abbrev=False)
    parser.add_argument("verb", choices=("create", "deploy", "destroy"))
    parser.add_argument("what", type=Path)
    parser.add_argument("-w", "--overwrite-deployment", action="store_true")
    parser.add_argument("-d", "--deployment-file", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path())
    parser.add_argument("-l", "--validation-level", default="ERROR")
    parser.add_argument("--auto-approve", action="store_true")
    parser.add_argument("--skip", default="")
    given = parser.parse_args(argv)
    folder = given.what if given.verb == "destroy" or given.what.is_dir() else create(given)
    if given.verb == "create":
        info("To deploy your infrastructure please run:")
        info("")
        info(f"{sys.argv[0]} deploy {folder}")
        info("")
        instructions(folder)
        return
    if not given.auto_approve:
        fatal("standard input is not a terminal")
    groups = blueprint(folder)["deployment_groups"]
    skipped = given.skip.split(",")
    if given.verb == "destroy":
        destroy(folder, groups)
    else:
        deploy(folder, groups, skipped)


def create(given: argparse.Namespace) -> Path:
    data = YAML_SAFE.load(given.what.read_text())
    settings = YAML_SAFE.load(given.deployment_file.read_text())
    # The deployment file wins over the blueprint's own variables.
    data["vars"] = {**data.get("vars", {}), **settings["vars"]}
    folder = given.out / data["vars"]["deployment_name"]
    if folder.exists() and not given.overwrite_deployment:
        fatal(f'Error: deployment folder "{folder}" already exists, use -w to overwrite')
    info(f'Creating deployment folder "{folder}" ...')
    artifacts = folder / ".ghpc" / "artifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    with (artifacts / "expanded_blueprint.yaml").open("w") as file:
        YAML_SAFE.dump(data, file)
    for group in data["deployment_groups"]:
        for module in group["modules"]:
            kind = module.get("kind", "terraform")
            at = folder / group["group"] / (module["id"] if kind == "packer" else "")
            at.mkdir(parents=True, exist_ok=True)
    return folder


def blueprint(folder: Path) -> dict[str, Any]:
    return YAML_SAFE.load((folder / ".ghpc/artifacts/expanded_blueprint.yaml").read_text())


def packer(group: dict[str, Any]) -> bool:
    return group["modules"][0].get("kind") == "packer"


def deploy(folder: Path, groups: list[dict[str, Any]], skipped: list[str]) -> None:
    for group in groups:
        at = folder / group["group"]
        if group["group"] in skipped:
            info(f'skipping group "{group["group"]}"')
        elif packer(group):
            image = at / group["modules"][0]["id"]
            for word, verb in (
                ("initializing", "init"),
                ("validating", "validate"),
                ("building image using", "build"),
            ):
                info(f"{word} packer module at {image}")
                call(image, "packer", verb, ".")
        else:
            change(at, "adding or changing", "applied")
            info(f"Collecting terraform outputs from {at}")
            call(at, "terraform", "output", "-no-color", "-json", quiet=True)
            outputs(folder, at)
    info("\n###############################")
    instructions(folder)


def outputs(folder: Path, at: Path) -> None:
    text = subprocess.run(
        ["terraform", "output", "-no-color", "-json"],
        cwd=at,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    exported = json.loads(text)
    if not exported:
        info(f"Deployment group {at.name} contains no artifacts to export")
        return
    path = folder / ".ghpc/artifacts" / f"{at.name}_outputs.tfvars"
    info(f"Writing outputs artifact from deployment group {at.name} to file {path}")
    path.write_text(
        "".join(f"\n{name} = {hcl(output['value'])}\n" for name, output in sorted(exported.items()))
    )


def hcl(value: Any) -> str:
    if isinstance(value, dict):
        width = max(map(len, value))
        return "{\n" + "".join(f"  {k:<{width}} = {hcl(v)}\n" for k, v in value.items()) + "}"
    return f'"{value}"'


def destroy(folder: Path, groups: list[dict[str, Any]]) -> None:
    if not OLD:
        info("Destroy attempt 1 of 1")
    for group in reversed(groups):
        if not packer(group):
            change(folder / group["group"], "destroying", "destroyed", "-destroy")
    if not OLD:
        info("Successfully destroyed all selected groups.")


def change(at: Path, doing: str, done: str, *more: str) -> None:
    info(f"Testing if deployment group {at} requires {doing} cloud infrastructure")
    plan = f"{at}.plan"
    status = call(
        at,
        "terraform",
        "plan",
        "-no-color",
        "-detailed-exitcode",
        f"-out={plan}",
        *more,
        quiet=True,
        good=(0, 2),
    )
    if status == 0:
        info(f"Cloud infrastructure in deployment group {at} is already {done}")
        return
    info(f"Deployment group {at} requires {doing} cloud infrastructure")
    info(f"Running terraform apply on deployment group {at}")
    call(at, "terraform", "apply", "-no-color", "-auto-approve", plan)


def call(at: Path, *argv: str, quiet: bool = False, good: tuple[int, ...] = (0,)) -> int:
    done = subprocess.run(
        argv,
        cwd=at,
        check=False,
        text=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL if quiet else None,
    )
    if done.returncode not in good:
        fatal(f"Error: exit status {done.returncode}\n\n{done.stderr}")
    return done.returncode


def instructions(folder: Path) -> None:
    info("Find instructions for cleanly destroying infrastructure and advanced manual")
    info("deployment instructions at:")
    info("")
    info(f"{folder}/instructions.txt")


if __name__ == "__main__":
    main(sys.argv[1:])
