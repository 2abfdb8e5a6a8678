"""Keys and addresses of the clouds that a controller's guard asks (docs/decisions/0044)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from corral.errors import CorralError
from corral.providers.cloud.accounts import calls_of, providers_named
from corral.providers.cloud.secrets import PLACES, key_file, key_of, url_of
from corral.providers.cloud.simulated import rehearsal_of
from corral.spec.models import ClusterSpec
from corral.spec.nodes import has_guard
from corral.state.guard_key import Watched


def guard_key(cluster: str, cloud: str, environ: Mapping[str, str] = os.environ) -> str:
    """The key that goes to the controller: a separate one where there is one, else the user's.

    Raises:
        CorralError: as ``key_of``.
    """
    rehearsal = rehearsal_of(cluster)
    if rehearsal is not None:
        return rehearsal.key
    own = environ.get(f"{cloud.upper()}_GUARD_API_KEY", "")
    file = key_file(f"{cloud}-guard")
    if own or file.exists():
        return key_of(cloud, {PLACES[cloud].variable: own}, file=file)
    return key_of(cloud)


def watched(spec: ClusterSpec, controller: str) -> tuple[Watched, ...]:
    """The clouds that the guard asks; nothing where the file has none.

    Args:
        spec: the cluster.
        controller: its address: simulated clouds are reached at its gateway.

    Raises:
        CorralError: a key is missing.
    """
    if not has_guard(spec):
        return ()
    clouds: list[Watched] = []
    rehearsal = rehearsal_of(spec.name)
    for cloud in providers_named(spec):
        key = guard_key(spec.name, cloud)
        url = url_of(cloud)
        if rehearsal is not None:
            parts = urlsplit(rehearsal.urls[cloud])
            gateway = f"{controller.rpartition('.')[0]}.1"
            url = f"http://{gateway}:{parts.port}{parts.path}"
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        clouds.append(Watched(cloud, url, digest, calls_of(cloud)))
    return tuple(clouds)


def key_bytes(cluster: str, cloud: str) -> bytes:
    """The key as it is written."""
    try:
        return guard_key(cluster, cloud).encode()
    except CorralError as error:
        error.hint = f"{error.hint}; or remove budget.guard"
        raise
