"""A simulated ``terraform``: what terraform-exec asks of it, over the group's expanded blueprint.

Output formats are those of Terraform 1.13 with -no-color.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from tests.embedded.mega.world import changing, expanded, note, now, read, step

NETWORK_STORAGE = {
    "fs_type": "lustre", "local_mount": "/data", "mount_options": "defaults,_netdev",
    "remote_mount": "exacloud", "server_ip": "172.16.0.7",
}  # fmt: skip
PROJECT = "projects/my-project"
ZONE = f"{PROJECT}/zones/us-central1-c"
STORES = {
    "managed-lustre": ("google_lustre_instance", f"{PROJECT}/locations/us-central1-c/instances/"),
    "filestore": ("google_filestore_instance", f"{PROJECT}/locations/us-central1-c/instances/"),
    "DDN-EXAScaler": ("google_compute_instance", f"{ZONE}/instances/"),
    "cloud-storage-bucket": ("google_storage_bucket", "b/"),
}
stopped: list[int] = []


def main(argv: list[str]) -> int:
    note("terraform", argv)
    signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    command = argv[0]
    if command == "version":
        print(
            json.dumps(
                {
                    "terraform_version": "1.13.4",
                    "platform": "linux_amd64",
                    "provider_selections": {},
                    "terraform_outdated": False,
                }
            )
        )
    elif command == "init":
        print("\nTerraform has been successfully initialized!")
    elif command == "plan":
        with locked("OperationTypePlan") as free:
            return plan(argv) if free else 1
    elif command == "apply":
        with locked("OperationTypeApply") as free:
            path = Path(next(a for a in reversed(argv) if not a.startswith("-")))
            return apply(path) if free else 1
    elif command == "output":
        print(json.dumps(outputs()))
    elif command == "force-unlock":
        return unlock(argv[-1])
    elif command == "import":
        return import_resource(*argv[-2:])
    else:
        print(f'Terraform has no command named "{command}".', file=sys.stderr)
        return 1
    return 0


def error(text: str) -> int:
    lines = "\n".join(f"│ {line}".rstrip() for line in text.splitlines())
    print(f"╷\n{lines}\n╵", file=sys.stderr)
    return 1


@contextlib.contextmanager
def locked(operation: str) -> Generator[bool]:
    """The lock on the state, in the bucket; SIGKILL leaves it there."""
    _, _, key = group()
    with changing() as world:
        holder = world["locks"].get(key)
        free = holder is None
        if free:
            stamp = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S.%f}000 +0000 UTC"
            world["locks"][key] = holder = {
                "ID": str(time.time_ns() // 1000),
                "Path": f"gs://my-terraform-state/{key}/default.tflock",
                "Operation": operation,
                "Who": f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}",
                "Version": "1.13.4",
                "Created": stamp,
                "Info": "",
            }
    if not free:
        info = "\n".join(f"  {name + ':':<10} {value}" for name, value in holder.items())
        error(
            "Error: Error acquiring the state lock\n\nError message: writing\n"
            f'"{holder["Path"]}" failed:\ngoogleapi: Error 412: At least one of the pre-conditions '
            f"you specified did not hold.,\nconditionNotMet\nLock Info:\n{info}\n\n\n"
            "Terraform acquires a state lock to protect the state from being written\n"
            "by multiple users at the same time."
        )
    else:
        step(f"terraform: {operation} holds the lock of {key}")
    try:
        yield free
    finally:
        if free:
            with changing() as world:
                del world["locks"][key]
            step(f"terraform: {operation} released the lock of {key}")


def unlock(id: str) -> int:
    _, _, key = group()
    with changing() as world:
        if world["locks"].get(key, {}).get("ID") != id:
            return error("Error: Failed to unlock state")
        del world["locks"][key]
    print("Terraform state has been successfully unlocked!")
    return 0


def import_resource(address: str, id: str) -> int:
    variables, deployment_group, key = group()
    what = resources(variables, deployment_group).get(address)
    if what is None:
        return error(f"Error: resource address {address} does not exist in the configuration.")
    if "instance_from_template" in address:
        type = address.rpartition(".")[0].rpartition(".")[2]
        return error(f"Error: resource {type} doesn't support import")
    if not any(thing == id for _, _, thing in things(what)):
        return error("Error: Cannot import non-existent remote object")
    with changing() as world:
        world["made"].setdefault(key, {})[address] = what
    print("Import successful!")
    return 0


def group() -> tuple[dict[str, Any], dict[str, Any], str]:
    """Variables, the deployment group of this folder, and its key in the world."""
    here = Path.cwd()
    blueprint = expanded(here.parent)
    deployment_group = next(g for g in blueprint["deployment_groups"] if g["group"] == here.name)
    return blueprint["vars"], deployment_group, f"{here.parent.name}/{here.name}"


def resources(
    variables: dict[str, Any], deployment_group: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Terraform's address of each resource -> what it is in the world."""
    declared: dict[str, dict[str, Any]] = {}
    cluster = variables.get("slurm_cluster_name", "")
    for module in deployment_group["modules"]:
        id, source, settings = module["id"], module["source"], module.get("settings", {})
        kind = source.rpartition("/")[2]
        if kind == "vpc":
            name = variables["network_name_system"]
            declared[f"module.{id}.module.vpc.module.vpc.google_compute_network.network"] = {
                "networks": name}  # fmt: skip
        elif kind == "multivpc":
            for i in range(settings["network_count"]):
                at = f'module.{id}.module.vpcs["{i}"].google_compute_network.network'
                declared[at] = {"networks": f"{variables['deployment_name']}-gpunet-{i}"}
        elif kind in STORES:
            type, path = STORES[kind]
            name = f"{variables['deployment_name']}-{id}"
            declared[f"module.{id}.{type}.this"] = {"storage": path + name}
        elif kind == "schedmd-slurm-gcp-v6-nodeset":
            names = [
                f"{cluster}-{settings['name']}-{i}" for i in range(settings["node_count_static"])
            ]
            declared[f"module.{id}.google_compute_instance_template.default"] = {"compute": names}
        elif kind == "schedmd-slurm-gcp-v6-controller":
            declared[f"module.{id}.google_compute_instance_from_template.controller"] = {
                "controller": f"{cluster}-controller"
            }
        elif kind == "schedmd-slurm-gcp-v6-login":
            declared[f"module.{id}.google_compute_instance_from_template.login"] = {
                "login": f"{cluster}-slurm-login-001"
            }
    return declared


def plan(argv: list[str]) -> int:
    variables, deployment_group, key = group()
    destroy = any(a in ("-destroy", "-destroy=true") for a in argv)
    out = next((a.partition("=")[2] for a in argv if a.startswith("-out=")), "")
    declared = {} if destroy else resources(variables, deployment_group)
    have = read()["made"].get(key, {})
    data = {
        "key": key,
        "cluster": variables.get("slurm_cluster_name", ""),
        "add": {k: v for k, v in declared.items() if have.get(k) != v},
        "gone": {k: v for k, v in have.items() if k not in declared},
    }
    if out:
        Path(out).write_text(json.dumps(data))
    change = bool(data["add"] or data["gone"])
    print(json.dumps({"@level": "info", "type": "change_summary"}))
    return 2 if change and "-detailed-exitcode" in argv else 0


def things(what: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Of a resource: where the world has it, its name there, Google's path of it."""
    for kind, value in what.items():
        if kind == "networks":
            yield "networks", value, f"{PROJECT}/global/networks/{value}"
        elif kind in ("controller", "login"):
            yield "instances", value, f"{ZONE}/instances/{value}"
        elif kind == "storage":
            yield "storage", value, value


def apply(path: Path) -> int:
    data = json.loads(path.read_text())
    fail = read()["fail"].get(data["key"], "")
    destroyed = [at for at, what in data["gone"].items() if removed(data, at, what)]
    added = 0
    failed = bool(stopped)
    for at, what in data["add"].items():
        if stopped:
            break
        print(f"{at}: Creating...", flush=True)
        if fail and added:
            print(f"{at}: Still creating... [10s elapsed]")
            return error(f"Error: {fail}\n\n  with {at},\n  on main.tf line 1")
        if "storage" in what:
            print(f"{at}: Still creating... [5m0s elapsed]")
        if not made(data, at, what):
            failed = True
            continue
        print(f"{at}: Creation complete after 5m12s [id=projects/my-project/{at}]", flush=True)
        added += 1
    if stopped:
        return error("Error: execution halted")
    if failed:
        return 1
    print(f"\nApply complete! Resources: {added} added, 0 changed, {len(destroyed)} destroyed.")
    return 0


def removed(data: dict[str, Any], at: str, what: dict[str, Any]) -> bool:
    if stopped:
        return False
    print(f"{at}: Destroying... [id=projects/my-project/{at}]", flush=True)
    _remove(data, what)
    step(f"terraform: {at} destroyed")
    with changing() as world:
        del world["made"][data["key"]][at]
    print(f"{at}: Destruction complete after 11s", flush=True)
    return True


def made(data: dict[str, Any], at: str, what: dict[str, Any]) -> bool:
    """Made at Google, then written to the state: killed in between, Terraform forgets it."""
    step(f"terraform: {at} to be made")
    with changing() as world:
        for kind, name, path in things(what):
            if name in world[kind]:
                error(
                    f"Error: Error creating: googleapi: Error 409: The resource '{path}' already "
                    f"exists, alreadyExists\n\n  with {at},\n  on main.tf line 1, in resource:"
                )
                return False
            record: Any = data["key"]
            if kind == "instances":
                role = "controller" if "controller" in what else "login"
                deployment = data["key"].partition("/")[0]
                record = {"role": role, "cluster": data["cluster"], "deployment": deployment}
            world[kind][name] = record
            world["created"][path] = now()
    if "controller" in what:
        _boot(data)
    time.sleep(read().get("slow", 0))
    step(f"terraform: {at} made")
    with changing() as world:
        world["made"].setdefault(data["key"], {})[at] = what
    step(f"terraform: {at} in the state")
    return True


def _boot(data: dict[str, Any]) -> None:
    """The controller has slurm-gcp make the nodes."""
    with changing() as world:
        declared = (data["add"] | world["made"].get(data["key"], {})).values()
        for names in (w["compute"] for w in declared if "compute" in w):
            for name in names:
                world["instances"].setdefault(name, {"role": "compute", "cluster": data["cluster"]})
        hook = world.get("boot")
    if hook:
        subprocess.run(
            [sys.executable, "-m", "tests.embedded.mega.boot", data["cluster"]],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def _remove(data: dict[str, Any], what: dict[str, Any]) -> None:
    with changing() as world:
        if "controller" in what:
            mine = [n for n, i in world["instances"].items() if i.get("cluster") == data["cluster"]]
            for name in mine:
                if world["instances"][name]["role"] != "login":
                    del world["instances"][name]
        for kind, name, path in things(what):
            if name not in world.get("sticky", ()):
                world[kind].pop(name, None)
                world["created"].pop(path, None)
        hook = "controller" in what and world.get("boot")
    if hook:
        subprocess.run(
            [sys.executable, "-m", "tests.embedded.mega.boot", "down", data["cluster"]],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def outputs() -> dict[str, Any]:
    """``NAME_MODULE`` of the outputs that the blueprint asks for, as in gcluster's Terraform."""
    variables, deployment_group, _ = group()
    values: dict[str, Any] = {}
    for module in deployment_group["modules"]:
        for output in module.get("outputs", ()):
            name = output["name"] if isinstance(output, dict) else output
            value: Any = variables.get(f"{name}_system", "x")
            kind: Any = "string"
            if name == "network_storage":
                value, kind = NETWORK_STORAGE, ["object", dict.fromkeys(NETWORK_STORAGE, "string")]
            values[f"{name}_{module['id']}"] = {"sensitive": False, "type": kind, "value": value}
    return values


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
