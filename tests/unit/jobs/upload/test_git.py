"""Nothing that a hostile checkout names is run; answers are those of the plain commands."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.jobs.upload import git
from corral.jobs.upload import manifest as manifest_module
from corral.jobs.upload.project import ways

ME = ["-c", "user.name=a", "-c", "user.email=a@b"]


def run(root: Path, *words: str) -> str:
    argv = ["git", *ME, "-C", str(root), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def made(root: Path, *more: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", *more, str(root)], check=True)
    (root / "train.py").write_text("print()\n")
    (root / ".gitignore").write_text("*.log\n")
    run(root, "add", ".")
    run(root, "commit", "-qm", "first")
    return root


def listed(root: Path) -> list[str]:
    repository = git.repository_of(ways(root)[-1])
    assert repository
    return sorted(name for name in asyncio.run(git.tracked_names(repository)) if name)


def tags(script: Path) -> dict[str, str]:
    return asyncio.run(git.commit_tags(script))


def packed(script: Path) -> set[str]:
    return {file.path for file in asyncio.run(manifest_module.pack(script, "")).files}


def evil(tmp_path: Path) -> tuple[Path, Path]:
    """A program that leaves a mark, and the mark."""
    mark, program = tmp_path / "ran", tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\necho $0 $* >>{mark}\n")
    program.chmod(0o755)
    return program, mark


def configured(*settings: str) -> Callable[[Path, Path], None]:
    def change(root: Path, program: Path) -> None:
        for setting in settings:
            key, _, value = setting.partition("=")
            run(root, "config", key, value.replace("EVIL", str(program)))
        (root / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
        os.utime(root / "train.py", (1, 1))  # so that git looks at its content

    return change


def hooks(root: Path, program: Path) -> None:
    for name in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (root / ".git/hooks" / name).symlink_to(program)
    os.utime(root / "train.py", (1, 1))


def partial(root: Path, program: Path) -> None:
    """A blob that is missing, and the program that would fetch it."""
    (root / "d").mkdir()
    (root / "d/.gitignore").write_text("x\n")
    run(root, "add", ".")
    run(root, "commit", "-qm", "d")
    blob = run(root, "rev-parse", "HEAD:d/.gitignore").strip()
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    run(root, "update-index", "--skip-worktree", "d/.gitignore")
    (root / "d/.gitignore").unlink()
    (root / "d/other").write_text("")
    configured(
        "core.repositoryformatversion=1",
        "extensions.partialClone=origin",
        "remote.origin.url=ssh://nowhere/x",
        "remote.origin.uploadpack=EVIL",
        "remote.origin.promisor=true",
        "core.sshCommand=EVIL",
        "remote.origin.vcs=evil",
    )(root, program)


HOSTILE = {
    "fsmonitor": configured("core.fsmonitor=EVIL"),
    "filters": configured("filter.x.clean=EVIL", "filter.x.process=EVIL", "filter.x.required=true"),
    "diff": configured("diff.x.textconv=EVIL", "diff.x.command=EVIL", "diff.external=EVIL"),
    "hooks path": configured("core.hooksPath=/nowhere", "core.editor=EVIL", "core.pager=EVIL"),
    "aliases": configured("alias.ls-files=!EVIL", "alias.status=!EVIL", "alias.rev-parse=!EVIL"),
    "credentials": configured("credential.helper=EVIL", "core.askPass=EVIL", "gpg.program=EVIL"),
    "hooks": hooks,
    "partial clone": partial,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_program_of_a_checkout_runs(tmp_path: Path, kind: str) -> None:
    root = made(tmp_path / "hostile")
    program, mark = evil(tmp_path)
    HOSTILE[kind](root, program)
    try:
        packed(root / "train.py")
    except CorralError as error:
        assert kind == "partial clone", error.message
    tags(root / "train.py")
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("kind", ["fsmonitor", "filters", "diff"])
def test_without_care_the_same_checkout_runs_a_program(tmp_path: Path, kind: str) -> None:
    """Else the test above could not fail."""
    root = made(tmp_path / "hostile")
    program, mark = evil(tmp_path)
    HOSTILE[kind](root, program)
    words = ["diff"] if kind == "diff" else ["status"]
    (root / "train.py").write_text("p=int()\n")  # of the same size: git has to read it
    os.utime(root / "train.py", (0, 0))
    subprocess.run(["git", "-C", str(root), *words], capture_output=True, check=False)
    assert mark.exists()


def test_a_committed_folder_that_is_a_repository_is_a_folder(tmp_path: Path) -> None:
    """``git clone`` brings it; git takes it for a bare repository where it is asked within it."""
    root = made(tmp_path / "clone")
    program, mark = evil(tmp_path)
    inner = root / "train"
    (inner / "objects").mkdir(parents=True)
    (inner / "refs").mkdir()
    (inner / "wt").mkdir()
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    (inner / "config").write_text(
        f"[core]\nrepositoryformatversion = 0\nbare = false\nworktree = wt\nfsmonitor = {program}\n"
    )
    (inner / "train.py").write_text("print()\n")
    assert "train/train.py" in packed(inner / "train.py")
    commit = run(root, "rev-parse", "HEAD").strip()
    assert tags(inner / "train.py")["mlflow.source.git.commit"] == commit
    assert not mark.exists()


def test_a_submodule_with_settings_of_its_own_runs_nothing(tmp_path: Path) -> None:
    root, inner = made(tmp_path / "hostile"), made(tmp_path / "hostile/sub")
    program, mark = evil(tmp_path)
    HOSTILE["fsmonitor"](inner, program)
    run(root, "add", "sub")
    run(root, "commit", "-qm", "sub")
    packed(root / "train.py")
    assert tags(root / "train.py")["corral.git_dirty"] == "false"
    assert not mark.exists()


def test_a_mark_of_another_user_above_makes_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = made(tmp_path / "all")
    (above / "secret").write_text("x")
    mine = above / "mine"
    mine.mkdir()
    (mine / "train.py").write_text("print()\n")
    assert "secret" in packed(mine / "train.py")
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(above / ".git", 2002, 2002)
    (above / ".gitignore").unlink()
    assert packed(mine / "train.py") == {"train.py"}


def test_the_answers_are_gits_own(tmp_path: Path) -> None:
    root = made(tmp_path / "mine")
    (root / "sub").mkdir()
    (root / "sub/.gitignore").write_text("token\n")
    (root / "sub/token").write_text("")
    (root / "sub/a\nb").write_text("")
    (root / "run.log").write_text("")
    (root / ".env").write_text("")
    (root / ".git/info/exclude").write_text(".env\n")
    plain = run(root, "ls-files", "-z", "-co", "--exclude-standard").split("\0")
    assert listed(root) == sorted(filter(None, plain))
    assert not {".env", "sub/token", "run.log"} & set(listed(root))


def test_the_users_own_ignore_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(tmp_path / "mine")
    (root / "notes.txt").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert "notes.txt" in listed(root)
    (tmp_path / ".gitconfig").write_text("[core]\nexcludesFile = ~/mine.txt\n")
    (tmp_path / "mine.txt").write_text("notes.txt\n")
    assert "notes.txt" not in listed(root)


@pytest.mark.parametrize("more", [(), ("--object-format=sha256",)])
def test_commit_branch_and_changes(tmp_path: Path, more: tuple[str, ...]) -> None:
    root = made(tmp_path / "mine", *more)
    run(root, "checkout", "-qb", "topic")
    commit = tags(root / "train.py")
    assert commit == {
        "mlflow.source.git.commit": run(root, "rev-parse", "HEAD").strip(),
        "mlflow.source.git.branch": "topic",
        "corral.git_dirty": "false",
    }
    (root / "train.py").write_text("other\n")
    assert tags(root / "train.py")["corral.git_dirty"] == "true"
    assert "train.py" in listed(root)


def test_worktrees(tmp_path: Path) -> None:
    root = made(tmp_path / "mine")
    run(root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    (tmp_path / "tree/new.py").write_text("")
    assert listed(tmp_path / "tree") == [".gitignore", "new.py", "train.py"]
    assert tags(tmp_path / "tree/train.py")["mlflow.source.git.branch"] == "other"


def test_a_repository_that_git_cannot_read_is_an_error(tmp_path: Path) -> None:
    """What it ignored was uploaded in silence."""
    root = made(tmp_path / "mine")
    (root / ".git/index").write_text("broken")
    with pytest.raises(CorralError) as caught:
        packed(root / "train.py")
    assert caught.value.code is Code.COMMAND_FAILED
    assert ".corralignore" in caught.value.hint
    (root / ".corralignore").write_text("*.log\n")
    assert "train.py" in packed(root / "train.py")


# What git 2.25.1 (Ubuntu 20.04) takes of what Corral gives it; it does not read newer variables.
OLD_GIT = """#!/bin/sh
unset GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_NO_LAZY_FETCH
for word; do case $word in
  -c|-C|-z|-co|--|--exclude-standard|--porcelain|--ignore-submodules=all|--git-dir|--abbrev-ref) ;;
  --global|--type=path|--get) ;;
  -*) echo "error: unknown option \\`${word#--}'" >&2; exit 129 ;;
esac; done
[ -z "$TOO_OLD" ] || case "$*" in *ls-files*) echo "error: unknown option" >&2; exit 129 ;; esac
exec REAL "$@"
"""


def old_git(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    real = shutil.which("git")
    assert real
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(OLD_GIT.replace("REAL", real))
    (folder / "git").chmod(0o755)
    patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_git_of_2020_lists_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--deduplicate came with 2.31: Debian 11 and Ubuntu 20.04 could not run a job from git."""
    root = made(tmp_path / "p")
    (root / "new.py").write_text("")
    (root / "a.log").write_text("")
    (files, commit) = packed(root / "train.py"), tags(root / "train.py")
    assert "new.py" in files
    assert "a.log" not in files
    old_git(tmp_path, monkeypatch)
    assert packed(root / "train.py") == files
    assert tags(root / "train.py") == commit


def test_a_git_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(tmp_path / "p")
    old_git(tmp_path, monkeypatch)
    monkeypatch.setenv("TOO_OLD", "1")
    with pytest.raises(CorralError) as caught:
        packed(root / "train.py")
    assert caught.value.code is Code.MISSING_TOOL
    assert caught.value.message.startswith("git version ")
    assert "git ls-files" in caught.value.message
    assert "git 2.25 or newer" in caught.value.hint


def test_a_conflict_is_one_file(tmp_path: Path) -> None:
    root = made(tmp_path / "p")
    for branch in ("one", "two"):
        run(root, "checkout", "-q", "-b", branch, "HEAD" if branch == "one" else "HEAD~1")
        (root / "train.py").write_text(f"print({branch!r})\n")
        run(root, "commit", "-qam", branch)
    subprocess.run(["git", *ME, "-C", str(root), "merge", "one"], check=False, capture_output=True)
    assert run(root, "ls-files", "-u") != ""
    assert listed(root) == [".gitignore", "train.py"]


def test_a_script_that_is_not_here_has_no_commit(tmp_path: Path) -> None:
    """With --in-place it is on the cluster's shared storage only."""
    assert tags(tmp_path / "none" / "train.py") == {}
