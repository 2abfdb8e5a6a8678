from __future__ import annotations

from pathlib import Path

from corral.providers.cloud.ledger import Ledger, read
from corral.providers.cloud.model import Capacity, Instance, Label, Offer, State

OFFER = Offer("lambda", "h100", "west", "H100", 1, 26, 1024, 2.0, Capacity.SOME)


def test_life_of_a_rental(tmp_path: Path) -> None:
    clock = [1000.0]
    ledger = Ledger("lab", tmp_path, lambda: clock[0])
    label = Label("lab", "gpu0", "00000a")
    ledger.intent(label, OFFER)
    assert [r.open for r in ledger.rentals().values()] == [True]
    clock[0] += 60
    ledger.launched("00000a", "i-1")
    clock[0] += 3540
    ledger.ended("00000a")
    clock[0] += 9999
    rental = ledger.rentals()["00000a"]
    assert (rental.id, rental.open, rental.cost(clock[0])) == ("i-1", False, 2.0)
    assert ledger.path.stat().st_mode & 0o777 == 0o600


def test_refused_costs_nothing(tmp_path: Path) -> None:
    ledger = Ledger("lab", tmp_path, lambda: 0.0)
    ledger.intent(Label("lab", "gpu0", "00000a"), OFFER)
    ledger.refused("00000a", "capacity")
    assert ledger.rentals()["00000a"].cost(3600) == 0


def test_a_line_cut_off_by_a_crash_hides_nothing(tmp_path: Path) -> None:
    ledger = Ledger("lab", tmp_path, lambda: 1.0)
    ledger.intent(Label("lab", "gpu0", "00000a"), OFFER)
    with ledger.path.open("a") as file:
        file.write('{"at": 2, "kind": "laun')
    ledger.launched("00000a", "i-1")
    assert ledger.rentals()["00000a"].id == "i-1"


def test_unknown_instances_are_adopted(tmp_path: Path) -> None:
    ledger = Ledger("lab", tmp_path, lambda: 5000.0)
    label = Label("lab", "gpu0", "00000b")
    instance = Instance("runpod", "p1", label.name, label, State.RUNNING, price=3.0, created=1400.0)
    ledger.adopt(instance)
    ledger.adopt(instance)
    rental = ledger.rentals()["00000b"]
    assert (rental.id, rental.cost(5000.0)) == ("p1", 3.0)
    assert len(ledger.path.read_text().splitlines()) == 2


def test_nonsense_is_left_out() -> None:
    assert read(["", "[]", "{}", '{"kind": "intent", "nonce": "x"}', "nul"]) == {}
