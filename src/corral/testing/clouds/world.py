"""What all simulated clouds share: machines, capacity, money, limits and faults.

States follow from the clock, so the same cloud serves real time and a test's own.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from corral.testing.clouds.wire import NO_ANSWER, Answer, Request


class Fault(StrEnum):
    """What goes wrong with a call. ``AFTER`` ones have taken effect."""

    LOST = "lost"  # the request never arrives
    LIMITED = "429"
    FAILED = "500"  # refused with a failure, nothing done
    UNSEEN = "unseen"  # done, and the answer never comes
    GATEWAY = "502 after"  # done, and a gateway reports that it failed
    HALF = "half"  # done, and the answer is cut off
    STRANGE = "strange"  # done, and the answer is valid JSON of another shape
    SLOW_LIST = "slow list"  # done, and lists do not show what is new for a while


AFTER = frozenset((Fault.UNSEEN, Fault.GATEWAY, Fault.HALF, Fault.STRANGE, Fault.SLOW_LIST))


class Killed(BaseException):
    """The process that made the call ends here, by a signal: nothing of it runs any more."""


def _killed() -> None:
    raise Killed


@dataclass(slots=True)
class Faults:
    """Which call shows what.

    Args:
        at: fault by the number of the call, from 0.
        kill_before, kill_after: numbers of calls at which ``kill`` is called, before it takes
            effect or after; -1 for none.
        kill: what ends the caller: raises ``Killed``, or sends a signal.
    """

    at: dict[int, Fault] = field(default_factory=dict[int, Fault])
    kill_before: int = -1
    kill_after: int = -1
    kill: Callable[[], None] = _killed

    def of(self, call: int) -> Fault | None:
        """The fault of a call."""
        return self.at.get(call)


SLOW_LIST_S = 12.0
OTHER_SHAPE = {"unexpected": ["shape"]}


@dataclass(slots=True)
class Machine:
    """One rented machine.

    Attributes:
        id, name, type, region: as rented.
        price: dollars an hour.
        created: when it was rented, by the cloud's clock.
        gpus: GPUs.
        boot: what it runs at its first start, as the client gave it.
        keys: public keys that open it.
        ended: when it was terminated.
        stopped: when it was switched off.
        shown: from when on lists show it.
        broken: it never becomes usable, and costs money.
        address: where it is reached, once it runs.
        port: port of its sshd.
        more: what else the provider's answers contain.
    """

    id: str
    name: str
    type: str
    region: str
    price: float
    created: float
    gpus: int = 0
    boot: str = ""
    keys: tuple[str, ...] = ()
    ended: float | None = None
    stopped: float | None = None
    shown: float = 0.0
    broken: bool = False
    address: str = ""
    port: int = 22
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    def cost(self, now: float) -> float:
        """Dollars on the bill."""
        return max(0.0, (self.ended or self.stopped or now) - self.created) / 3600 * self.price


class Machines(Protocol):
    """What backs rented machines: containers, or nothing."""

    def start(self, machine: Machine) -> None:
        """Begin to boot it; sets ``address`` (and ``port``) when it is there."""
        ...

    def end(self, machine: Machine) -> None:
        """Remove it."""
        ...

    def ready(self, machine: Machine) -> bool:
        """Whether it has booted and its boot script has run."""
        ...


class Contract(Protocol):
    """Checks requests and answers against the provider's document."""

    def request(self, request: Request) -> list[str]:
        """What is wrong with a request; empty when it is as documented."""
        ...

    def answer(self, request: Request, answer: Answer) -> list[str]:
        """What is wrong with an answer."""
        ...


@dataclass(slots=True)
class Call:
    """One call that was made: when, what, what came of it."""

    at: float
    operation: str
    status: int
    fault: Fault | None = None


class Refused(Exception):  # noqa: N818 - a refusal is an answer here, no error of the simulator
    """The cloud refuses."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Sim:
    """A simulated cloud; a subclass has its routes.

    Args:
        key: the API key it takes.
        now: its clock.
        capacity: machines that are still available by (type, region); left out: as many as wanted.
        boot_s: seconds until a machine runs.
        end_s: seconds until a terminated machine is gone from lists.
        limits: seconds between calls, by limit name; left out: the provider's own.
        faults: what goes wrong.
        contract: the provider's document.
        machines: what backs them; None: machines that are there after ``boot_s``.
        quota: machines that the account may have at once.
    """

    name: ClassVar[str]
    gaps: ClassVar[Mapping[str, float]] = {}
    document: ClassVar[str]
    """Of the provider's API, as it was recorded: a file of ``tests/recorded/openapi``."""
    failure: ClassVar[Mapping[str, Any] | None] = None
    """As of ``contract.OpenApi``."""
    offer: ClassVar[tuple[str, str]]
    """Type with one GPU and region that tests take."""
    stops: ClassVar[bool] = True
    """Whether a machine can be switched off."""

    def __init__(
        self,
        *,
        key: str = "sim-key-0123456789",
        now: Callable[[], float] = time.time,
        capacity: Mapping[tuple[str, str], int] | None = None,
        boot_s: float = 60.0,
        end_s: float = 5.0,
        limits: Mapping[str, float] | None = None,
        faults: Faults | None = None,
        contract: Contract | None = None,
        machines: Machines | None = None,
        quota: int = 1000,
    ) -> None:
        self.key, self.now = key, now
        self.capacity = dict(capacity or {})
        self.boot_s, self.end_s, self.quota = boot_s, end_s, quota
        self.limits = dict(self.gaps if limits is None else limits)
        self.faults = faults or Faults()
        self.contract, self.behind = contract, machines
        self.rented: dict[str, Machine] = {}
        self.calls: list[Call] = []
        self.violations: list[str] = []
        self.breaking: set[str] = set()
        self.lame: dict[str, int] = {}
        self._next: dict[str, float] = {}
        self._ids = 0
        self._lock = threading.RLock()
        self._slow_until = 0.0

    # What a subclass has.

    def route(self, request: Request) -> Answer:
        """Carry out a request; raises ``Refused``."""
        raise NotImplementedError

    def refusal(self, status: int, code: str, message: str) -> Answer:
        """The provider's form of a refusal."""
        raise NotImplementedError

    def limit_of(self, request: Request) -> Sequence[str]:
        """The rate limits that a request counts under."""
        raise NotImplementedError

    # What all do.

    def handle(self, request: Request) -> Answer:
        """Answer one request, with its fault."""
        with self._lock:
            number = len(self.calls)
            fault = self.faults.of(number)
            call = Call(self.now(), request.operation, 0, fault)
            self.calls.append(call)
            if number == self.faults.kill_before:
                self.faults.kill()
            answer = self._with_fault(request, fault)
            call.status = answer.status
            if number == self.faults.kill_after:
                self.faults.kill()
            return answer

    def _with_fault(self, request: Request, fault: Fault | None) -> Answer:
        if fault is Fault.LOST:
            return NO_ANSWER
        if fault is Fault.LIMITED:
            return self._checked(request, self._limited(1.0))
        if fault is Fault.FAILED:
            failed = self.refusal(500, "global/internal-error", "internal error")
            return self._checked(request, failed)
        if fault is Fault.SLOW_LIST:
            self._slow_until = self.now() + SLOW_LIST_S
        answer = self._answer(request)
        return spoilt(answer, fault) if fault is not None and fault in AFTER else answer

    def _answer(self, request: Request) -> Answer:
        if not self._authorised(request):
            return self._checked(request, self.refusal(401, "global/invalid-api-key", "bad key"))
        wait = self._wait(request)
        if wait > 0:
            return self._checked(request, self._limited(wait))
        wrong = self.contract.request(request) if self.contract else []
        if wrong:
            self.violations += [f"{request.operation} request: {text}" for text in wrong]
        try:
            answer = self.route(request)
        except Refused as no:
            answer = self.refusal(no.status, no.code, no.message)
        return self._checked(request, answer)

    def _checked(self, request: Request, answer: Answer) -> Answer:
        for text in self.contract.answer(request, answer) if self.contract else []:
            self.violations.append(f"{request.operation} answer {answer.status}: {text}")
        return answer

    def _limited(self, wait: float) -> Answer:
        refused = self.refusal(429, "global/too-many-requests", "rate limit exceeded")
        return Answer(429, refused.body, {**refused.headers, "retry-after": str(round(wait + 0.5))})

    def _authorised(self, request: Request) -> bool:
        return request.headers.get("authorization", "") == f"Bearer {self.key}"

    def _wait(self, request: Request) -> float:
        now = self.now()
        names = self.limit_of(request)
        wait = max((self._next.get(n, 0.0) - now for n in names), default=0.0)
        # A little grace: clients pace by their own clock, and calls travel.
        if wait > 0.05:  # noqa: PLR2004
            return wait
        for name in names:
            self._next[name] = now + self.limits.get(name, 0.0)
        return 0.0

    def rent(self, machine: Machine) -> Machine:
        """Hand out a machine, if there is one.

        Raises:
            Refused: quota; capacity is the subclass's to word (``has_capacity``).
        """
        machine.shown = max(machine.created, self._slow_until)
        machine.broken = machine.type in self.breaking
        if self.lame.get(machine.type, 0) > 0:
            self.lame[machine.type] -= 1
            machine.more["lame"] = True
        key = (machine.type, machine.region)
        if key in self.capacity:
            self.capacity[key] -= 1
        self.rented[machine.id] = machine
        if self.behind:
            self.behind.start(machine)
        return machine

    def has_capacity(self, kind: str, region: str) -> bool:
        """True while one more is available."""
        return self.capacity.get((kind, region), 1) > 0

    def over_quota(self) -> bool:
        """True when the account has all it may have."""
        return len(self.alive()) >= self.quota

    def terminate(self, machine: Machine) -> None:
        """Take a machine back."""
        if machine.ended is None:
            machine.ended = self.now()
            key = (machine.type, machine.region)
            if key in self.capacity:
                self.capacity[key] += 1
            if self.behind:
                self.behind.end(machine)

    def identity(self, prefix: str) -> str:
        """A fresh id."""
        self._ids += 1
        return f"{prefix}{self._ids:08x}"

    def adopt(self, machines: Sequence[Machine]) -> None:
        """Take machines over from an earlier life; new ids stay clear of theirs."""
        self.rented = {machine.id: machine for machine in machines}
        self._ids = int(time.time()) & 0xFFFFFFF

    def listed(self) -> list[Machine]:
        """Machines that lists show now."""
        now = self.now()
        return [
            m
            for m in self.rented.values()
            if m.shown <= now and (m.ended is None or now < m.ended + self.end_s)
        ]

    def alive(self) -> list[Machine]:
        """Machines that cost money now, shown or not."""
        return [m for m in self.rented.values() if m.ended is None]

    def booted(self, machine: Machine) -> bool:
        """Whether it runs."""
        if machine.broken or self.now() < machine.created + self.boot_s:
            return False
        if self.behind:
            return self.behind.ready(machine)
        machine.address = machine.address or f"198.51.100.{len(self.rented) % 250 + 1}"
        return True

    def bill(self) -> float:
        """Dollars that the account owes."""
        return sum(m.cost(self.now()) for m in self.rented.values())


def spoilt(answer: Answer, fault: Fault) -> Answer:
    """The answer as it arrives, after the call took effect."""
    if fault is Fault.UNSEEN:
        return NO_ANSWER
    if fault is Fault.GATEWAY:
        return Answer(502, raw=b"<html>bad gateway</html>")
    if fault is Fault.STRANGE:
        return Answer(answer.status, OTHER_SHAPE)
    if fault is Fault.HALF:
        body = json.dumps(answer.body).encode() if answer.body is not None else b"{}"
        return Answer(answer.status, raw=body[: max(1, len(body) // 2)])
    return answer
