"""A simulated ``gcluster``: its command line and what it prints, over terraform and packer on PATH.

Made from cmd/ and pkg/shell/ of the Cluster Toolkit v1.95.0 and v1.39.0; test_mega.py runs the real
program in its place where there is one. It checks no module and no setting: the real one does. What
it starts dies with it as below the real one: Terraform by the kernel, Packer of its closed pipe.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.embedded.mega.world import expanded, note, step
from tests.embedded.mega.world import folder as world_folder

RELEASE = os.environ.get("CORRAL_TEST_MEGA_RELEASE", "v1.95.0")
OLD = RELEASE == "v1.39.0"
PR_SET_PDEATHSIG = 1


def info(text: str) -> None:
    """With the time since some release between the two."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    print(text if OLD else f"{stamp}: {text}", flush=True)
    step(f"gcluster: {text.strip()[:60]}")


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
    from ruamel.yaml import YAML  # noqa: PLC0415  # slow to import

    data = YAML(typ="safe").load(given.what.read_text())
    settings = YAML(typ="safe").load(given.deployment_file.read_text())
    # The deployment file wins over the blueprint's own variables.
    data["vars"] = {**data.get("vars", {}), **settings["vars"]}
    folder = given.out / data["vars"]["deployment_name"]
    if folder.exists() and not given.overwrite_deployment:
        fatal(f'Error: deployment folder "{folder}" already exists, use -w to overwrite')
    info(f'Creating deployment folder "{folder}" ...')
    artifacts = folder / ".ghpc" / "artifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    for group in data["deployment_groups"]:
        for module in group["modules"]:
            kind = module.get("kind", "terraform")
            at = folder / group["group"] / (module["id"] if kind == "packer" else "")
            at.mkdir(parents=True, exist_ok=True)
    # JSON is YAML; reading it costs the programs below a tenth.
    (artifacts / "expanded_blueprint.yaml").write_text(json.dumps(data))
    return folder


def blueprint(folder: Path) -> dict[str, Any]:
    return expanded(folder)


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
    process = subprocess.Popen(
        argv,
        cwd=at,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
        # terraform-exec: Setpgid and Pdeathsig. Packer gets neither.
        preexec_fn=bound if argv[0] == "terraform" else None,  # noqa: PLW1509  # no threads yet
    )
    errors: list[bytes] = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))  # type: ignore[union-attr]
    reader.start()
    for line in process.stdout or ():
        if not quiet:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    reader.join()
    status = process.wait()
    if status not in good:
        fatal(f"Error: exit status {status}\n\n{errors[0].decode()}")
    return status


def bound() -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def instructions(folder: Path) -> None:
    info("Find instructions for cleanly destroying infrastructure and advanced manual")
    info("deployment instructions at:")
    info("")
    info(f"{folder}/instructions.txt")


if __name__ == "__main__":
    # Go's programs die of these, Python's get an exception.
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    mine = world_folder() / "gcluster.pid"
    mine.write_text(str(os.getpid()))
    try:
        main(sys.argv[1:])
    finally:
        mine.unlink()
