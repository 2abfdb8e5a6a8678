"""Numbers of the services' users: each its own, for one machine may hold all of them."""

from __future__ import annotations

import importlib
import pkgutil

from corral import roles


def test_no_two_services_have_one_number() -> None:
    """The user and its group have the same number (``UserAccount``)."""
    owners: dict[int, str] = {}
    for info in pkgutil.walk_packages(roles.__path__, f"{roles.__name__}."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if name != "UID" and not name.endswith("_UID"):
                continue
            assert isinstance(value, int)
            where = f"{info.name}.{name}"
            assert value not in owners, f"{where} and {owners.get(value)} are both {value}"
            owners[value] = where
    assert len(owners) >= 7, owners
    # Debian gives 60000 to 64999 to packages alone, each number by hand (Policy Manual 9.2.2).
    assert all(60000 <= number < 65000 for number in owners), owners
