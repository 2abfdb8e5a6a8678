"""Rules about containers in jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.spec.findings import Level
from corral.spec.view import Problem, Rule, View


def source(view: View) -> Iterator[Problem]:
    """What has no effect."""
    software = view.spec.software
    pyxis = software.pyxis
    if pyxis is None:
        return
    if software.containers == "none":
        hint = "write containers: pyxis, or leave it out"
        yield Problem(("software", "pyxis"), "it has no effect without containers: pyxis", hint)
    if pyxis.mirror and pyxis.enroot and pyxis.source:
        hint = "leave it out, or enroot and source"
        message = "it has no effect: enroot and source name all files"
        yield Problem(("software", "pyxis", "mirror"), message, hint)


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
    tar = (".tar.gz", ".tgz", ".tar.xz", ".tar")
    if pyxis.source and not pyxis.source.file.endswith(tar):
        at = ("software", "pyxis", "source", "file")
        yield Problem(at, "this is not a source archive", "the release's .tar.gz")


def importing(view: View) -> Iterator[Problem]:
    """Enroot whose users may not turn a registry's layers into an image.

    That takes two capabilities outside of any user namespace, which only enroot+caps gives
    (enroot 4.1.2, "enroot-aufs2ovlfs: failed to set capabilities", seen).
    """
    pyxis = view.spec.software.pyxis
    if pyxis is None or not pyxis.enroot or any("+caps" in a.file for a in pyxis.enroot):
        return
    hint = "add the release's enroot+caps_VERSION_amd64.deb; without it image files still run"
    message = (
        "without enroot+caps nobody imports images of registries: neither corral image import nor "
        "srun --container-image=NAME"
    )
    yield Problem(("software", "pyxis", "enroot"), message, hint)


RULES: Final = (
    Rule("containers-source", Level.ERROR, "pyxis, or its mirror, without effect.",
         ("software.containers", "software.pyxis"), source),
    Rule("containers-files", Level.ERROR, "Files for Enroot and Pyxis that are of another kind.",
         ("software.pyxis",), files),
    Rule("containers-import", Level.INFO, "Enroot that cannot import images of registries.",
         ("software.pyxis",), importing),
)  # fmt: skip
