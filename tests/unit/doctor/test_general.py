"""Messages that many causes print: such a finding stands behind every other, and hides none."""

from __future__ import annotations

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.diagnosis import explain
from corral.doctor.model import Severity

GENERAL = [
    (failure.id, pattern.text)
    for failure in catalog().values()
    for pattern in failure.patterns
    if pattern.general
]
ALONE = (
    ("F76", "No devices were found"),
    ("F76", "RuntimeError: No CUDA GPUs are available"),
    ("F178", "ERROR: Failed building wheel for flash-attn"),
    (
        "F92",
        "srun: error: Unable to allocate resources: Requested node configuration is not available",
    ),
    ("F15", "error: unable to create freezer cgroup namespace"),
)
CAUSES = (
    (
        "F118",
        "Lockdown: systemd-udevd: unsigned module loading is restricted\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ),
    (
        "F109",
        "The detected CUDA version (12.2) mismatches the version that was used to compile\n"
        "ERROR: Failed building wheel for flash-attn",
    ),
    (
        "F343",
        "libmlx5.so.1: version `MLX5_1.20' not found\n"
        "No components were able to be opened in the pml framework.",
    ),
)


def test_there_are_general_messages() -> None:
    assert len(GENERAL) > 20


@pytest.mark.parametrize(("failure", "text"), ALONE)
def test_alone_it_is_shown_with_the_fatal_lines_and_is_no_cause(failure: str, text: str) -> None:
    report = explain(f"{text}\nmyprog: fatal: the frobnicator is not aligned")
    assert [one.failure.id for one in report.findings] == [failure]
    assert report.findings[0].general
    assert report.findings[0].severity is Severity.SYMPTOM
    assert report.findings[0].as_dict()["severity"] == "symptom"
    assert "frobnicator" in "".join(line.text for line in report.unknown)


@pytest.mark.parametrize(("cause", "text"), CAUSES)
def test_next_to_a_specific_message_it_is_hidden(cause: str, text: str) -> None:
    assert [one.failure.id for one in explain(text).findings] == [cause]
    backwards = "\n".join(reversed(text.split("\n")))
    assert [one.failure.id for one in explain(backwards).findings] == [cause]


def test_a_general_finding_hides_no_cause() -> None:
    """F76 hides F106 where it is sure; found by a general message it does not."""
    assert "F106" in catalog()["F76"].hides
    text = "No devices were found\nomegaconf.errors.ConfigKeyError: no such key"
    assert [one.failure.id for one in explain(text).findings] == ["F106"]
