"""``corral reap`` against simulated clouds over HTTP: ends what is Corral's, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from corral.providers.cloud.model import Label
from corral.testing.clouds import SIMS, Machine, Sim
from corral.testing.clouds.server import CloudServer

KEY = "sim-key-0123456789"


def rent(sim: Sim, name: str) -> None:
    more = {"hostname": "x", "tags": [], "keys": ["k"], "systems": []}
    kind = ("gpu_1x_a10", "us-west-1", 0.75)
    sim.rent(Machine(sim.identity("i"), name, *kind, sim.now(), 1, more=more))


def test_reap_ends_what_nobody_knows_and_leaves_the_rest(tmp_path: Path) -> None:
    sims = {n: make(key=KEY, boot_s=0, end_s=1, limits={}) for n, make in SIMS.items()}
    for name in (Label("lost", "gpu0", "00000a").name, Label("lost", "gpu1", "00000b").name):
        rent(sims["lambda"], name)
    rent(sims["lambda"], "my-own-box")
    # Its pods bear names of RunPod's own: only the cluster's name shows whose they are.
    compute = {"gpuTypeId": "NVIDIA H100 80GB HBM3", "gpuCountPerPod": 1, "podCount": 2}
    for name in (Label("lost", "pods", "00000c").name, "somebody-elses"):
        sims["runpod"]._create_cluster(  # type: ignore[attr-defined]
            {"name": name, "type": "TRAINING", "image": "x", "compute": compute}
        )
    server = CloudServer(sims)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environ = {**os.environ, "CORRAL_STATE_DIR": str(tmp_path)}
    for name in SIMS:
        environ |= {f"{name.upper()}_API_KEY": KEY, f"CORRAL_{name.upper()}_URL": server.url(name)}

    def corral(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "corral", *words]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    try:
        status, shown = corral("reap", "--dry-run", "--json")
        (cluster,) = json.loads(shown)["clusters"]
        assert status == 1 and len(cluster["instances"]) == 4 and len(cluster["extras"]) == 1
        assert len(sims["lambda"].alive()) == 3
        status, shown = corral("reap", "--yes")
        assert status == 0 and "show nothing any more" in shown
        assert [m.name for m in sims["lambda"].alive()] == ["my-own-box"]
        assert len(sims["runpod"].alive()) == 2
        assert [c["name"] for c in sims["runpod"].clusters.values()] == ["somebody-elses"]  # type: ignore[attr-defined]
        assert corral("reap")[0] == 0
    finally:
        server.shutdown()
