"""``./demo``: which cluster file it takes, and what its table states of the training."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from corral.api.config import rehearsal
from corral.providers.containers.gpus import host_gpus

REPO = Path(__file__).parents[2]
SETUP = """\
EMBEDDED_PACKAGES=()
note() { printf '%s\\n' "$*" >&2; }
as_root() { "$@"; }
need_root() { :; }
need_python() { :; }
need_packages() { :; }
need_venv() { :; }
installed() { :; }
"""
CORRAL = """\
#!/bin/sh
echo "$*" >>calls
case $1 in
  init) cp written.yaml "$4" ;;
  image) echo '{"reference": "localhost/corral-node:test"}' ;;
  up) echo '{"proof": {"at": 1, "good": true, "results": [{"verdict": "pass"}]}}' ;;
  status) echo '{"nodes": [{"node": "node0", "usable": true}], "slurm": "24.11.5"}' ;;
  run) echo "0: RESULT {\\"accuracy\\": 0.97, \\"world_size\\": $6, \\"backend\\": \\"gloo\\"}" ;;
esac
"""


def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_table", REPO / ".ci/demo_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo_table"] = module  # its dataclass looks for it
    spec.loader.exec_module(module)
    return module


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose ``corral`` reports success, and installs nothing."""
    program(tmp_path / ".ci/setup.sh", SETUP)
    program(tmp_path / ".venv/bin/corral", CORRAL)
    program(tmp_path / ".venv/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shutil.copy(REPO / ".ci/demo_table.py", tmp_path / ".ci")
    shutil.copy(REPO / "demo", tmp_path)
    shutil.copytree(REPO / "examples", tmp_path / "examples")
    return tmp_path


def run(checkout: Path, gpus: Path, *options: str) -> tuple[list[str], str]:
    """What corral was called with, and what was printed."""
    (checkout / "calls").write_text("")
    done = subprocess.run(
        ["bash", checkout / "demo", *options],
        env=os.environ | {"CORRAL_DEMO_GPUS": str(gpus)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (checkout / "calls").read_text().splitlines(), done.stdout + done.stderr


def known(folder: Path, count: int) -> Path:
    """The driver's folders of so many GPUs."""
    for number in range(count):
        (folder / f"0000:0{number}:00.0").mkdir(parents=True)
        file = folder / f"0000:0{number}:00.0/information"
        file.write_text("Model: \t\t NVIDIA GeForce RTX 4090\n")
    return folder


def test_a_machine_without_gpus_gets_three_nodes_with_stand_ins(checkout: Path) -> None:
    calls, printed = run(checkout, known(checkout / "gpus", 0))
    assert "up examples/laptop.yaml --yes --json" in calls
    trains = "run examples/train_digits.py --cluster examples/laptop.yaml --nodes 3"
    assert f"{trains} --gpus-per-node 1" in calls
    assert not [call for call in calls if call.startswith("init")]
    assert "--nodes 2 --gpus-per-node 2" in printed
    assert printed.count("next:") == 1
    assert "http://127.0.0.1:8765" in printed
    assert "corral ui -c laptop --port 8765" in printed
    assert "CUDA" not in printed


@pytest.mark.parametrize(("count", "more"), [(1, 1), (8, 2)])
def test_nvidia_gpus_are_the_nodes_own(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, count: int, more: int
) -> None:
    gpus = known(checkout / "gpus", count)
    monkeypatch.setattr(host_gpus, "_KNOWN", gpus)
    (checkout / "written.yaml").write_text(rehearsal.starting_file("laptop"))
    calls, printed = run(checkout, gpus)
    assert calls[0] == "init laptop -o .demo/cluster.yaml"
    assert "up .demo/cluster.yaml --yes --json" in calls
    file = ".demo/cluster.yaml"
    trains = f"run examples/train_digits.py --cluster {file} --nodes {count} --gpus-per-node 1"
    assert trains in calls
    assert "the nodes get this machine's NVIDIA GPUs, one each: .demo/cluster.yaml" in printed
    assert f"--nodes {more} --gpus-per-node 1" in printed
    assert "CUDA" in printed

    again, _ = run(checkout, gpus)
    assert not [call for call in again if call.startswith("init")], "the file is kept"
    down, _ = run(checkout, gpus, "--down")
    assert down == ["down .demo/cluster.yaml --yes", "image rm --yes"]
    assert not (checkout / ".demo").exists()


def test_a_file_of_the_users_is_neither_taken_nor_removed(checkout: Path) -> None:
    (checkout / "demo.yaml").write_text("name: production\n")
    assert "down examples/laptop.yaml --yes" in run(checkout, checkout / "gpus", "--down")[0]
    gpus = known(checkout / "gpus", 1)
    (checkout / "written.yaml").write_text(rehearsal.starting_file("laptop"))
    calls, _ = run(checkout, gpus)
    calls += run(checkout, gpus, "--down")[0]
    assert not [call for call in calls if " demo.yaml" in call]
    assert (checkout / "demo.yaml").read_text() == "name: production\n"


def test_a_training_on_cpus_is_named(tmp_path: Path) -> None:
    result = {"accuracy": 0.97, "world_size": 2, "backend": "gloo"}
    log = tmp_path / "train.log"
    log.write_text(f"0: RESULT {json.dumps(result)}\n")
    came = table().came_of_train
    good = "accuracy 97.0% on digits it never saw, PyTorch DDP over 2 nodes"
    assert came(tmp_path, 2, real_gpus=False) == good
    assert came(tmp_path, 2, real_gpus=True).startswith(f"{good}; on CPUs, though the job had GPUs")
    log.write_text(f"0: RESULT {json.dumps(result | {'backend': 'nccl'})}\n")
    assert came(tmp_path, 2, real_gpus=True) == good
    with pytest.raises(ValueError, match="not trained by 3 ranks"):
        came(tmp_path, 3, real_gpus=True)


@pytest.mark.parametrize("broken", ["packages", "venv"])
def test_packages_or_venv_that_fail_end_it_once_both_are_over(checkout: Path, broken: str) -> None:
    both = {"packages": "sleep 0.3; echo packages >>calls", "venv": "echo venv >>calls"}
    both[broken] += "; exit 7"
    setup = "".join(f"need_{name}() {{ {text}; }}\n" for name, text in both.items())
    program(checkout / ".ci/setup.sh", SETUP + setup)
    done = subprocess.run(
        ["bash", checkout / "demo"],
        env=os.environ | {"CORRAL_DEMO_GPUS": str(checkout / "gpus")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("failed with status 7") == 1
    calls = (checkout / "calls").read_text().splitlines()
    assert sorted(calls[:2]) == ["packages", "venv"]
    assert not [call for call in calls if call.startswith(("image", "up"))]
