"""The registry of providers: each line is a folder, and what the folder declares is there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import corral.providers
from corral.providers import provider_class
from corral.spec.models import NodeGroup
from corral.spec.providers import CLOUDS, PROVIDERS, REGISTRY, RENTALS, either
from corral.testing.clouds import SIMS

FOLDER = Path(corral.providers.__file__).parent


def test_each_folder_of_a_provider_is_registered() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/provider.toml")} == set(REGISTRY)


@pytest.mark.parametrize("name", PROVIDERS)
def test_what_is_declared_is_there(name: str) -> None:
    one = PROVIDERS[name]
    assert set(one.unused) <= set(NodeGroup.model_fields)
    group = NodeGroup(name="gpu", provider=name, nodes="gpu0")
    assert group.capabilities is one
    kind: Any = provider_class(name)
    assert kind.owned is one.owned
    assert one.rents or kind.name == name
    assert bool(one.provider) is not one.rents


@pytest.mark.parametrize("name", CLOUDS)
def test_a_cloud_has_a_client_its_calls_and_a_simulator(name: str) -> None:
    home, rental = f"corral.providers.{PROVIDERS[name].folder}", RENTALS[name]
    client = getattr(import_module(f"{home}.client"), rental.client)
    calls = import_module(f"{home}.calls")
    assert client.name == calls.NAME == SIMS[name].name == name
    assert calls.GAPS["calls"] > 0 and callable(calls.instances) and callable(calls.terminate)
    assert import_module(f"{home}.errors").ROWS
    assert bool(client.told.no_dead_man) is not rental.ends_itself


def test_names_in_a_sentence() -> None:
    assert [either(n) for n in ((), ("a",), ("a", "b"), ("a", "b", "c"))] == [
        "", "a", "a or b", "a, b or c",
    ]  # fmt: skip
