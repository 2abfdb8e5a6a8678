"""Accounts of clouds: opened from the cluster file, their account-wide sets, a guard's keys.

An account's ssh keys and firewall rules belong to everybody who uses the account. A PUT of
one's own entry would throw all others out. Nothing is written that drops an entry.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import urlsplit

from corral import variables
from corral.errors import Code, CorralError
from corral.extras import missing_extra
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.client.secrets import PLACES, key_file, key_of, url_of
from corral.providers.cloud.model import CloudApi
from corral.providers.cloud.rehearsal import Rehearsal, rehearsal_of
from corral.spec.models import ClusterSpec
from corral.spec.nodes import has_guard
from corral.spec.providers import PROVIDERS, RENTALS
from corral.state.secrets import Watched
from corral.state_dir import state_dir


def open_account(provider: str, rehearsal: Rehearsal | None = None) -> CloudApi:
    """One account, by the key of this machine's user; or one of the simulated clouds.

    Raises:
        CorralError: NOT_FOUND, no key; USAGE, a bad one; MISSING_TOOL, the extra is not installed.
    """
    rental = RENTALS[provider]
    if rehearsal is not None:
        key, url = rehearsal.key, rehearsal.urls[provider]
    else:
        key, url = key_of(provider), url_of(provider)
    try:
        home: Any = import_module(f"{_folder(provider)}.client")
    except ModuleNotFoundError as error:
        title = rental.title
        raise missing_extra("clouds", title, error.name or str(error)) from error
    # A simulated cloud has the limits of the real one, and so its own pace.
    pacer = Pacer(state_dir() / "clouds" / "pace", f"{url} {key}", home.calls.GAPS)
    return getattr(home, rental.client)(url, key, pacer)


def calls_of(provider: str) -> str:
    """The module with the calls that list and end a cloud's machines."""
    return f"{_folder(provider)}.calls"


def _folder(provider: str) -> str:
    return f"corral.providers.{PROVIDERS[provider].folder}"


def providers_named(spec: ClusterSpec) -> tuple[str, ...]:
    """Clouds that the file names, as first choice or to fall back on."""
    names: dict[str, None] = {}
    for group in spec.groups:
        if group.capabilities.rents:
            names[group.provider] = None
            names |= dict.fromkeys(
                s.provider for s in (group.cloud.fallback if group.cloud else ())
            )
    return tuple(names)


def open_accounts(
    providers: Iterable[str], rehearsal: Rehearsal | None = None
) -> dict[str, CloudApi]:
    """Accounts by provider.

    Raises:
        CorralError: as ``open_account``.
    """
    return {name: open_account(name, rehearsal) for name in providers}


async def close_all(apis: Mapping[str, CloudApi], *, given: bool = False) -> None:
    """Give up the connections, unless somebody else gave them."""
    for api in () if given else apis.values():
        await api.close()


T = TypeVar("T")


async def change(
    read: Callable[[], Awaitable[Sequence[T]]],
    write: Callable[[Sequence[T]], Awaitable[None]],
    add: Sequence[T],
    confirm: Callable[[Sequence[T], Sequence[T]], bool],
    same: Callable[[T, T], bool] = lambda a, b: a == b,
) -> bool:
    """Add entries to a set that a cloud replaces as a whole; the others stay.

    Args:
        read: gives the set.
        write: replaces it.
        add: what must be in it.
        confirm: asked with the set before and after; False leaves it alone.
        same: whether two entries are one.

    Returns:
        True when the entries are in it.

    Raises:
        CorralError: STALE_PLAN, somebody else changed it meanwhile; PROVIDER_FAILED, entries are
            missing after it was written.
    """
    before = list(await read())
    fresh = [entry for entry in add if not any(same(entry, known) for known in before)]
    if not fresh:
        return True
    after = [*before, *fresh]
    if not confirm(before, after):
        return False
    if list(await read()) != before:
        raise CorralError(
            Code.STALE_PLAN,
            "somebody else changed the account's entries meanwhile",
            hint="run the same command again",
        )
    await write(after)
    now = list(await read())
    lost = [entry for entry in after if not any(same(entry, known) for known in now)]
    if lost:
        raise CorralError(
            Code.PROVIDER_FAILED,
            f"{len(lost)} entries are missing after the change",
            tail="\n".join(map(str, lost)),
            hint="put them back on the provider's page",
        )
    return True


def guard_key(cluster: str, cloud: str, environ: Mapping[str, str] = os.environ) -> str:
    """The key that goes to the controller: a separate one where there is one, else the user's.

    Raises:
        CorralError: as ``key_of``.
    """
    rehearsal = rehearsal_of(cluster)
    if rehearsal is not None:
        return rehearsal.key
    own = environ.get(variables.guard_key(cloud), "")
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
