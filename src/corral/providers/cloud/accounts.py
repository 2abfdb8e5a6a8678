"""Opens the accounts that a cluster file names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from corral.extras import missing_extra
from corral.providers.cloud.model import CloudApi
from corral.providers.cloud.rate_limit import Pacer
from corral.providers.cloud.secrets import key_of, url_of
from corral.providers.cloud.simulated import Rehearsal
from corral.spec.models import ClusterSpec
from corral.spec.providers import PROVIDERS, RENTALS
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
