"""The client file: what `corral login` reads on nodes where people log in. Pure."""

from __future__ import annotations

from typing import Final

from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.spec.client import PUBLISHED, published
from corral.spec.nodes import login_nodes_of
from corral.state.base import Desired
from corral.state.files import File


def on_login_nodes(site: Site) -> tuple[Share, ...]:
    """On the controller and where users may always log in, for everybody to read."""
    names = dict.fromkeys((site.controller, *login_nodes_of(site.spec)))
    desired = tuple(
        Desired((name,), (File(PUBLISHED, published(site.spec, name)),)) for name in names
    )
    return (Share(desired, title="the client file of corral login"),)


ROLE: Final = Role("client_file", {"login": on_login_nodes})
