"""Files that a user has Corral write: through no link that somebody else may have put there."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.shards import parts_of

_DEVICES: Final = Path("/dev")
_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # everybody's to write, unlike the rest of /dev


def is_device(path: Path) -> bool:
    """Whether it is ``/dev/stdout`` and the like, which are links and written as they are."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100
    return absolute.is_relative_to(_DEVICES) and not absolute.is_relative_to(_MEMORY)


def write_output(path: Path, data: bytes, *, new: bool = False, mode: int | None = None) -> None:
    """Write a file; a link in its place is refused: a project decides where its links lead.

    Args:
        path: as the user named it.
        data: its content.
        new: it must not be there yet.
        mode: of the file; None: by the umask.

    Raises:
        CorralError: USAGE, it is a link, or its folder is missing.
        OSError: it cannot be written; FileExistsError.
    """
    check_folder(path)
    _write(path, path, data, None, new=new, mode=mode)


def check_folder(path: Path) -> None:
    """Raise where a file's folder is missing; called before its content is made, too."""
    if not path.parent.is_dir():
        folder = shlex.quote(str(path.parent))
        raise CorralError(
            Code.USAGE,
            f"{path} cannot be written: the folder {path.parent} does not exist",
            hint=f"mkdir -p {folder}",
        )


def write_folder(
    folder: Path, files: Mapping[str, bytes], *, new: bool = False, mode: int | None = None
) -> tuple[Path, ...]:
    """Write files into a folder, which is made where it is missing; no link is followed.

    The folder is opened once, so that nobody puts a link in its place meanwhile. The folders above
    it are the user's choice.

    Args:
        folder: as the user named it, or a name of Corral's in the current folder.
        files: content by path below the folder.
        new: none of them may be there yet.
        mode: of each file; None: by the umask.

    Returns:
        the files.

    Raises:
        CorralError: USAGE, it is a link, or one of the files or a folder on the way to it is.
        OSError: it cannot be written; FileExistsError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _folder(folder, folder, None) as top:
        for name, data in files.items():
            *above, last = parts_of(name)
            with ExitStack() as stack:
                at, path = top, folder
                for part in above:
                    path /= part
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=at)
                    at = stack.enter_context(_folder(path, Path(part), at))
                _write(path / last, Path(last), data, at, new=new, mode=mode)
    return tuple(folder / name for name in files)


@contextmanager
def _folder(shown: Path, path: Path, at: int | None) -> Generator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, dir_fd=at)
    except OSError as error:
        if shown.is_symlink():
            raise _is_link(shown) from error
        raise
    try:
        yield handle
    finally:
        os.close(handle)


def _write(
    shown: Path, path: Path, data: bytes, at: int | None, *, new: bool, mode: int | None
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if new else os.O_TRUNC)
    flags |= 0 if is_device(shown) else os.O_NOFOLLOW
    try:
        handle = os.open(path, flags, 0o666 if mode is None else mode & 0o700, dir_fd=at)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _is_link(shown) from error
    with os.fdopen(handle, "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)


def _is_link(path: Path) -> CorralError:
    return CorralError(
        Code.USAGE,
        f"{path} is a link to {os.path.realpath(path)}: nothing was written",
        hint="name what it leads to, or another name",
    )
