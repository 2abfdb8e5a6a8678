"""The key that all nodes share to know each other: made on the controller, copied to the others."""

from __future__ import annotations

from typing import Final

from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.roles.slurm import pods
from corral.state.base import Desired
from corral.state.files import Gone
from corral.state.secrets import Secret
from corral.state.service import Service

MUNGE_KEY: Final = "/etc/munge/munge.key"
SLURM_KEY: Final = "/etc/slurm/slurm.key"
SLURM_JWKS: Final = "/etc/slurm/slurm.jwks"


def made(site: Site) -> tuple[Share, ...]:
    """On the controller, one stage before the copies: they need it to exist."""
    return (Share((Desired((site.controller,), keys(site)),)),)


def copied(site: Site) -> tuple[Share, ...]:
    """On all other nodes; with munge its daemon on every node."""
    desired: list[Desired] = []
    others = tuple(n for n in site.names if n != site.controller)
    if others:
        desired.append(Desired(others, keys(site)))
    if site.auth == "munge":
        nodes = tuple(n for n in site.names if not site.is_pod(n))
        desired.append(Desired(nodes, (Service("munge", (MUNGE_KEY,)),)))
        desired += [Desired((n,), pods.munged((MUNGE_KEY,))) for n in site.pods]
    if not desired:
        return ()
    return (Share(tuple(desired), title=f"{site.auth} key from the controller"),)


def key(site: Site) -> Secret:
    """The key that all nodes share: munge.key or slurm.key."""
    if site.auth == "munge":
        # munged refuses a key that others can read (munge(8)); 1024 bytes is its maximum.
        return Secret(MUNGE_KEY, site.controller, "munge:munge", "400")
    return Secret(SLURM_KEY, site.controller, "slurm:slurm", "600")


def keys(site: Site) -> tuple[Secret, ...]:
    """All that the nodes share to know each other; slurm.jwks is there once keys were rotated."""
    if site.auth == "munge":
        return (key(site),)
    jwks = Secret(SLURM_JWKS, site.controller, "slurm:slurm", "600", optional=True)
    return (key(site), jwks)


def former_keys(site: Site) -> tuple[Gone, ...]:
    """Keys of auth/slurm that must not be there where munge is used.

    Before it has its files, slurmd (and sackd) takes auth/slurm when there is a slurm.key, or a
    slurm.jwks after a rotation: the controller would not understand it (seen with 24.11.5,
    "authentication plugin auth/slurm(103) not found", and slurmd never starts).
    """
    return (Gone(SLURM_KEY), Gone(SLURM_JWKS)) if site.auth == "munge" else ()


def key_paths(site: Site) -> tuple[str, ...]:
    return tuple(secret.path for secret in keys(site))


ROLE: Final = Role("auth_key", {"base": made, "keys": copied})
