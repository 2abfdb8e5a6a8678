"""The toolkit's examples as records: modules with their settings, scripts by what they name.

``python -m tests.unit.providers.gcp.toolkit_examples FOLDER`` writes them again from a checkout.
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

RECORDS: Final = Path(__file__).parents[3] / "recorded/toolkit"
RELEASE: Final = "v1.95.0"
EXAMPLES: Final = {
    "a3-megagpu-8g": "a3mega-slurm-blueprint.yaml",
    "a3-ultragpu-8g": "a3ultra-slurm-blueprint.yaml",
    "a4-highgpu-8g": "a4high-slurm-blueprint.yaml",
    "a4x-highgpu-4g": "a4xhigh-slurm-blueprint.yaml",
}
NAMED: Final = (
    "cuda-toolkit-[0-9-]+",
    "datacenter-gpu-manager-4-[a-z0-9]+",
    'libnccl(?:2|-dev)=[^" ]+',
    'nccl-gib=[^" ]+',
    "ibverbs-utils",
    "/usr/local/gib/scripts/set_nccl_env.sh",
    "/etc/profile.d/nccl-gib.sh",
    "/slurm/scripts/tools/gpu-test",
    'sudo-oslogin(?=")',
    "receive-data-path-manager-mega",
    "imex_(?:prolog|epilog)(?=\\.)",
    "gpudirect-gib/nccl-plugin-gib-arm64",
    "/etc/slurm/plugstack.conf.d/pyxis.conf",
    r"stack 8192",
    "aperture_devices",
    "apparmor_restrict_unprivileged_userns",
    '"(?:install_(?:cuda|gcsfuse|lustre|ompi)|allow_kernel_upgrades|use_open_drivers)": [a-z]+',
    "slurm-gcp -C [0-9.]+",
)
"""What an example's scripts install or use, which Corral's have to as well."""


def record(text: str) -> dict[str, Any]:
    """An example without its scripts."""
    data: Any = YAML(typ="safe").load(text)
    values = {k: v for k, v in data["vars"].items() if v not in (None, "")}
    filled = _filled(data["deployment_groups"], values)
    document = json.dumps(filled)
    modules = {m["id"]: module_of(m) for group in filled for m in group["modules"]}
    names = {
        name for pattern in NAMED for name in re.findall(pattern, document.replace('\\"', '"'))
    }
    return {"modules": modules, "names": sorted(names)}


def _filled(value: Any, values: dict[str, Any]) -> Any:
    """Variables replaced by the values that the example gives them."""
    if isinstance(value, dict):
        return {k: _filled(v, values) for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(v, values) for v in value]
    if not isinstance(value, str):
        return value
    alone = re.fullmatch(r"\$\(vars\.([\w.]+)\)", value)
    if alone and (known := _value(alone[1], values)) is not None:
        return _filled(known, values)
    for _ in range(3):
        value = re.sub(r"\$\(vars\.([\w.]+)\)", lambda m: str(_value(m[1], values) or m[0]), value)
    return value


def _value(name: str, values: dict[str, Any]) -> Any:
    value: Any = values
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def module_of(entry: dict[str, Any]) -> dict[str, Any]:
    """A module without what its machines run."""
    settings = {
        name: _without_scripts(value)
        for name, value in entry.get("settings", {}).items()
        if name not in ("runners", "metadata")
    }
    kept = {"source": entry["source"], "use": entry.get("use", []), "settings": settings}
    return {**kept, **({"outputs": entry["outputs"]} if "outputs" in entry else {})}


def _without_scripts(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_scripts(part) for part in value]
    if isinstance(value, dict):
        return {k: _without_scripts(v) for k, v in value.items()}
    return "a script" if isinstance(value, str) and value.startswith("#!") else value


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Settings by their path."""
    if isinstance(value, dict) and value:
        return {
            k: v for name, part in value.items() for k, v in flat(part, f"{path}.{name}").items()
        }
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        rows = enumerate(value)
        return {k: v for i, part in rows for k, v in flat(part, f"{path}[{i}]").items()}
    return {path.lstrip("."): value}


def text_of(data: Any) -> str:
    """A record as it is stored."""
    out = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump(data, out)
    return out.getvalue()


def head(machine: str) -> str:
    """The line above a record."""
    name = f"examples/machine-learning/{machine}/{EXAMPLES[machine]}"
    return f"# Settings of {name}, toolkit {RELEASE}; scripts by what they name.\n"


def main(checkout: Path) -> None:
    for machine, name in EXAMPLES.items():
        text = (checkout / "examples/machine-learning" / machine / name).read_text()
        (RECORDS / f"{machine}.yaml").write_text(head(machine) + text_of(record(text)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
