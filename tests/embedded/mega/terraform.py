"""A simulated ``terraform``: what terraform-exec asks of it, over the group's expanded blueprint.

Output formats are those of Terraform 1.13 with -no-color.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from tests.embedded.mega.world import changing, note, read

NETWORK_STORAGE = {
    "fs_type": "lustre", "local_mount": "/data", "mount_options": "defaults,_netdev",
    "remote_mount": "exacloud", "server_ip": "172.16.0.7",
}  # fmt: skip
ADDRESSES = ("network/vpc", "network/multivpc")


def main(argv: list[str]) -> int:
    note("terraform", argv)
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
        return plan(argv)
    elif command == "apply":
        return apply(Path(next(a for a in reversed(argv) if not a.startswith("-"))))
    elif command == "output":
        print(json.dumps(outputs()))
    else:
        print(f'Terraform has no command named "{command}".', file=sys.stderr)
        return 1
    return 0


def group() -> tuple[dict[str, Any], dict[str, Any], str]:
    """Variables, the deployment group of this folder, and its key in the world."""
    here = Path.cwd()
    artifacts = here.parent / ".ghpc" / "artifacts"
    text = (artifacts / "expanded_blueprint.yaml").read_text()
    blueprint = YAML(typ="safe").load(text)
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
        elif kind in ("managed-lustre", "filestore", "DDN-EXAScaler", "cloud-storage-bucket"):
            declared[f"module.{id}.google_storage.this"] = {"storage": id}
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


def apply(path: Path) -> int:
    data = json.loads(path.read_text())
    fail = read()["fail"].get(data["key"], "")
    added = destroyed = 0
    for at, what in data["gone"].items():
        print(f"{at}: Destroying... [id=projects/my-project/{at}]", flush=True)
        _remove(data, at, what)
        print(f"{at}: Destruction complete after 11s", flush=True)
        destroyed += 1
    for at, what in data["add"].items():
        print(f"{at}: Creating...", flush=True)
        if fail and added:
            print(f"{at}: Still creating... [10s elapsed]")
            print(
                f"╷\n│ Error: {fail}\n│ \n│   with {at},\n│   on main.tf line 1\n╵", file=sys.stderr
            )
            return 1
        if "google_storage" in at:
            print(f"{at}: Still creating... [5m0s elapsed]")
        _make(data, at, what)
        print(f"{at}: Creation complete after 5m12s [id=projects/my-project/{at}]", flush=True)
        added += 1
    print(f"\nApply complete! Resources: {added} added, 0 changed, {destroyed} destroyed.")
    if "controller" in str(data["add"]):
        _boot(data)
    return 0


def _make(data: dict[str, Any], at: str, what: dict[str, Any]) -> None:
    with changing() as world:
        world["made"].setdefault(data["key"], {})[at] = what
        for kind, value in what.items():
            if kind == "networks":
                world["networks"][value] = data["key"]
            elif kind in ("controller", "login"):
                world["instances"][value] = {"role": kind, "cluster": data["cluster"]}


def _boot(data: dict[str, Any]) -> None:
    """The controller has slurm-gcp make the nodes."""
    with changing() as world:
        made = world["made"][data["key"]].values()
        for names in (w["compute"] for w in made if "compute" in w):
            for name in names:
                world["instances"].setdefault(name, {"role": "compute", "cluster": data["cluster"]})
        hook = world.get("boot")
    if hook:
        subprocess.run(
            [sys.executable, "-m", "tests.embedded.mega.boot", data["cluster"]],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def _remove(data: dict[str, Any], at: str, what: dict[str, Any]) -> None:
    with changing() as world:
        if "controller" in what:
            mine = [n for n, i in world["instances"].items() if i["cluster"] == data["cluster"]]
            for name in mine:
                if world["instances"][name]["role"] != "login":
                    del world["instances"][name]
        for kind, value in what.items():
            if kind == "networks" and value not in world.get("sticky", ()):
                world["networks"].pop(value, None)
            elif kind == "login":
                world["instances"].pop(value, None)
        del world["made"][data["key"]][at]
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
