"""An image of a registry made one squashfs file on shared storage, by a job of the user's. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import NOTHING, Script, sh
from corral.jobs.containers import image_of
from corral.state.job_folders import CHECKS

NGC_LOGIN: Final = "$oauthtoken"
"""What NVIDIA's registry expects as user name with an API key."""
MINUTES: Final = 120
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}")
_LOGIN: Final = re.compile(r"[$A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
# Enroot 4.1.2 gives a password that begins with $ to a shell (common::evalnetrc).
_KEY: Final = re.compile(r"(?!\$)[\x21-\x7e]{1,4096}")


@dataclass(frozen=True, slots=True)
class Import:
    """What is fetched, and where it goes.

    Attributes:
        image: as Enroot names it: ``REGISTRY#NAME:TAG``.
        path: the file on shared storage.
        login: name that belongs to the key, "" where the registry asks for none.
        http: the registry speaks no TLS.
        common: it goes to the images of all users.
    """

    image: str
    path: str
    login: str = ""
    http: bool = False
    common: bool = False

    @property
    def registry(self) -> str:
        """The machine that credentials are for: Enroot looks for it without its port."""
        registry, mark, _ = self.image.partition("#")
        return registry.partition(":")[0] if mark else ""

    @property
    def folder(self) -> str:
        """Where the file is."""
        return self.path.rpartition("/")[0]


def import_of(
    text: str, mount: str, *, name: str = "", login: str = "", http: bool = False
) -> Import:
    """An import from what a user writes.

    Args:
        text: ``docker://REGISTRY/NAME:TAG``, or Enroot's own ``docker://REGISTRY#NAME:TAG``.
        mount: the shared folder.
        name: the file's name or absolute path; "" makes one of the image's name.
        login: name that belongs to the key, "" for none.
        http: the registry speaks no TLS.

    Raises:
        CorralError: USAGE, this is not an image of a registry, or no name.
    """
    wrong = None
    if not text.startswith("docker://"):
        wrong = f"{text} is not an image of a registry", "write docker://REGISTRY/NAME:TAG"
    elif name and not name.startswith("/") and not _PLAIN.fullmatch(name):
        wrong = f"{name!r} is not a file name", "letters, digits and . _ + -, or an absolute path"
    elif login and not _LOGIN.fullmatch(login):
        wrong = f"{login!r} is not a user name of a registry", "the name that its pages show"
    if wrong is not None:
        raise CorralError(Code.USAGE, wrong[0], hint=wrong[1])
    try:
        image = image_of(text)
        path = image_of(name) if name.startswith("/") else ""
    except ValueError as error:
        raise CorralError(Code.USAGE, str(error), hint="docker://REGISTRY/NAME:TAG") from error
    last = image.rpartition("#")[2]
    file = name or re.sub(r"[^A-Za-z0-9._-]", "+", last)
    file = file if file.endswith((".sqsh", ".squashfs")) else f"{file}.sqsh"
    if login and "#" not in image:
        raise CorralError(
            Code.USAGE, f"{text} names no registry for the login", hint="docker://REGISTRY/NAME:TAG"
        )
    return Import(image, path or f"{mount}/images/{file}", login, http, common=not path)


def checked_key(key: str) -> bytes:
    """A registry's key as it goes to the job's standard input.

    Raises:
        CorralError: USAGE, it is not a key; the message does not hold it.
    """
    if not _KEY.fullmatch(key):
        raise CorralError(
            Code.USAGE,
            "the value given for the registry's key is not a key",
            hint="the key alone: printable, no spaces, one line",
        )
    return key.encode()


def script(request: Import, partition: str) -> Script:
    """The job: standard input brings the key where there is a login; it touches no argument list.

    The key is in a file of mode 600 on the job's node, in a separate folder, as long as the job
    runs. The image is made in a folder that only this user can open, so that nobody starts from
    half of one, and nobody else can put a link or a file of theirs under the name it has until it
    is complete. ``mv -T``: a folder that another user made under the image's name takes no file in.
    """
    secret = sh(
        'printf "machine %s login %s password %s\\n" {registry} {login} "$(cat)" '
        '>"$d/.credentials" || exit 1; export ENROOT_CONFIG_PATH="$d"; ',
        registry=request.registry,
        login=request.login,
    )
    inner = sh(
        'umask 077; d=$(mktemp -d) || exit 1; export HOME="$d"; trap \'rm -rf "$d"\' EXIT; '
        "{secret}{http}"
        '{guard}t=$(mktemp -d {part}) || exit 1; trap \'rm -rf "$d" "$t"\' EXIT; '
        'enroot import -o "$t/image.sqsh" {uri} </dev/null || exit 1; '
        'chmod 644 "$t/image.sqsh" && mv -f -T "$t/image.sqsh" {path}',
        secret=secret if request.login else NOTHING,
        http=sh("export ENROOT_ALLOW_HTTP=yes; ") if request.http else NOTHING,
        part=f"{request.folder}/.corral-import.XXXXXXXXXX",
        guard=_guard(request.folder) if request.common else NOTHING,
        # Enroot looks for credentials of the user whom the address names, and else of nobody.
        uri=f"docker://{request.login}@{request.image}"
        if request.login
        else f"docker://{request.image}",
        path=request.path,
    )
    return sh(
        "command -v enroot >/dev/null || {{ echo 'enroot is not installed' >&2; exit 127; }}; "
        "mkdir -p {folder} || exit 1; "
        "srun -Q -J corral-image -p {partition} -N1 -n1 -t {minutes} sh -c {inner}",
        folder=request.folder,
        partition=partition,
        minutes=MINUTES,
        inner=str(inner),
    )


def _guard(folder: str) -> Script:
    """The images of all users are nobody's to replace; another folder is its user's own choice."""
    return sh('{checks}held {folder} "$(id -u)" || exit 1; ', checks=CHECKS, folder=folder)
