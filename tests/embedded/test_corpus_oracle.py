"""Real slurmctld of four releases over 117 public configurations: it and ``lint --existing`` agree.

As each file is: what slurmctld dies of has a finding, and where it comes up no finding claims that
it refuses to start. As ``--fix`` leaves it: the same, so what still stops it was reported.

The releases before and after the node image's come from the host's own archive (slow); images that
were made are kept as localhost/corral-test-slurm:SUITE.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.corpus_sites import stage
from tests.embedded.test_conf_oracle import image, missing, podman, run
from tests.unit.slurm.adopt.corpus import real

from corral.api.config.adoption import lint_existing
from corral.providers.containers import archive
from corral.slurm.version import SlurmVersion
from corral.spec.findings import Finding

__all__ = ["image"]
pytestmark = pytest.mark.embedded

PROGRAMS = Path(__file__).with_name("programs")
CASES = {case.name: case for case in real()}
PARTS = 3
"""With three the file's slow tests are few enough to stay in one part of the rotation, which makes
the images of the other releases once (tests/rotation.py)."""
OTHER = ("bullseye", "bookworm", "sid")
PACKAGES = "slurmctld,slurmdbd,munge,mariadb-server,python3,iproute2"
MAKE = (
    'mmdebstrap --quiet --variant=minbase --aptopt="$1" --include="$2" "$3" - "$4"'
    ' | podman import -q - "$5"'
)

# What slurmctld logs before it ends, and the rules that report it. {key}: the finding names it.
EXPLAINED = (
    (r"unrecognized key: (?P<key>\w+)", "removed-key unknown-key key-too-new defunct-key"),
    (r"The (?P<key>\w+) option has been removed", "obsolete-key"),
    (r"(?P<key>SallocDefaultCommand) has been removed", "obsolete-key"),
    (r"Support for (?P<key>\w+)(=yes in cgroup.conf| option) has been removed", "obsolete-key"),
    (r"Invalid parameter (?P<key>MemLimitEnforce)", "obsolete-key"),
    (r"Use of (?P<key>FrontendName)", "obsolete-key"),
    (r"Bad (?P<key>TaskPluginParam):", "value-unknown"),
    (r"Bad SelectTypeParameter: ", "value-unknown"),
    (r"plugin for (\w+/)?cons_res|cons_res", "select-type"),
    (
        r"cannot (find accounting_storage plugin|create accounting_storage context) for",
        "accounting",
    ),
    (r"cannot (find \w+ plugin|create \w+ context) for ", "value-unknown"),
    (r"Munge encode failed: Failed to access", "password-readable"),
    (r"only permitted in SlurmDBD", "accounting"),
    (r"slurmdbd is required|you can only run with certain TRES", "accounting"),
    (r"NodeAddr count must equal that of NodeName", "node-names"),
    (r"ClusterName needs to be specified", "cluster-name-missing"),
    (r"No SlurmctldHost defined", "controller-spelling"),
    (r"You need at least CR_", "values-refused"),
    (r"No (Partition|Node)Name information|no nodes configured", "values-refused partition-nodes"),
    (r"Invalid node names in partition|lookup failure for node", "partition-nodes"),
    (r"duplicate entry for partition", "partition-twice"),
    (r"Partition \S+ has an invalid qos", "partition-qos"),
    (r"(cannot stat|unable to status) file \S+topology.conf", "values-refused"),
    (r"(cannot stat|unable to status) file", "include-lost"),
    (r"Invalid range|Unable to create Node", "node-names"),
    (r"is not a valid number", "wrong-type"),
    (r"SelectTypeParameters.*NONE", "values-refused"),
)
# What the test's machine lacks: plugins of other packages, a second munge, another port.
MACHINE = re.compile(
    r"Still don't know my ClusterID|no TRES from it|slurmdbd and/or database must be up|tres_cnt"
    r"|plugin for auth/jwt|auth context for auth/jwt|mpi/pmix_v|plugin name for job_submit/lua"
)
# Levels of other rules mean that jobs come to harm, not that slurmctld refuses.
REFUSES = frozenset(word for _, rules in EXPLAINED for word in rules.split()) - {
    "include-lost",
    "node-names",
    "password-readable",
    "wrong-type",  # 20.11 takes Sockets=WORD for 0
}


def causes(lines: list[str]) -> list[str]:
    """The lines that give the cause of its end: the last ``fatal:``, else the errors before it."""
    fatal = [line for line in lines if line.startswith("fatal: ")]
    if fatal and "Unable to process configuration" not in fatal[-1] and "plugin" not in fatal[-1]:
        return [fatal[-1], *lines[:-1]]
    return lines


def explained(line: str, findings: tuple[Finding, ...]) -> bool:
    for pattern, rules in EXPLAINED:
        match = re.search(pattern, line)
        if match is None:
            continue
        key = match.groupdict().get("key") or ""
        return any(
            f.rule in rules.split() and (not key or key.lower() in f.where.lower())
            for f in findings
        )
    return False


def known(line: str) -> bool:
    return any(re.search(pattern, line) for pattern, _ in EXPLAINED)


def disagreements(answer: dict[str, Any], folder: Path, release: str) -> Iterator[str]:
    """Where slurmctld and Corral differ on one configuration."""
    findings = lint_existing([folder], version=release).findings
    lines: list[str] = answer["lines"]
    # Each key that it does not read is reported, whatever became of the rest.
    for line in lines:
        if "unrecognized key" in line and not explained(line, findings):
            yield f"not reported: {line}"
    if answer["state"] == "up":
        for finding in findings:
            if finding.level.value == "error" and finding.rule in REFUSES:
                yield f"comes up, and Corral reports {finding.rule}: {finding.message}"
        return
    if any(MACHINE.search(line) for line in lines):
        return
    about = [line for line in causes(lines) if known(line)]
    if not about or not any(explained(line, findings) for line in about):
        yield f"{answer['state']}, not reported: {(about or lines)[-3:]}"


def compared(image: str, names: list[str], where: Path) -> tuple[dict[str, int], list[str]]:
    """How many came up, died or wait, and the disagreements."""
    release = str(SlurmVersion.parse(run(image, "slurmctld -V")).release)
    stage([CASES[name] for name in names], release, where)
    where.chmod(0o755)  # pytest's folder is root's alone, slurmctld runs as SlurmUser
    out = podman(
        "run",
        "--rm",
        "--network",
        "none",
        "--privileged",
        "--hostname",
        "judge",
        "--ulimit",
        "nofile=8192:8192",
        "--ulimit",
        "nproc=8192:8192",
        "--volume",
        f"{where}:/cases",
        "--volume",
        f"{PROGRAMS}:/programs:ro",
        "--entrypoint",
        "python3",
        image,
        "/programs/start_slurmctld.py",
        "/cases",
    )
    answers = [json.loads(line) for line in out.stdout.splitlines()]
    assert len(answers) == sum(1 for _ in where.iterdir()), out.stderr[-2000:]
    states: dict[str, int] = {}
    differences: list[str] = []
    for answer in answers:
        states[answer["state"]] = states.get(answer["state"], 0) + 1
        texts = disagreements(answer, where / answer["case"], release)
        differences += [f"{answer['case']} ({release}): {text}" for text in texts]
    return states, differences


@pytest.fixture(scope="module", params=OTHER)
def other_image(request: pytest.FixtureRequest) -> str:
    """An image with another release's Slurm."""
    if missing() or not shutil.which("mmdebstrap"):
        pytest.skip(missing() or "mmdebstrap is not installed")
    host = archive.host_release()
    if host.get("ID") != "debian":
        pytest.skip("other releases of Slurm come from a Debian host's archive")
    name = f"localhost/corral-test-slurm:{request.param}"
    if podman("image", "exists", name).returncode:
        sources = archive.for_suite(
            archive.host_sources(), host["VERSION_CODENAME"], request.param, {"": ("main",)}
        )
        # The development release's index expires within days; it is not installed anywhere.
        made = subprocess.run(
            [
                "sh",
                "-c",
                MAKE,
                "sh",
                'Acquire::Check-Valid-Until "false"',
                PACKAGES,
                request.param,
                sources[0].line(),
                name,
            ],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        if made.returncode:
            pytest.skip(f"no image of {request.param}: {made.stderr[-300:]}")
    return name


def agree(image: str, names: list[str], where: Path) -> dict[str, int]:
    """How slurmctld ended for each; no disagreement."""
    states, differences = compared(image, names, where)
    assert not differences, "\n".join(differences)
    print(f"{len(names)} configurations: {states}")
    return states


def test_slurmctld_and_lint_agree(image: str, tmp_path: Path) -> None:
    """Some of the part of the corpus that was kept apart."""
    held = [name for name, case in CASES.items() if case.held]
    states = agree(image, held[::4], tmp_path)
    assert states["up"] >= 5 and states["died"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_slurmctld_and_lint_agree_on_all(image: str, tmp_path: Path, part: int) -> None:
    states = agree(image, list(CASES)[part::PARTS], tmp_path)
    assert states["up"] >= 25


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_other_releases_and_lint_agree(other_image: str, tmp_path: Path, part: int) -> None:
    states = agree(other_image, list(CASES)[part::PARTS], tmp_path)
    assert states["up"] >= 17
