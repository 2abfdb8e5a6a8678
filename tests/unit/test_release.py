"""Wheel and sdist: the same bytes from one commit, manual pages that read, a bill of materials."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from corral.cli.main import VERBS
from tests.guide_blocks import run_by
from tests.unit.test_repo import FILES

REPO = Path(__file__).parents[2]
TWO_SCREENS = 60
"""Lines of release notes."""
WHENEVER = {"SOURCE_DATE_EPOCH": "1700000000", "LC_ALL": "C", "PATH": os.environ["PATH"]}
"""Half of what a second builder has in common with the first; the rest differs below."""


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPO / f".ci/build/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@dataclass(frozen=True)
class Built:
    source: Path
    wheel: Path
    sdist: Path | None


def built(source: Path, out: Path, *targets: str, umask: int = 0o022, **more: str) -> Built:
    """What hatchling builds there."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out), *targets],
        cwd=source,
        env=WHENEVER | more,
        umask=umask,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Built(source, next(out.glob("*.whl")), next(out.glob("*.tar.gz"), None))


def checkout(place: Path, umask: int, source: Path = REPO) -> Path:
    """The repository's files, new, as a person with this umask has them."""
    for tracked in FILES:
        file = source / tracked.relative_to(REPO)
        copy = place / tracked.relative_to(REPO)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        copy.chmod((0o777 if file.stat().st_mode & 0o100 else 0o666) & ~umask)
    return place


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("first")
    return built(checkout(folder / "corral", 0o022), folder / "dist", TZ="UTC")


@pytest.mark.timeout(900)
def test_two_builds_of_a_commit_are_the_same_bytes(first: Built, tmp_path: Path) -> None:
    """Another folder, owner's umask, time zone, order of sets and time of files."""
    copy = checkout(tmp_path / "another place/of it", 0o077, first.source)
    os.utime(copy / "pyproject.toml", (1, 1))
    second = built(copy, tmp_path / "out", umask=0o077, TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    assert first.sdist is not None
    assert second.sdist is not None
    for archive, again in ((first.wheel, second.wheel), (first.sdist, second.sdist)):
        assert archive.name == again.name
        digests = {hashlib.sha256(file.read_bytes()).hexdigest() for file in (archive, again)}
        assert len(digests) == 1, archive.name


@pytest.mark.timeout(900)
def test_the_sdist_builds_the_same_wheel(first: Built, tmp_path: Path) -> None:
    assert first.sdist is not None
    shutil.unpack_archive(first.sdist, tmp_path)
    unpacked = next(path for path in tmp_path.iterdir() if path.is_dir())
    again = built(unpacked, tmp_path / "out", "-t", "wheel")
    assert again.wheel.read_bytes() == first.wheel.read_bytes()


def documented() -> str:
    """The command of the guide, as one line."""
    (block,) = run_by(__file__, "sh")
    return block.text.strip()


def by_line(line: str, source: Path) -> bytes:
    """The wheel that a line of a shell makes in a checkout, without what this process has set."""
    text = line.replace(".venv/bin/python", sys.executable)
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["sh", "-ec", text], cwd=source, env=known, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next((source / "dist").glob("*.whl")).read_bytes()


@pytest.mark.timeout(900)
def test_the_guides_command_gives_the_bytes_of_the_release(first: Built, tmp_path: Path) -> None:
    """The release is made with the commit's time; hatchling's own time gives other bytes."""
    copy = checkout(tmp_path / "corral", 0o022, first.source)
    when = {
        name: f"{WHENEVER['SOURCE_DATE_EPOCH']} +0000"
        for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")
    }
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run(["git", *who, *words], cwd=copy, env=os.environ | when, check=True)
    line = documented()
    assert f"`{line}`" in (REPO / "CONTRIBUTING.md").read_text()
    assert by_line(line, copy) == first.wheel.read_bytes()
    assert (
        by_line(line.partition(" .venv")[2].join((".venv", "")), copy) != first.wheel.read_bytes()
    )


def test_the_time_of_a_build_is_the_commits(first: Built) -> None:
    with zipfile.ZipFile(first.wheel) as wheel:
        assert {entry.date_time[:3] for entry in wheel.infolist()} == {(2023, 11, 14)}


def test_the_wheel_has_the_pages_and_the_bill(first: Built) -> None:
    with zipfile.ZipFile(first.wheel) as wheel:
        names = wheel.namelist()
        [bill] = [name for name in names if name.endswith(".dist-info/sboms/sbom.cdx.json")]
        assert json.loads(wheel.read(bill)) == module("sbom").bill(REPO)
    pages = [name for name in names if re.search(r"\.data/data/share/man/man1/[a-z-]+\.1$", name)]
    assert len(pages) == len(module("manual").pages(reference(), "0"))


def reference() -> str:
    return (REPO / "docs/reference/cli.md").read_text()


def test_each_command_has_a_page() -> None:
    pages = module("manual").pages(reference(), "0.1.0")
    assert {f"corral-{verb}.1" for verb in VERBS} | {"corral.1"} <= pages.keys()
    assert len(pages) == reference().count("```text\nUsage: ") + 1
    run = pages["corral-run.1"]
    assert run.startswith(
        '.TH CORRAL\\-RUN 1 "" "corral 0.1.0" "Corral"\n.SH NAME\ncorral\\-run \\- '
    )
    assert "\\fB\\-N, \\-\\-nodes N\\fR\nNumber of nodes." in run
    assert ".SH EXAMPLES\n.nf\ncorral run train.py" in run
    for name in (
        "CORRAL_SUDO_PASSWORD_FILE",
        "TAILSCALE_OAUTH_CLIENT_SECRET",
        "RUNPOD_GUARD_API_KEY",
    ):
        assert name in pages["corral.1"]
    assert ".BR corral\\-bench\\-run (1)" in pages["corral-bench.1"]
    assert ".BR corral\\-bench (1)" in pages["corral-bench-run.1"]
    assert "corral-ui-token-create.1" in pages


def complaints(page: Path) -> str:
    """What the formatters that are here have against a page."""
    printed = ""
    for program in (
        ["groff", "-man", "-Kutf8", "-Tutf8", "-ww"],
        ["mandoc", "-T", "lint", "-W", "warning"],
    ):
        if shutil.which(program[0]):
            done = subprocess.run([*program, str(page)], capture_output=True, text=True)
            printed += done.stderr + (done.stdout if program[0] == "mandoc" else "")
    return printed


@pytest.mark.skipif(
    not (shutil.which("groff") or shutil.which("mandoc")), reason="neither groff nor mandoc here"
)
def test_pages_read_without_a_warning(tmp_path: Path) -> None:
    files = module("manual").write(tmp_path, "0.1.0")
    assert {file.name: text for file in files if (text := complaints(file))} == {}
    broken = tmp_path / "broken.1"
    broken.write_text(files[0].read_text().replace(".SH NAME", ".SHH NAME\n\\fX\\s"))
    assert complaints(broken)


def test_no_text_of_the_reference_is_a_request_of_roff() -> None:
    """A line that begins with a dot or has a backslash would be read as a command."""
    usage = "Usage: corral x\n\n  .so /etc/passwd \\n.\n\nOptions:\n  .de  'x"
    hostile = f"## corral x\n\n```text\n{usage}\n```\n"
    head, _, _ = reference().partition("\n## corral ")
    page = module("manual").pages(f"{head}\n{hostile}", "0")["corral-x.1"]
    assert "\n.so" not in page
    assert "\n.de" not in page
    assert "\\&.so /etc/passwd \\en." in page


def test_the_bill_names_what_the_locks_name() -> None:
    bill = module("sbom").bill(REPO)
    pinned = re.findall(
        r"^([\w.-]+)==([^\s;]+)", (REPO / "requirements.lock").read_text(), re.MULTILINE
    )
    python = [c for c in bill["components"] if c["purl"].startswith("pkg:pypi/")]
    named = [(c["name"], c["version"]) for c in python]
    assert named[: len(pinned)] == pinned
    locks = [*(REPO / "src/corral/roles").rglob("*.lock")]
    wheels = {
        (name.replace("_", "-").lower(), version)
        for lock in locks
        for name, version in re.findall(r"^([^-\s]+)-([^-\s]+)-\S+\.whl ", lock.read_text(), re.M)
    }
    assert len(locks) > 1 and wheels <= {(name.lower(), version) for name, version in named}
    assert all(any(p["name"] == "corral:file-sha256" for p in c["properties"]) for c in python)
    refs = [c["bom-ref"] for c in bill["components"]]
    assert len(set(refs)) == len(refs)
    assert bill["dependencies"][0]["dependsOn"] == refs
    assert module("sbom").text(REPO) == module("sbom").text(REPO)


def test_the_bill_names_each_vendored_file() -> None:
    sbom = module("sbom")
    named = {
        part["name"]: part["hashes"][0]["content"]
        for component in sbom.bill(REPO)["components"]
        for part in component.get("components", ())
    }
    vendored = [f for f in (REPO / sbom.VENDOR).iterdir() if f.suffix in {".mjs", ".js", ".css"}]
    vendored += [f for f in (REPO / sbom.ASSETS).iterdir() if f.name != "versions.js"]  # our own
    assert named == {
        file.relative_to(REPO).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in vendored
    }


def test_no_step_of_this_release_was_forgotten() -> None:
    """CONTRIBUTING.md, "A release": steps 1 to 3."""
    version = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["version"]
    changelog = (REPO / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.M)
    assert (REPO / f"tests/recorded/cluster_file/{version}.json").is_file()
    assert list((REPO / f"tests/corpora/cluster_files/{version}").glob("*.yaml"))
    pages = "".join(page.read_text() for page in sorted((REPO / "docs/guide").glob("*.md")))
    named = re.findall(r"corral-(\d+\.\d+\.\d+)(?:-py3-none-any\.whl|\.tar\.gz)", pages)
    assert named and set(named) == {version}
    _, unreleased, notes, *_ = re.split(r"^## ", changelog, flags=re.M)
    in_short = notes.partition("\n### Added")[0]
    assert "### In short" in in_short
    assert len(in_short.splitlines()) <= TWO_SCREENS
    if "\n* " not in unreleased:
        kept = json.loads((REPO / f"tests/recorded/cluster_file/{version}.json").read_text())
        assert kept == runpy.run_path(str(REPO / ".ci/file_format.py"))["record"]()
