"""How the page of the controller is reached (``services: {ui: true}``)."""

from __future__ import annotations

from typing import Literal

from corral.spec.kinds import AbsolutePath, Address, Model, about


class Page(Model):
    """Where the controller's page listens, and by which names.

    It always listens on the controller's loopback, where ``corral ui --controller`` and a reverse
    proxy reach it.
    """

    listen: Literal["loopback", "control"] = about(
        "restart",
        "loopback: reached by a tunnel or a reverse proxy on the controller; control: on the "
        "controller's address of the control network too, by TLS, or plainly in a mesh.",
        default="loopback",
    )
    port: int = about("restart", "Its port.", default=8765, ge=1024, le=65535)
    names: tuple[Address, ...] = about(
        "restart",
        "Names by which browsers reach it: those of the certificate or of the reverse proxy.",
        default=(),
    )
    certificate: AbsolutePath | None = about(
        "restart",
        "File of the certificate and its chain on the controller, PEM (listen: control).",
        default=None,
    )
    key: AbsolutePath | None = about(
        "restart", "File of its private key there; root's alone is right.", default=None
    )
    hsts: bool = about(
        "restart",
        "Browsers that came by TLS use TLS alone for this name from then on, on every port of it "
        "(HSTS); false where another service of the same name has no TLS.",
        default=True,
    )
