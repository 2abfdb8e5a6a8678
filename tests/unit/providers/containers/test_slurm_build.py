from __future__ import annotations

from pathlib import Path

import pytest

from corral.providers import slurm_build
from corral.providers.containers import image_build


def test_an_image_that_is_built_at_the_same_time_leaves_the_work_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of build sweeps under its own lock, so only what is its own."""
    monkeypatch.setattr(image_build.shutil, "which", lambda name: f"/usr/bin/{name}")
    with image_build.bench(tmp_path, 0, {}, slurm_build.WORK_PREFIX) as at:
        (at.work / "tmp" / "half").touch()
        image_build.sweep(tmp_path)
        assert (at.work / "tmp" / "half").exists()
        with image_build.bench(tmp_path, 0, {}) as image:
            image_build.sweep(tmp_path, slurm_build.WORK_PREFIX)
            assert image.work.exists()
            assert not at.work.exists(), "its own that a killed build left"
            at.work.mkdir()  # for the end of the first bench
