"""Which recipe a host builds, from where, and that nothing comes unverified."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.events import Emit, Event, ignore
from corral.hosts import quote
from corral.hosts.process import Ended
from corral.providers.containers import (
    archive,
    image,
    image_build,
    recipe,
)
from corral.providers.containers.archive import Source
from corral.providers.containers.image_build import Bench, require_programs
from corral.providers.containers.podman import Podman

UBUNTU = tuple(
    Source("http://archive.example/ubuntu", s, ("main", "universe"), "/keys/ubuntu.gpg")
    for s in ("jammy", "jammy-updates", "jammy-security")
)
DEBIAN = (Source("http://archive.example/debian", "bookworm", ("main",), "/keys/debian.gpg"),)
MIRROR = "http://mirror.example/debian"


class Archives:
    """mmdebstrap with these archives: by suite, the part of a keyring's path that verifies it."""

    def __init__(
        self, verified: Mapping[str, str], code: Code = Code.IMAGE_FAILED, mirrors: bool = True
    ) -> None:
        self.verified, self.code, self.mirrors = verified, code, mirrors
        self.calls: list[list[str]] = []

    def _defaults(self, hook: str, root: Path) -> None:
        """What mmdebstrap does with a setup hook, and it writes the host's keyring into it."""
        if self.mirrors:
            (root / "etc/apt").mkdir(parents=True)
            (root / "etc/apt/sources.list").write_text(
                "".join(
                    f'deb [signed-by="/old.gpg"] {MIRROR} {s} main\n'
                    for s in ("trixie", "trixie-updates", "trixie-security")
                )
            )
            done = subprocess.run(["/bin/sh", hook, str(root)], check=False, timeout=20)
            assert done.returncode == 1, "the hook ends mmdebstrap before it asks the network"
        raise CorralError(Code.IMAGE_FAILED, "setup hook failed", tail="E: no such suite")

    async def __call__(self, argv: Sequence[str], at: Bench, emit: Emit, limit: float = 0) -> None:
        plain = [a for a in argv[1:] if not a.startswith("--")]
        suite, root = plain[0], Path(plain[1])
        for hook in (a.partition("=")[2] for a in argv if a.startswith("--setup-hook")):
            self._defaults(hook, root)
        self.calls.append(list(argv))
        (keyring,) = (a.removeprefix("--keyring=") for a in argv if a.startswith("--keyring="))
        if self.verified.get(suite) not in Path(keyring).parts:
            raise CorralError(
                self.code, "mmdebstrap could not", tail=f"Get:1\nW: GPG\nE: {suite} is not signed"
            )
        keys = root / "usr/share/keyrings"
        keys.mkdir(parents=True)
        (keys / "debian-archive-keyring.gpg").touch()


def host(tmp_path: Path, *, keyring: bool = True) -> recipe.Host:
    keys = tmp_path / "host" / "usr" / "share" / "keyrings" / "debian-archive-keyring.gpg"
    keys.parent.mkdir(parents=True)
    if keyring:
        keys.touch()
    return recipe.Host("ubuntu", "jammy", UBUNTU, keys)


def find(
    monkeypatch: pytest.MonkeyPatch, here: recipe.Host, archives: Archives, tmp_path: Path
) -> tuple[recipe.Supply, list[str]]:
    monkeypatch.setattr(image_build, "mmdebstrap", archives)
    notes: list[str] = []

    def emit(event: Event) -> None:
        notes.append(event.message)

    recipes = recipe.recipes_for(here.os_id)
    return asyncio.run(recipe.find(recipes, here, Bench(tmp_path, 0, {}), emit)), notes


def test_debian_host_asks_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archives = Archives({})
    here = recipe.Host("debian", "bookworm", DEBIAN)
    chosen, notes = find(monkeypatch, here, archives, tmp_path)
    assert chosen.recipe is recipe.recipes()["debian"]
    assert [s.line() for s in chosen.sources] == ["deb http://archive.example/debian trixie main"]
    assert chosen.keyring == Path("/keys/debian.gpg")
    assert (archives.calls, notes) == ([], [])


def test_ubuntu_host_builds_debian(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archives = Archives({"trixie": "host"})
    chosen, _ = find(monkeypatch, host(tmp_path), archives, tmp_path)
    assert chosen.recipe is recipe.recipes()["debian"]
    assert [s.line() for s in chosen.sources] == [
        f"deb {MIRROR} {s} main" for s in ("trixie", "trixie-security", "trixie-updates")
    ], "mmdebstrap's own mirror, without its signed-by"
    assert chosen.keyring is not None
    assert chosen.keyring.is_relative_to(tmp_path / "by-host"), (
        "Debian's own keys, not the old ones"
    )
    assert len(archives.calls) == 1


@pytest.mark.parametrize("keyring", [True, False])
def test_old_keys_are_renewed_through_the_hosts_own_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keyring: bool
) -> None:
    archives = Archives({recipe.newer_suite(): "ubuntu.gpg", "trixie": "newer"})
    chosen, _ = find(monkeypatch, host(tmp_path, keyring=keyring), archives, tmp_path)
    assert chosen.recipe is recipe.recipes()["debian"]
    assert chosen.keyring is not None
    assert chosen.keyring.is_relative_to(tmp_path / "by-newer")
    bridge = archives.calls[-2]
    assert bridge[-1] == f"deb http://archive.example/ubuntu {recipe.newer_suite()} universe"
    assert "--keyring=/keys/ubuntu.gpg" in bridge


@pytest.mark.parametrize("code", [Code.IMAGE_FAILED, Code.TIMED_OUT])
@pytest.mark.parametrize("bridge", ["ubuntu.gpg", "nobody"])
def test_without_debian_it_is_the_hosts_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: Code, bridge: str
) -> None:
    archives = Archives({recipe.newer_suite(): bridge}, code)
    chosen, notes = find(monkeypatch, host(tmp_path), archives, tmp_path)
    assert chosen.recipe is recipe.recipes()["ubuntu"]
    assert [s.suite for s in chosen.sources] == ["noble", "noble-security", "noble-updates"]
    assert chosen.keyring == Path("/keys/ubuntu.gpg")
    reasons = "trixie is not signed"
    if bridge == "nobody":
        reasons += f"; nor the keys of {recipe.newer_suite()}: {recipe.newer_suite()} is not signed"
    assert notes[-2] == f"debian trixie is not available here: {reasons}"
    assert "without PyTorch" in notes[-1]


def test_mmdebstrap_that_knows_no_such_suite(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen, notes = find(monkeypatch, host(tmp_path), Archives({}, mirrors=False), tmp_path)
    assert chosen.recipe is recipe.recipes()["ubuntu"]
    assert "no such suite" in notes[-2]


@pytest.mark.parametrize("blind", [False, True])
def test_nothing_is_taken_unverified(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blind: bool
) -> None:
    for k, verified in enumerate(({}, {recipe.newer_suite(): "ubuntu.gpg", "trixie": "newer"})):
        archives = Archives(verified)
        here = host(tmp_path / str(k))
        here = replace(here, sources=tuple(replace(s, trusted=blind) for s in here.sources))
        find(monkeypatch, here, archives, tmp_path / str(k))
        assert archives.calls
        for argv in archives.calls:
            assert any(a.startswith("--keyring=/") for a in argv)
            assert not [a for a in argv if "trusted" in a.lower() or "insecure" in a.lower()]


def test_other_errors_are_no_reason_to_fall_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(CorralError) as caught:
        find(monkeypatch, host(tmp_path), Archives({}, Code.MISSING_TOOL), tmp_path)
    assert caught.value.code is Code.MISSING_TOOL


def test_the_build_names_keys_and_leaves_the_machine_id_empty() -> None:
    job = image_build.Build(
        "trixie", ("apt",), (), DEBIAN, Path("/k.gpg"), quote.sh(""), quote.sh("")
    )
    argv = job.argv(Path("/w"))
    assert "--keyring=/k.gpg" in argv
    assert argv[-3:] == ["trixie", "/w/root.tar", DEBIAN[0].line()]
    assert "--skip=cleanup/reproducible" in argv, (
        "mmdebstrap 0.8.4 makes the first boot a first boot"
    )


class Store:
    """Podman that has images of these releases."""

    def __init__(self, *here: str) -> None:
        self.here = here

    async def __call__(self, argv: list[str], *, stdin: bytes = b"", timeout: float) -> Ended:
        assert argv[1:3] == ["image", "exists"]
        suite = argv[3].partition(":")[2].partition("-")[0]
        return Ended(0 if suite in self.here else 1, b"", b"")


@pytest.mark.parametrize(
    ("here", "suite", "system"),
    [
        ((), "trixie", "debian"),
        (("noble",), "noble", "ubuntu"),
        (("noble", "trixie"), "trixie", "debian"),
    ],
)
def test_ubuntu_host_takes_the_best_image_that_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, here: tuple[str, ...], suite: str, system: str
) -> None:
    release = tmp_path / "os-release"
    release.write_text('ID=ubuntu\nVERSION_ID="22.04"\n')
    monkeypatch.setattr(archive, "OS_RELEASE", release)
    images = image.Images(Podman((), Store(*here)))  # type: ignore[arg-type]
    assert images.system("auto").os_id == "debian", "until it is known"
    reference = asyncio.run(images.reference("auto"))
    assert reference.startswith(f"{recipe.REPOSITORY}:{suite}-")
    assert images.system("auto").os_id == system
    if here:
        assert asyncio.run(images.ensure("auto", ignore)) == reference


@pytest.mark.parametrize(
    ("program", "package"),
    [("mmdebstrap", "mmdebstrap"), ("unshare", "util-linux"), ("setpriv", "util-linux")],
)
def test_the_hint_names_a_package_that_the_distribution_has(
    monkeypatch: pytest.MonkeyPatch, program: str, package: str
) -> None:
    """No package is called unshare or setpriv."""
    monkeypatch.setattr("shutil.which", lambda name: None if name == program else f"/bin/{name}")
    with pytest.raises(CorralError, match=f"{program} is not installed") as caught:
        require_programs()
    assert caught.value.hint == f"apt install {package} (as root)"
