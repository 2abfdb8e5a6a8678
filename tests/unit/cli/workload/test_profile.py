"""What ``corral profile`` prints about recordings."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console, Group

from corral.cli.workload.profile import profile_view
from corral.jobs.profile.recordings import Recordings, Row

KERNELS = {0: (Row(62.7, 0.048, 1, "vectorized_layer_norm_kernel"),)}


def text_of(recordings: Recordings) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(Group(*profile_view(recordings)))
    return captured.get()


def test_a_table_that_lacks_kernels_reports_it() -> None:
    # Two H200, 2026-11-29: nsys 2023.4.4 with CUDA 13 left out almost all kernels of a training.
    complete = Recordings("32", "/f", (), KERNELS, {}, {})
    assert "kernels are missing" not in text_of(complete)
    partly = replace(complete, incomplete=True)
    assert "kernels are missing from the table" in text_of(partly)
    assert partly.as_dict()["incomplete"] is True
