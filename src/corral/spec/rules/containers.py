"""Rules about containers in jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.spec.findings import Level
from corral.spec.view import Problem, Rule, View


def source(view: View) -> Iterator[Problem]:
    """Pyxis without files, or files without Pyxis."""
    software = view.spec.software
    if software.containers == "pyxis" and software.pyxis is None:
        hint = "add pyxis: with enroot and source, each with file and sha256"
        message = "no source of Enroot and Pyxis given"
        yield Problem(("software", "containers"), message, hint)
    if software.containers == "none" and software.pyxis is not None:
        hint = "write containers: pyxis, or leave it out"
        yield Problem(("software", "pyxis"), "it has no effect without containers: pyxis", hint)


def files(view: View) -> Iterator[Problem]:
    """Files of another kind than declared."""
    pyxis = view.spec.software.pyxis
    if pyxis is None:
        return
    for i, artifact in enumerate(pyxis.enroot):
        if not artifact.file.endswith(".deb"):
            hint = "the release's enroot_VERSION_amd64.deb"
            at = ("software", "pyxis", "enroot", i, "file")
            yield Problem(at, "this is not a .deb package", hint)
    if not pyxis.source.file.endswith((".tar.gz", ".tgz", ".tar.xz", ".tar")):
        at = ("software", "pyxis", "source", "file")
        yield Problem(at, "this is not a source archive", "the release's .tar.gz")


def importing(view: View) -> Iterator[Problem]:
    """Enroot whose users may not turn a registry's layers into an image.

    That takes two capabilities outside of any user namespace, which only enroot+caps gives
    (enroot 4.1.2, "enroot-aufs2ovlfs: failed to set capabilities", seen).
    """
    pyxis = view.spec.software.pyxis
    if pyxis is None or any("+caps" in artifact.file for artifact in pyxis.enroot):
        return
    hint = "add the release's enroot+caps_VERSION_amd64.deb; without it image files still run"
    message = (
        "without enroot+caps nobody imports images of registries: neither corral image import nor "
        "srun --container-image=NAME"
    )
    yield Problem(("software", "pyxis", "enroot"), message, hint)


RULES: Final = (
    Rule("containers-source", Level.ERROR, "containers: pyxis without pyxis, or the reverse.",
         ("software.containers", "software.pyxis"), source),
    Rule("containers-files", Level.ERROR, "Files for Enroot and Pyxis that are of another kind.",
         ("software.pyxis",), files),
    Rule("containers-import", Level.INFO, "Enroot that cannot import images of registries.",
         ("software.pyxis",), importing),
)  # fmt: skip
