"""The page of the Python API is the code's."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pytest

import corral
import corral.api
from corral import shards
from corral.api.reference import page
from tests.guide_blocks import Block, run_by

FILE = Path(__file__).parents[3] / "docs/reference/python.md"


def test_the_page_is_current() -> None:
    assert FILE.read_text() == page(), "python -m corral.api.reference > docs/reference/python.md"


def test_every_public_name_is_on_it_once() -> None:
    written = page()
    for name in dir(corral):
        assert written.count(f"\n### corral.{name}\n") == 1
    for name in dir(corral.api):
        value = getattr(corral.api, name)
        documented = inspect.isfunction(value) or inspect.isclass(value)  # not aliases of types
        cells = written.count(f"\n| `{name}(") + written.count(f"\n| `{name}` | ")
        assert cells >= documented, name


def test_a_methods_parameters_are_those_it_takes() -> None:
    written = page()
    method = written.partition("#### Cluster.exec\n")[2].partition("\n#### ")[0]
    assert "`Cluster.exec(command: Sequence[str], nodes: str = '', *, timeout: float = 600.0)" in (
        method
    )
    assert "| `timeout` | seconds until a node is given up. |" in method
    assert "`spec`" not in method


def test_no_signature_has_an_address() -> None:
    assert " at 0x" not in page()


class Saved:
    """A model or an optimizer, by its state."""

    def __init__(self) -> None:
        self.state = {"steps": 0}

    def state_dict(self) -> dict[str, int]:
        return dict(self.state)

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.state = dict(state)


def loader(data: Any, sampler: Any, num_workers: int) -> list[Any]:
    """As PyTorch's calls a data set: by number."""
    assert num_workers
    return [data[index] for index in sampler]


def digits(folder: Path) -> Path:
    """Shards of twenty samples, as ``corral data shard`` writes them."""
    files = folder / "files"
    files.mkdir()
    for number in range(20):
        (files / f"{number:02}.png").write_bytes(bytes([number]))
        (files / f"{number:02}.cls").write_text(str(number % 10))
    out = folder / "digits"
    out.mkdir()
    shards.main(["write", str(files), str(out)])
    return out


EXAMPLES = run_by(__file__, "python")


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_examples_of_modules_for_jobs_run(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in os.environ if n.startswith(("MLFLOW_", "SLURM_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CORRAL_CHECKPOINTS", str(tmp_path / "checkpoints"))
    text = block.text
    if "/shared/data" in text:
        text = text.replace("/shared/data/digits", str(digits(tmp_path)))
        text = text.replace("/local/cache", str(tmp_path / "cache"))
    model, trained = Saved(), list[int]()
    known: dict[str, Any] = {
        "model": model,
        "optimizer": Saved(),
        "epochs": 4,
        "train_one": trained.append,
        "DataLoader": loader,
        "DistributedSampler": lambda data: range(len(data)),
    }
    exec(compile(text, str(block), "exec"), known)  # noqa: S102
    if "Checkpoints" in text:
        assert trained == [0, 1, 2, 3]
        assert known["saved"].load().number == 3
    if "import Shards" in text:
        assert known["label"] in range(10)
    if "import Samples" in text:
        assert len(known["loader"]) == 20


def test_each_module_for_jobs_has_an_example() -> None:
    assert len(EXAMPLES) == 4
