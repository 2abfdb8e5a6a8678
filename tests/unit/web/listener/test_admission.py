"""How much of the server one peer, one session and all strangers may have."""

from __future__ import annotations

import socket

import pytest

from corral.web.listener.admission import PEER, SESSION, STRANGERS, Admission, Budget
from corral.web.listener.peers import Peer, Peers, network_of, on_this_machine
from corral.web.slurm.slurmrest import Login
from corral.web.users.sessions import RateLimit, Sessions
from tests.unit.web.fake import token


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def taken(budget: Budget, key: str, tries: int = 10_000) -> int:
    return sum(budget.take(key) for _ in range(tries))


def test_a_budget_fills_again() -> None:
    clock = Clock()
    budget = Budget(10, 40, clock)
    assert taken(budget, "a") == 40
    assert taken(budget, "b") == 40
    clock.now = 1.0
    assert taken(budget, "a") == 10
    clock.now = 100.0
    assert taken(budget, "a") == 40


def test_many_keys_are_forgotten_and_spent_ones_are_not() -> None:
    clock = Clock()
    budget = Budget(10, 40, clock)
    assert taken(budget, "spent") == 40
    for n in range(100_000):
        budget.take(f"key {n}")
    assert not budget.take("spent")
    clock.now = 5.0
    for n in range(200_000):
        budget.take(f"other {n}")
    assert len(budget._left) <= 200_000
    assert budget.take("spent")


def test_the_limit_of_tries_forgets_many_keys_too() -> None:
    clock = Clock()
    limit = RateLimit(3, 60, clock)
    for n in range(60_000):  # quadratic it would take minutes
        limit.take(f"key {n}")
    clock.now = 61.0
    for n in range(200_000):
        limit.take(f"other {n}")
    assert len(limit._seen) <= 200_000


def test_strangers_never_spend_what_a_session_has() -> None:
    clock = Clock()
    sessions = Sessions(3600, 3600)
    key, _ = sessions.open(Login("kim", token()))
    admission = Admission(sessions, clock)
    mine = f"a=b; corral_session_8765={key}".encode()
    peers = [Peer(f"10.0.0.{n}") for n in range(200)]
    admitted = sum(admission.stranger(peer) for peer in peers for _ in range(1000))
    assert admitted == STRANGERS[1]
    assert sum(bool(admission.viewer(mine)) for _ in range(5000)) == SESSION[1]
    clock.now = 3600.0
    admitted_again = sum(admission.stranger(peers[0]) for _ in range(1000))
    assert admitted_again == PEER[1] < STRANGERS[1]


@pytest.mark.parametrize(
    "head",
    [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\nCookie: other=1\r\n\r\n",
     b"GET / HTTP/1.1\r\nCookie: corral_session=" + b"A" * 43 + b"\r\n\r\n",
     b"corral_session=" * 4000, b"corral_session=\xff\xfe"],
)  # fmt: skip
def test_who_is_not_logged_in_is_a_stranger(head: bytes) -> None:
    assert Admission(Sessions(3600, 3600)).viewer(head) is None


@pytest.mark.parametrize(
    ("host", "network"),
    [("10.0.0.7", "10.0.0.7"), ("fd00:1:2:3:4:5:6:7", "fd00:1:2:3::/64"),
     ("fd00:1:2:3::9", "fd00:1:2:3::/64"), ("::ffff:10.0.0.7", "10.0.0.7"),
     ("fe80::1%eth0", "fe80::/64"), ("testclient", "testclient")],
)  # fmt: skip
def test_who_has_many_addresses_is_one_peer(host: str, network: str) -> None:
    assert network_of(host) == network


def test_loopback_is_this_machine() -> None:
    here = ("127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.3")
    assert all(on_this_machine(host) for host in here)
    assert not any(on_this_machine(host) for host in ("10.0.0.1", "fd00::1", "testclient", ""))


def test_a_service_may_speak_for_others_and_a_person_not() -> None:
    assert Peer("x", 33).service
    assert not Peer("x", 1000).service
    assert not Peer("x", None).service  # an unknown user vouches for nobody


def test_a_user_that_the_kernel_does_not_report_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown users share one limit, separate from every known user's."""
    monkeypatch.setattr(socket, "socket", _refused)

    class Accepted:
        family = socket.AF_INET

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", 8765

        def getpeername(self) -> tuple[str, int]:
            return "127.0.0.9", 40000

    assert Peers().of(Accepted()) == Peer("loopback uid unknown", None)  # type: ignore[arg-type]


def _refused(*_: object) -> None:
    raise OSError
