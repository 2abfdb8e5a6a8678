"""Files encrypted by age or gpg, written and read through pipes: plain text is never on a disk."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeVar

from corral.errors import Code, CorralError, cannot_read
from corral.providers.containers.limited_stream import Readable
from corral.spec.findings import near_file
from corral.spec.values import AGE_RECIPIENT

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

T = TypeVar("T")
END_S: Final = 60.0
"""So long age and gpg get to write what they hold."""
HELD: Final = 8 * 1024 * 1024
"""Bytes that were written and are not on the disk, at most, but for what one read brings."""
_PIECE: Final = 1024 * 1024
_CHECKED: Final[Mapping[int, int]] = {zstd.CompressionParameter.checksum_flag: 1}
_RECIPIENT: Final = re.compile(AGE_RECIPIENT.pattern)
_PRIVATE: Final = ("AGE-SECRET-KEY-", "AGE-PLUGIN-", "-----BEGIN")
_AGE: Final = (b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----")
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Encryption:
    """How an archive is encrypted.

    Attributes:
        argv: the program that reads plain text and prints the encrypted; empty for none.
        suffix: how the names of its files end.
    """

    argv: tuple[str, ...] = ()
    suffix: str = ""


def encryption_of(
    to: Sequence[str] = (), gpg: Sequence[str] = (), *, unencrypted: bool = False
) -> Encryption:
    """The encryption that was asked for, and its program must be installed.

    Args:
        to: recipients of age: public keys of age or SSH, or files with such.
        gpg: keys of gpg's keyring.
        unencrypted: none.

    Raises:
        CorralError: USAGE, nothing or more than one of these is given, or a recipient is none;
            MISSING_TOOL, age or gpg is not installed.
    """
    if sum(map(bool, (to, gpg, unencrypted))) != 1:
        raise CorralError(
            Code.USAGE,
            "the archive holds the cluster's keys: state for whom it is encrypted, in one way",
            hint="--to with a public key of age (age1...) or SSH, or a file of such; --gpg KEY; or "
            "--unencrypted for an archive that whoever reads it can use",
        )
    if unencrypted:
        return Encryption()
    if gpg:
        for key in gpg:
            if not key.strip() or key.startswith("-"):
                raise _no_recipient(key)
        options = [word for key in gpg for word in ("--recipient", key)]
        fixed = ("--batch", "--quiet", "--trust-model", "always", "--compress-algo", "none")
        return Encryption((_tool("gpg", "gnupg"), *fixed, *options, "--encrypt"), ".gpg")
    options = [word for recipient in to for word in _age_option(recipient)]
    return Encryption((_tool("age", "age"), *options), ".age")


def _age_option(recipient: str) -> tuple[str, str]:
    if recipient.strip().startswith(_PRIVATE):
        raise CorralError(
            Code.USAGE,
            "--to was given a private key",
            hint="give its public key: age-keygen -y FILE prints that of an age key",
        )
    if _RECIPIENT.fullmatch(recipient):
        return ("-r", recipient)
    file = Path(recipient).expanduser()
    if not file.is_file():
        raise _no_recipient(recipient)
    with file.open("rb") as text:
        if text.read(20).startswith(tuple(word.encode() for word in _PRIVATE)):
            raise CorralError(
                Code.USAGE,
                f"{file} is a private key",
                hint="give its public key: the .pub file, or what age-keygen -y prints",
            )
    return ("-R", os.path.abspath(file))  # noqa: PTH100


def _no_recipient(text: str) -> CorralError:
    return CorralError(
        Code.USAGE,
        f"{text[:80]!r} is not a recipient",
        hint="--to age1..., 'ssh-ed25519 AAAA...', or a file with such lines; --gpg FINGERPRINT",
    )


def _tool(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise CorralError(
            Code.MISSING_TOOL,
            f"{name} is not installed on this machine",
            command=name,
            hint=f"install package {package}, or encrypt by the other of age and gpg",
        )
    return path


class EncryptedFile:
    """A file that is written compressed and encrypted, under its name only when it is complete.

    A thread does the work, so that ``write`` never waits for a disk or another program. Who writes
    more than ``HELD`` bytes ahead of it waits for ``room``.

    Args:
        path: the file; it must not be there yet.
        encryption: by whom it is encrypted.

    Raises:
        CorralError: USAGE, there is such a file or it cannot be written.
    """

    def __init__(self, path: Path, encryption: Encryption) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        self._error: BaseException | None = None
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._held = 0
        self._ended = self._closed = False
        self._room: asyncio.Future[None] | None = None
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        if path.exists() or path.is_symlink():
            raise CorralError(
                Code.USAGE, f"{path} is already there", hint="choose another name: -o"
            )
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._partial, flags, 0o600)
        except OSError as error:
            raise _cannot_write(path, error) from error
        self._program = "".join(encryption.argv[:1])
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._pipe: IO[bytes] = self._piped(encryption)
        except OSError as error:
            self.close()
            raise _cannot_write(path, error) from error
        self._thread = threading.Thread(target=self._work, name="encryption", daemon=True)
        self._thread.start()

    def _piped(self, encryption: Encryption) -> IO[bytes]:
        if not encryption.argv:
            return os.fdopen(os.dup(self._file), "wb")
        self._process = subprocess.Popen(
            encryption.argv,
            stdin=subprocess.PIPE,
            stdout=self._file,
            stderr=self._messages,
            start_new_session=True,
        )
        if self._process.stdin is None:
            raise OSError("the program has no standard input")
        return self._process.stdin

    def write(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            CorralError: what was written before could not be encrypted or stored.
        """
        if self._error is not None:
            raise self._failure()
        with self._lock:
            self._held += len(data)
        self._pieces.put(data)

    def room(self) -> asyncio.Future[None] | None:
        """What is done once the disk has taken most of what was written; None: it has.

        Called in the event loop. It is done after an error too, which the next ``write`` raises.
        """
        with self._lock:
            if self._ended or self._held <= HELD:
                return None
            if self._room is None or self._room.done():
                self._room = asyncio.get_running_loop().create_future()
            return self._room

    def finish(self) -> int:
        """Write the rest, and give the file its name. This waits: call it in a thread.

        Returns:
            bytes of the file.

        Raises:
            CorralError: COMMAND_FAILED, it could not be encrypted; USAGE, not stored.
        """
        self._pieces.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._failure()
        if self._process is not None and self._process.wait(END_S) != 0:
            raise self._failure()
        os.fsync(self._file)
        self._partial.rename(self._path)
        return os.fstat(self._file).st_size

    def close(self) -> None:
        """End what still runs; a file that is not complete is removed."""
        self._closed = True
        self._pieces.put(None)
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        self._partial.unlink(missing_ok=True)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._messages.close()

    def _work(self) -> None:
        try:
            with self._pipe, zstd.ZstdFile(self._pipe, "w", options=_CHECKED) as packed:
                while (piece := self._pieces.get()) is not None and not self._closed:
                    packed.write(piece)
                    self._taken(len(piece))
        except BaseException as error:  # without it a cut archive would get the name
            self._error = error
        finally:
            self._taken(0, ended=True)

    def _taken(self, size: int, *, ended: bool = False) -> None:
        """So much is written, or nothing more is; who waits for room goes on."""
        with self._lock:
            self._held -= size
            self._ended |= ended
            room = self._room
            if room is None or (self._held > HELD // 2 and not self._ended):
                return
            self._room = None
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            room.get_loop().call_soon_threadsafe(_settle, room)

    def _failure(self) -> CorralError:
        process = self._process
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
        if process is None or not process.returncode:
            return _cannot_write(self._path, self._error or OSError("not complete"))
        name = Path(self._program).name
        return CorralError(
            Code.COMMAND_FAILED,
            f"{name} did not encrypt the archive",
            command=name,
            status=process.returncode,
            tail=_tail(self._messages),
            hint="check the recipients",
        )


def _settle(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


def _cannot_write(path: Path, error: BaseException) -> CorralError:
    known = error.strerror if isinstance(error, OSError) else str(error)
    reason = known or type(error).__name__
    return CorralError(
        Code.USAGE, f"{path} cannot be written: {reason}", hint="choose another place: -o FILE"
    )


def _tail(messages: IO[bytes]) -> str:
    messages.seek(0)
    return messages.read(4000).decode("utf-8", "replace").strip()


def read_encrypted(path: Path, identities: Sequence[Path], work: Callable[[Readable], T]) -> T:
    """Read a file that ``EncryptedFile`` wrote; blocks.

    Args:
        path: the file.
        identities: private keys, for age; gpg takes those of its keyring.
        work: reads the plain text to its end.

    Returns:
        what ``work`` gave.

    Raises:
        CorralError: NOT_FOUND; USAGE, no key fits or it is damaged; MISSING_TOOL; the work's own.
    """
    try:
        with path.open("rb", buffering=0) as file:  # a program reads it from its start
            head = file.read(64)
            file.seek(0)
            if head.startswith(_ZSTD):
                return _unpacked(path, file, work)
            argv = _decryption(path, head, identities)
            return _decrypted(path, argv, file, work)
    except FileNotFoundError as error:
        raise _no_archive(path) from error
    except OSError as error:
        raise CorralError(Code.USAGE, cannot_read(path, error), hint="check the file") from error


def require_archive(path: Path) -> None:
    """Refuse a file that does not exist, before any machine is asked.

    Raises:
        CorralError: NOT_FOUND.
    """
    if not path.exists():
        raise _no_archive(path)


def _no_archive(path: Path) -> CorralError:
    hint = near_file(path) or "write one with: corral backup FILE"
    return CorralError(Code.NOT_FOUND, f"archive {path} does not exist", hint=hint)


def _decryption(path: Path, head: bytes, identities: Sequence[Path]) -> tuple[str, ...]:
    if not head.startswith(_AGE):
        # gpg's packets have no magic number: bit 7 of the first byte is always set.
        if not head or not (head[0] & 0x80 or head.startswith(b"-----BEGIN PGP")):
            raise damaged(path)
        return (_tool("gpg", "gnupg"), "--quiet", "--decrypt")
    for identity in identities:
        if not identity.is_file():
            raise CorralError(Code.NOT_FOUND, f"no key at {identity}", hint="--identity FILE")
    if not identities:
        raise CorralError(
            Code.USAGE,
            f"{path} is encrypted by age, and no private key was given",
            hint="--identity FILE: the age or SSH key that one of its recipients belongs to",
        )
    options = [word for key in identities for word in ("-i", os.path.abspath(key))]  # noqa: PTH100
    return (_tool("age", "age"), "--decrypt", *options)


def _decrypted(
    path: Path, argv: tuple[str, ...], file: IO[bytes], work: Callable[[Readable], T]
) -> T:
    with (
        tempfile.TemporaryFile() as messages,
        subprocess.Popen(argv, stdin=file, stdout=subprocess.PIPE, stderr=messages) as process,
    ):
        try:
            plain = process.stdout
            if plain is None:
                raise damaged(path)
            try:
                result = _unpacked(path, plain, work)
            except DamagedError:
                # What the program found decides, not how its output looked where it was cut.
                _require_end(path, process, messages)
                raise
            _require_end(path, process, messages)
        finally:
            process.kill()
    return result


def _require_end(path: Path, process: subprocess.Popen[bytes], messages: IO[bytes]) -> None:
    while process.stdout and process.stdout.read(_PIECE):
        pass
    if process.wait(END_S) != 0:
        program = process.args[0] if isinstance(process.args, tuple) else ""
        raise _undecipherable(path, str(program), _tail(messages))


def _undecipherable(path: Path, program: str, messages: str) -> CorralError:
    name = Path(program).name
    text = messages.lower()
    if "no identity matched" in text or "no secret key" in text:
        other = "--identity FILE with another key" if name == "age" else "import the key into gpg"
        return CorralError(
            Code.USAGE, f"{path} is encrypted for other keys than the given ones", hint=other
        )
    return CorralError(
        Code.USAGE,
        f"{name} cannot decrypt {path}: it is damaged, or the key cannot be used",
        command=name,
        tail=messages,
        hint="compare the file with its original, and the key",
    )


class DamagedError(CorralError):
    """The archive cannot be read."""


def damaged(path: Path) -> DamagedError:
    """The error for an archive that cannot be read."""
    return DamagedError(
        Code.USAGE,
        f"{path} is damaged, or is not an archive of corral backup",
        hint="compare it with its original, or take another one",
    )


def _unpacked(path: Path, file: IO[bytes], work: Callable[[Readable], T]) -> T:
    try:
        with zstd.ZstdFile(file) as plain:
            return work(plain)
    except (EOFError, zstd.ZstdError) as error:
        raise damaged(path) from error
