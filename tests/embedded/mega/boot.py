"""The machines of a simulated A3 Mega cluster: embedded nodes, dressed up as what Google gives.

``python -m tests.embedded.mega.boot CLUSTER`` makes them, ``... down CLUSTER`` removes them. What
slurm-gcp would set up, Corral's own roles do: the cluster has the same names, GPUs and partitions.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.embedded.mega.world import changing, folder, read

from corral import api
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec

FILE = """\
corral: v1
name: {name}
slurm: {{rest: false, prolog: {{leftovers: false, gpus: false}}}}
groups:
  - {{name: controller, provider: embedded, nodes: {cluster}-controller}}
  - name: a3mega
    provider: embedded
    nodes: {cluster}-a3mega-[0-{last}]
    gpu: {{type: h100, count: 8}}
controller: {cluster}-controller
partitions: [{{name: a3mega, groups: [a3mega], default: true}}]
storage: [{{mount: /shared, kind: provider}}]
users: [{{name: ops, uid: 2001}}]
health: {{every: "off"}}
{software}"""
DRESS = Path(__file__).with_name("dress.sh")


def spec_of(cluster: str, world: dict[str, Any]) -> ClusterSpec:
    nodes = [n for n, i in world["instances"].items() if i["role"] == "compute"]
    boot = world["boot"]
    path = folder() / "machines.yaml"
    path.write_text(
        FILE.format(
            name=boot["name"],
            cluster=cluster,
            last=len(nodes) - 1,
            software=boot.get("software", ""),
        )
    )
    return load_or_raise(path)


def main(argv: list[str]) -> None:
    world = read()
    os.environ["CORRAL_STATE_DIR"] = world["boot"]["state"]
    if argv[0] == "down":
        asyncio.run(api.down(load_or_raise(folder() / "machines.yaml")))
        return
    cluster = argv[0]
    spec = spec_of(cluster, world)
    asyncio.run(api.up(spec))
    for node in (n for n, i in world["instances"].items() if i["role"] != "login"):
        container = f"corral-{spec.name}-{node}"
        subprocess.run(
            [
                "podman",
                "exec",
                "-i",
                container,
                "/bin/sh",
                "-s",
                node.rpartition("-")[2],
                Path(world["boot"]["key"]).read_text().strip(),
            ],
            input=DRESS.read_text() + rxdm(world),
            text=True,
            check=True,
        )
        address = subprocess.run(
            [
                "podman",
                "inspect",
                "-f",
                "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
                container,
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        with changing() as now:
            now["instances"][node]["address"] = address.strip()


def rxdm(world: dict[str, Any]) -> str:
    """Shell that puts Google's prolog in place: the real one where the test has it."""
    path = world["boot"].get("rxdm", "")
    text = Path(path).read_text() if path else Path(__file__).with_name("rxdm.sh").read_text()
    return f"install_rxdm <<'END-OF-RXDM'\n{text}\nEND-OF-RXDM\n"


if __name__ == "__main__":
    main(sys.argv[1:])
