"""Hints about drivers are followed: they lead to a file and a machine that are accepted."""

from __future__ import annotations

import itertools
import re

import pytest

from corral.errors import CorralError
from corral.roles.machine import nvidia as role
from corral.spec.load import load_text
from corral.spec.sections.software import Nvidia
from tests.unit.roles.machine.test_nvidia import (
    GTX1080,
    HGX_B200,
    HGX_B300,
    HGX_H200,
    RTX4090,
    RTX5090,
    SYSTEMS,
    site,
)

DRIVERS = ("auto", "535", "550-open", "550-server", "570", "580", "580-open", "580-server-open")
CUDAS = ("none", "distribution", "12.4", "12.8", "12.9", "13.0")
GPUS = ("rtx5090", "b200", "b300", "h100", "gtx1080", "rtx4090")
REPO = {
    "source": "vendor",
    "vendor_repo": "https://repository.example/cuda-keyring_1.1-1_all.deb",
    "vendor_sha256": "0" * 64,
}
OF_DRIVERS = ("driver-flavour", "cuda-source", "cuda-driver", "cuda-gpu", "vendor-repo")


def followed(hint: str, what: dict[str, str], field: str = "") -> dict[str, str]:
    """The section after a user follows the first alternative of the hint."""
    advice = re.split(r"; or |, or ", hint)[0]
    changed = dict(what)
    if match := re.search(r"driver: ([a-z0-9-]+)", advice) or (
        re.fullmatch(r"write ([0-9a-z-]+)", advice) if field.endswith("driver") else None
    ):
        changed["driver"] = match[1]
    if match := re.search(r'cuda: "?([a-z0-9.]+)"?', advice):
        changed["cuda"] = match[1]
    if "source: vendor" in advice:
        changed["source"] = "vendor"
    return changed


def judged(gpus: tuple[str, ...], what: dict[str, str]) -> list[tuple[str, str, str]]:
    text = "corral: v1\nname: lab\ngroups:\n"
    for i, gpu in enumerate(gpus):
        text += (
            f"- {{name: g{i}, provider: ssh, nodes: n{i}, addresses: 10.0.0.{i + 1}, "
            f"gpu: {{type: {gpu}, count: 1}}}}\n"
        )
    text += "software:\n  nvidia:\n"
    text += "".join(f'    {key}: "{value}"\n' for key, value in what.items())
    findings = load_text(text, "lab.yaml").findings
    unread = [f for f in findings if f.rule.startswith("field")]
    assert unread == []
    return [(f.rule, f.hint, f.where) for f in findings if f.rule in OF_DRIVERS]


@pytest.mark.parametrize(
    "gpu", [*((g,) for g in GPUS), ("rtx5090", "h100"), ("rtx4090", "gtx1080")]
)
@pytest.mark.parametrize("source", ["distribution", "vendor", "vendor and repo"])
def test_no_hint_of_lint_leads_to_another_error(gpu: tuple[str, ...], source: str) -> None:
    seen = 0
    for driver, cuda in itertools.product(DRIVERS, CUDAS):
        what = {"driver": driver, "cuda": cuda, "source": source.partition(" ")[0]}
        what |= REPO if source == "vendor and repo" else {}
        first = judged(gpu, what)
        for _, hint, field in first:
            what = followed(hint, what, field)
        seen += len(first)
        assert judged(gpu, what) == [], (driver, cuda, first, what)
    assert seen > 0


def test_gpus_without_a_common_driver_are_reported() -> None:
    [(rule, hint, _), *_] = judged(("rtx5090", "gtx1080"), {"driver": "580-open"})
    assert rule == "driver-flavour"
    assert hint.startswith("write none and install drivers by hand")
    assert judged(("rtx5090", "gtx1080"), {"driver": "none"}) == []


def outcome(system: str, pci: tuple[str, ...], what: Nvidia, secure_boot: bool) -> str:
    cluster = site(system, pci, what, 1, secure_boot=secure_boot)
    node = next(n for n in cluster.nodes if n.name == "gpu0")
    try:
        role.choose(cluster, node)
    except CorralError as error:
        return error.hint
    return ""


BY_HAND = ("firmware", "by hand")
PCI = {
    "blackwell": RTX5090,
    "ada": RTX4090,
    "pascal": GTX1080,
    "hgx": HGX_H200,
    "b200": HGX_B200,
    "b300": HGX_B300,
}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("pci", PCI)
@pytest.mark.parametrize("secure_boot", [False, True])
def test_no_hint_for_a_machine_leads_to_another_error(
    system: str, pci: str, secure_boot: bool
) -> None:
    for driver, source in itertools.product(DRIVERS, ("distribution", "vendor")):
        what = {"driver": driver} | (REPO if source == "vendor" else {})
        hint = outcome(system, PCI[pci], Nvidia.model_validate(what), secure_boot)
        if not hint or any(words in hint for words in BY_HAND):
            continue
        fixed = Nvidia.model_validate(followed(hint, what))
        then = outcome(system, PCI[pci], fixed, secure_boot)
        assert not then or (any(words in then for words in BY_HAND) and "vendor" in hint), (
            what,
            hint,
            fixed,
            then,
        )
        assert not (then and not secure_boot)
