"""Where this Corral came from, and newer releases there: real git, no network."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

from corral import extras
from corral.api.config import installation as module
from corral.api.config.installation import (
    Installation,
    NewerRelease,
    compared,
    installation,
    newer_release,
)

HERE = Installation("0.9.1", "3.13.1", "file", "")
HOW = "installed as this one was (docs/guide/upgrading.md)"


def asked(kind: Any, origin: Path | str) -> NewerRelease:
    return asyncio.run(newer_release(Installation("0.9.1", "3.13.1", kind, str(origin))))


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=x", "-c", "user.email=x@x.example")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


def tagged(folder: Path, *tags: str) -> Path:
    """A repository with such tags."""
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    for tag in tags:
        git(folder, "tag", tag)
    return folder


@pytest.mark.parametrize(
    ("url", "kind", "origin"),
    [
        ({}, "index", ""),
        ({"url": "file:///srv/a%20b", "dir_info": {"editable": True}}, "checkout", "/srv/a b"),
        ({"url": "file:///srv/c.whl", "archive_info": {}}, "file", "/srv/c.whl"),
        (
            {"url": "https://x.example/c.whl", "archive_info": {}},
            "address",
            "https://x.example/c.whl",
        ),
        ({"url": "https://x.example/c", "vcs_info": {}}, "repository", "https://x.example/c"),
        ({"url": "ssh://git@x.example/c", "vcs_info": {}}, "repository", "ssh://git@x.example/c"),
        *(
            ({"url": url, kind: {}}, name, shown)
            for kind, name in (("vcs_info", "repository"), ("archive_info", "address"))
            for url, shown in (
                ("http://alice:SECRET@x.example/c", "http://x.example/c"),
                ("http://SECRET@x.example:81/c", "http://x.example:81/c"),
                ("http://alice:SECR@ET@x.example/c", "http://x.example/c"),
                ("http://alice:SEC/RET@x.example/c", "http://x.example/c"),
                ("http://alice:SEC?RET@x.example/c", "http://x.example/c"),
                ("http://x.example/c?private_token=SECRET", "http://x.example/c"),
                ("http://x.example/@a/c#SECRET", "http://x.example/@a/c"),
                ("ssh://git:SECRET@x.example/c", "ssh://git@x.example/c"),
            )
        ),
    ],
)
def test_where_it_was_installed_from(
    url: dict[str, Any], kind: str, origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "direct_url", lambda: url)
    assert (installation().kind, installation().origin) == (kind, origin)


@pytest.mark.parametrize(
    ("versions", "state", "newest"),
    [
        (["0.9.0", "0.10.0", "0.9.1"], "newer", "0.10.0"),
        (["0.9.0", "0.9.1"], "current", "0.9.1"),
        (["0.8.0"], "current", "0.8.0"),
        (["0.10.0rc1"], "unknown", ""),
        (["9" * 5000, f"1.{'9' * 5000}"], "unknown", ""),
        (["0.9.1.0"], "current", "0.9.1.0"),
        ([], "unknown", ""),
    ],
)
def test_versions_are_compared_by_their_numbers(
    versions: list[str], state: str, newest: str
) -> None:
    answer = compared(HERE, versions, "there", "upgrade")
    assert (answer.state, answer.newest, bool(answer.upgrade)) == (state, newest, state == "newer")


@pytest.mark.parametrize(
    ("prefix", "made", "upgrade"),
    [
        (
            "copy/.venv",
            "",
            "cd {copy} && git pull && bash -c '. .ci/setup.sh && need_venv requirements.lock'",
        ),
        ("pipx", "pipx_metadata.json", "git -C {copy} pull && pipx install --force {copy}"),
        ("tool", "uv-receipt.toml", "git -C {copy} pull && uv tool install --force {copy}"),
        ("other", "", f"git -C {{copy}} pull, and then {{copy}}, {HOW}"),
    ],
)
def test_a_checkout_is_pulled_and_its_environment_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, made: str, upgrade: str
) -> None:
    """``corral version`` is the environment's: after a pull alone it would stay the old one."""
    (tmp_path / prefix).mkdir(parents=True)
    if made:
        (tmp_path / prefix / made).touch()
    monkeypatch.setattr(module.sys, "prefix", str(tmp_path / prefix))
    copy = tmp_path / "copy"
    assert module._pulled(str(copy)) == upgrade.format(copy=copy)


def test_a_checkout_asks_the_tags_of_its_origin(tmp_path: Path) -> None:
    origin = tagged(tmp_path / "origin", "v0.9.1", "v0.10.0", "unrelated", "v1.0.0rc1")
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", "--no-tags", str(origin), str(copy))
    upgrade = module._pulled(str(copy))
    assert asked("checkout", copy) == NewerRelease("newer", str(origin), "0.10.0", upgrade=upgrade)
    git(origin, "tag", "-d", "v0.10.0")
    assert asked("checkout", copy) == NewerRelease("current", str(origin), "0.9.1")


def test_a_checkout_without_an_origin_is_unknown(tmp_path: Path) -> None:
    answer = asked("checkout", tagged(tmp_path / "alone", "v9.9.9"))
    assert (answer.state, answer.newest) == ("unknown", "")
    assert answer.reason == "this checkout has no remote `origin` to ask"


def test_tags_that_no_release_has_are_left_out(tmp_path: Path) -> None:
    """A number of 5,000 digits is one that Python refuses to read."""
    packed = tagged(tmp_path / "hostile", "v0.9.2") / ".git/packed-refs"
    sha = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=packed.parents[1],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    packed.write_text(f"{sha} refs/tags/v1.{'9' * 5000}\n")
    answer = asked("repository", packed.parents[1])
    assert (answer.state, answer.newest) == ("newer", "0.9.2")
    assert answer.upgrade == f"git+{packed.parents[1]}, {HOW}"


def test_a_login_of_a_remote_is_neither_shown_nor_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Port 9 of this machine: nobody listens there. All users see the arguments of programs."""
    copy = tagged(tmp_path / "copy")
    git(copy, "remote", "add", "origin", "http://alice:SECRET@127.0.0.1:9/corral.git")
    given: list[str] = []
    run = module.process.run

    async def watched(argv: list[str], **how: Any) -> Any:
        given.extend(argv)
        return await run(argv, **how)

    monkeypatch.setattr(module.process, "run", watched)
    answer = asked("checkout", copy)
    assert answer.state == "unknown"
    assert answer.reason
    assert answer.asked == "http://127.0.0.1:9/corral.git"
    assert "SECRET" not in repr(answer)
    assert "ls-remote" in given
    assert "SECRET" not in repr(given)


def test_a_wheel_asks_the_folder_that_it_was_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.sys, "prefix", str(tmp_path))
    folder = tmp_path / "a b"
    folder.mkdir()
    wheel = folder / "corral-0.9.1-py3-none-any.whl"
    wheel.touch()
    assert asked("file", wheel).state == "current"
    newer = folder / "corral-0.10.0-py3-none-any.whl"
    newer.touch()
    for name in (
        "corralx-7.0-py3-none-any.whl",
        "corral-7.0rc1-py3-none-any.whl",
        "corral-7.0-cp313-none-linux_x86_64.whl",
        "corral-7.0;x-py3-none-any.whl",
        f"corral-7.{'9' * 200}-py3-none-any.whl",
    ):
        (folder / name).touch()
    answer = asked("file", wheel)
    assert (answer.state, answer.newest) == ("newer", "0.10.0")
    assert answer.upgrade == f"'{newer}', {HOW}"
    for name, words in (
        ("uv-receipt.toml", ["uv", "tool", "install", "--force"]),
        ("pipx_metadata.json", ["pipx", "install", "--force"]),
    ):
        (tmp_path / name).touch()
        assert shlex.split(asked("file", wheel).upgrade) == [*words, str(newer)]
    assert asked("file", folder / "gone/corral-0.9.1-py3-none-any.whl").state == "unknown"


def test_no_index_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of this name in one would not be Corral; --find-links records nothing."""

    async def asks(*words: object, **_: object) -> None:
        raise AssertionError(words)

    monkeypatch.setattr(module.process, "run", asks)
    answer = asked("index", "")
    assert (answer.state, answer.newest, answer.upgrade) == ("unknown", "", "")
    assert "a package corral of one is not this Corral" in answer.reason


def test_one_file_of_a_server_names_no_others() -> None:
    assert asked("address", "https://x.example/c.whl").state == "unknown"


def test_no_answer_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(module.process, "run", silent)
    monkeypatch.setattr(module, "LIMIT_S", 0.01)
    assert asked("checkout", tmp_path).reason == "no answer in 0 s"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"file:///srv/c.whl"',
        '{"url": null}',
        '{"url": 7, "archive_info": {}}',
        '{"url": ["file:///srv/c.whl"]}',
        '{"url": "file:///srv/\\u0000c.whl", "archive_info": {}}',
        "[" * 100_000,
        b"\xff\xfe",
    ],
    ids=lambda text: str(text)[:24],
)
def test_a_damaged_record_is_no_record(
    text: str | bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``corral version --check`` ends as without one."""
    folder = tmp_path / "corral-0.9.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: corral\nVersion: 0.9.1\n")
    data = text if isinstance(text, bytes) else text.encode()
    (folder / "direct_url.json").write_bytes(data)
    damaged = PathDistribution(folder)
    monkeypatch.setattr(extras, "distribution", lambda _: damaged)
    monkeypatch.setattr(extras, "version", lambda _: damaged.version)
    here = installation()
    assert (here.version, here.kind, here.origin) == ("0.9.1", "index", "")
    assert asyncio.run(newer_release(here)).state == "unknown"
