"""An image of a registry made one squashfs file on shared storage, by a job of the user's. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, call
from corral.jobs.batch.image_names import image_of

NGC_LOGIN: Final = "$oauthtoken"
"""What NVIDIA's registry expects as user name with an API key."""
_PROGRAM: Final = "jobs/user.sh"
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

    The image is made in a folder that only this user can open, so that nobody starts from
    half of one, and nobody else can put a link or a file of theirs under the name it has until it
    is complete. ``mv -T``: a folder that another user made under the image's name takes no file in.
    """
    # Enroot looks for credentials of the user whom the address names, and else of nobody.
    whose = f"{request.login}@" if request.login else ""
    inner = call(
        _PROGRAM,
        "image_import",
        request.path,
        f"docker://{whose}{request.image}",
        request.registry,
        request.login,
        "yes" if request.http else "no",
        "yes" if request.common else "no",
    )
    return call(_PROGRAM, "image_import_job", request.folder, partition, MINUTES, str(inner))
