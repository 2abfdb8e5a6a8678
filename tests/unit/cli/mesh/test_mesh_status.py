"""``corral mesh status``: what training over the links is predicted to cost."""

from __future__ import annotations

from typing import Any

import pytest

from corral.api.mesh.tailnet import MeshStatus
from corral.mesh.link import Link
from tests.unit.cli.conftest import Fake, Run, stdout_json

LINK = Link("desk", "rent", "direct", "198.51.100.7:41641", 20.0, 20.0, 1280)
SEEN = MeshStatus("https://headscale.example", "tag:corral-lab", (), (), (LINK,))


def test_a_model_is_predicted_over_each_link(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("mesh_status", SEEN)
    asked = ("mesh", "status", "--parameters", "1M", "--step-ms", "50")
    shown = " ".join(corral(*asked).output.split())
    assert "a step of 50 ms on each node, 4 MB of gradients or weights" in shown
    assert "desk to rent 1620 ms 1670 ms 324 55 ms" in shown
    (over,) = stdout_json(corral(*asked, "--json"))["training"]
    assert over["inner"] == 324
    assert "predicted" not in corral("mesh", "status").output


@pytest.mark.parametrize(
    "options",
    [
        ("--parameters", "1M"),
        ("--step-ms", "50"),
        ("--parameters", "1M", "--step-ms", "50", "--no-links"),
        ("--parameters", "some", "--step-ms", "50"),
    ],
)
def test_half_a_question_is_refused(
    corral: Run, fake: Fake, known: Any, options: tuple[str, ...]
) -> None:
    fake.answer("mesh_status", SEEN)
    done = corral("mesh", "status", *options)
    assert done.exit_code == 2
    assert "such as" in done.output + done.stderr
    assert not fake.calls["mesh_status"]
