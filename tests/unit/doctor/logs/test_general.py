"""Messages that many causes print: such a finding comes after every other, and hides none."""

from __future__ import annotations

import re

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.logs.diagnosis import explain
from corral.doctor.model import Pattern, Severity

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
    assert [diagnosis.failure.id for diagnosis in report.findings] == [failure]
    assert report.findings[0].general
    assert report.findings[0].severity is Severity.SYMPTOM
    assert report.findings[0].as_dict()["severity"] == "symptom"
    assert "frobnicator" in "".join(line.text for line in report.unknown)


@pytest.mark.parametrize(("cause", "text"), CAUSES)
def test_next_to_a_specific_message_it_is_hidden(cause: str, text: str) -> None:
    assert [diagnosis.failure.id for diagnosis in explain(text).findings] == [cause]
    backwards = "\n".join(reversed(text.split("\n")))
    assert [diagnosis.failure.id for diagnosis in explain(backwards).findings] == [cause]


def test_a_general_finding_hides_no_cause() -> None:
    """F76 hides F106 where it is sure; found by a general message it does not."""
    assert "F106" in catalog()["F76"].hides
    text = "No devices were found\nomegaconf.errors.ConfigKeyError: no such key"
    assert [diagnosis.failure.id for diagnosis in explain(text).findings] == ["F106"]


# Words that show that something failed, and not why.
FAILING = frozenset(
    {
        *("fail", "fails", "failed", "failure", "failing", "error", "errors", "fatal", "unable"),
        *("can", "could", "not", "be", "is", "are", "was", "has", "to", "invalid", "bad", "exit"),
        *("exited", "status", "with", "missing", "unknown", "unsupported"),
    }
)
# What the kernel and the C library print for one number each, whatever brought it about.
ERRNO = (
    *("no space left on device", "permission denied", "operation not permitted"),
    *("no such file or directory", "connection refused", "connection timed out"),
    *("no route to host", "network is unreachable", "cannot allocate memory", "invalid argument"),
    *("input/output error", "stale (?:nfs )?file handle", "device or resource busy"),
    *("function not implemented", "broken pipe", "read-only file system", "file exists"),
    *("no such device", "address already in use", "connection reset by peer"),
)
CLAIMS_NO_MORE = re.compile(
    r"\b(?:fails?|failed|failing|errors?|cannot|could not|refuse[sd]?|does not \w+)\b"
)
SURE = [
    pytest.param(failure.title, pattern, id=f"{failure.id}: {pattern.text}")
    for failure in catalog().values()
    for pattern in failure.patterns
    if failure.severity is Severity.ERROR
    and not (pattern.general or failure.needs or failure.stated)
]


def names_only_the_failure(text: str) -> bool:
    """True for ``X.*(?:fail|error)``: no word after the gap gives a reason."""
    head, gap, tail = text.rpartition(".*")
    words = re.findall(r"[a-z]{2,}", re.sub(r"\\[swdb]|\[[^\]]*\]", " ", tail.lower()))
    return bool(head and gap and words) and set(words) <= FAILING and not re.search(r"\d", tail)


@pytest.mark.parametrize(("title", "pattern"), SURE)
def test_a_message_that_gives_no_reason_is_general(title: str, pattern: Pattern) -> None:
    """Such a pattern may be the only one for a title that claims no more than it does."""
    assert pattern.text.strip("^ ") not in ERRNO
    if names_only_the_failure(pattern.text):
        assert CLAIMS_NO_MORE.search(title), title
