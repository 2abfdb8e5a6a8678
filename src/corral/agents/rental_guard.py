# Installed as: /usr/local/lib/corral/guard.py on the controller of a cluster with rented machines
# (roles/services/rental_guard)
# Started by: corral-guard.timer
# Runs as: root
"""The guard: watches what a cluster has rented, from its controller (docs/decisions/0044).

Installed as /usr/local/lib/corral/guard.py and run by corral-guard.timer; python3 and nothing else.
Next to it, in clouds/, are those modules of Corral's own clients that list and end machines: this
program carries their calls out. One round:

* machines of the cluster are found at the clouds by the label in their names, and counted;
* those that nobody needs are ended: nodes that Slurm has powered down, and nodes that the cluster
  file has not named for an hour;
* when of budget.total only that is left which the end itself costs: rented nodes are drained and
  their jobs' time ends after the grace, so that Slurm sends each job the signal it asked for
  (sbatch --signal); then all machines are ended, and listed again until none is left.

It reads /etc/corral/guard.json and one key per cloud in /etc/corral/guard (mode 600), and stores
/var/lib/corral/guard/state.json. It writes no key anywhere.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlencode

CONF = Path("/etc/corral/guard.json")
KEYS = Path("/etc/corral/guard")
CLOUDS = Path("/usr/local/lib/corral/clouds")
STATE = Path("/var/lib/corral/guard/state.json")
WIND_DOWN = Path("/usr/local/lib/corral/wind-down.sh")
STRAY_S = 3600.0
"""A node that is being added is at the cloud before it is in the file here."""
ROUNDS = 2
"""A node that is powered down is ended when this many rounds in a row have seen it so."""
TRIES, TRY_S = 24, 5.0

CALLS = "corral.providers.cloud.calls"
"""Copied with every client; has what refusals mean by their status."""
ANSWERS = "corral.providers.cloud.response"
"""Copied with every client; reads what clouds send."""
SLURM_S = 300.0
"""Each command of the programs has 20 s."""
PAUSES_S = (2.0, 5.0, 15.0, 0.0)
CLOUD_S = 240.0
"""A list that takes longer ends in an error; and a cloud whose calls took longer in one round ends
no idle machines in it: the round has 30 minutes for all clouds."""
CALL_S = 90.0
"""Of one call in all: urllib's limit is that of one read, and single bytes may come without end."""
ANSWER_MAX = 16 << 20
LINE = 300
"""Characters of an error that are reported."""

Call = Callable[[str, str, str, Any], Any]
"""(cloud, method, path, body) gives the JSON of the answer; raises OSError or ValueError."""
Slurm = Callable[[Sequence[str]], str]
"""Runs a program that speaks to Slurm and gives its output; raises OSError."""


@dataclass(frozen=True)
class RentedMachine:
    """One machine at a cloud: whose node it is, and what it costs an hour."""

    cloud: str
    id: str
    node: str
    price: float | None
    created: float | None
    group: str = ""


class Refused(OSError):  # noqa: N818  # a cloud's refusal, with its HTTP status
    """A cloud refused a call."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class Client(Protocol):
    """The calls of one cloud: ``calls.py`` of its provider, as Corral's own client makes them."""

    GAPS: Mapping[str, float]

    def instances(self) -> Generator[Any, Any, Sequence[Any]]:
        """All machines of the account."""
        ...

    def terminate(self, machines: Sequence[Any]) -> Generator[Any, Any, None]:
        """End them."""
        ...


class Round:
    """One round of the guard.

    Args:
        conf: the contents of /etc/corral/guard.json.
        state: what the last round left; changed in place.
        call: speaks to clouds.
        slurm: runs Slurm's programs.
        now, wait: Unix seconds; sleeps.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        state: dict[str, Any],
        call: Call,
        slurm: Slurm,
        *,
        now: Callable[[], float] = time.time,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.conf, self.state, self.call = conf, state, call
        self.slurm, self.now, self.wait = slurm, now, wait
        self.messages, self.failed, self.made = list[str](), False, ""
        self.took = defaultdict[str, float](float)

    def run(self) -> None:
        """Look, count, end."""
        state = self.state
        machines = self.rentals()
        spent = self.count(machines)
        self.idle(machines)
        total = self.conf.get("total")
        # What has ended costs nothing any more, and nothing else may begin in its place.
        rate = max(sum(m.price or 0.0 for m in machines), float(state.get("rate", 0.0)))
        if total is not None and spent + self.reserved(rate) >= float(total):
            state["rate"] = rate
            self.reached(machines, spent, float(total))
        elif state.get("reached"):
            self.back()
        state["spent"], state["at"], state["failed"] = round(spent, 4), self.now(), self.failed

    def reserved(self, rate: float) -> float:
        """Dollars that the end of what runs may cost."""
        # A guard.json of an earlier Corral has no `ending`: `corral up` writes this program first.
        return rate * float(self.conf.get("ending", self.conf["grace"])) / 3600

    def rentals(self) -> list[RentedMachine]:
        """All machines of the cluster; a cloud that does not answer is logged, and tried again."""
        machines = list[RentedMachine]()
        for cloud in self.conf["clouds"]:
            self.made = "its client"
            try:
                listed = self.carry_out(cloud, self.client(cloud).instances())
                machines += [mine for instance in listed if (mine := self.mine(cloud, instance))]
            except Exception as error:  # whatever it is, the other clouds' machines are counted
                self.report(f"{cloud} was not listed: {self.made}: {_words(error)}", failed=True)
                # Counted on, as nobody has seen an end.
                machines += [
                    RentedMachine(cloud, i, s["node"], s["price"], s["since"], s.get("group", ""))
                    for i, s in self.seen.items()
                    if s["cloud"] == cloud and not s["ended"]
                ]
        return machines

    def client(self, cloud: str) -> Client:
        """The calls of one cloud."""
        return cast("Client", import_module(self.conf["clients"][cloud]))

    def carry_out(self, cloud: str, steps: Generator[Any, Any, Any]) -> Any:
        """Make calls, one after the other, as the client's ``Caller.run`` does."""
        began = self.now()
        try:
            return self._carry_out(cloud, steps, began + CLOUD_S)
        finally:
            self.took[cloud] += max(0.0, self.now() - began)

    def _carry_out(self, cloud: str, steps: Generator[Any, Any, Any], end: float) -> Any:
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as done:
                return done.value
            if self.now() > end:  # each page has a limit, and there may be any number of them
                raise TimeoutError(f"not complete after {CLOUD_S:g} s")
            path = f"{step.path}?{urlencode(step.query)}" if step.query else step.path
            self.made = f"{step.method} {step.path}"
            try:
                result = step.read(self.call(cloud, step.method, path, step.body))
            except Refused as error:
                if import_module(CALLS).BY_STATUS.get(error.status) not in step.tolerated:
                    raise
                result = None

    def mine(self, cloud: str, instance: Any) -> RentedMachine | None:
        """A machine as it is counted, None where it is another cluster's or ended."""
        label = instance.label
        if label is None or label.cluster != self.conf["cluster"] or not instance.state.exists:
            return None
        node = label.node
        if instance.group:  # its label names a group of nodes
            members = self.conf.get("groups", {}).get(label.node, ())
            known = 0 <= instance.rank < len(members)
            node = members[instance.rank] if known else instance.name
        return RentedMachine(
            cloud, instance.id, node, instance.price, instance.created, instance.group
        )

    @property
    def seen(self) -> dict[str, dict[str, Any]]:
        """Every machine that any round has seen, by its id."""
        return self.state.setdefault("seen", {})

    def count(self, machines: Sequence[RentedMachine]) -> float:
        """Dollars since the first launch, from the launch until its end was seen."""
        now = self.now()
        for machine in machines:
            since = min(machine.created, now) if machine.created else now
            fresh = {"cloud": machine.cloud, "node": machine.node, "since": since, "down": 0}
            if machine.id not in self.seen and machine.price is None:
                self.report(
                    f"{machine.node} ({machine.cloud} {machine.id}): price unknown, not in the sum"
                )
            kept = self.seen.setdefault(machine.id, fresh)
            kept |= {"price": machine.price, "until": now, "ended": False, "group": machine.group}
        there = {machine.id for machine in machines}
        for identity, kept in self.seen.items():
            if identity not in there and not kept["ended"]:
                kept |= {"until": now, "ended": True}
        return sum(
            (k["until"] - k["since"]) / 3600 * (k["price"] or 0.0) for k in self.seen.values()
        )

    def idle(self, machines: Sequence[RentedMachine]) -> None:
        """End what nobody needs."""
        powered_off = self.powered_off()
        idle = list[tuple[RentedMachine, str]]()
        for machine in machines:
            kept = self.seen[machine.id]
            off = machine.node in self.conf["elastic"] and machine.node in powered_off
            kept["down"] = kept["down"] + 1 if off else 0
            named = machine.node in self.conf["nodes"] or bool(machine.group)
            if kept["down"] >= ROUNDS:
                idle.append((machine, "powered down by Slurm"))
            elif not named and self.now() - kept["since"] >= STRAY_S:
                idle.append((machine, "not in the cluster file"))
        for machine, why in self.quick_first(idle):
            if self.took[machine.cloud] <= CLOUD_S:
                self.finish(machine, why)
            else:
                self.report(f"{machine.node} stays until the next round: {machine.cloud} is slow")

    def quick_first(
        self, machines: Sequence[tuple[RentedMachine, str]]
    ) -> Iterator[tuple[RentedMachine, str]]:
        """Those of the cloud first whose calls took least in this round, so that none waits."""
        left = list(machines)
        while left:
            yield left.pop(min(range(len(left)), key=lambda at: self.took[left[at][0].cloud]))

    def powered_off(self) -> set[str]:
        """Nodes whose machine Slurm has ended or ends; none while slurmctld does not answer."""
        try:
            return set(self.wind_down("powered-off"))
        except OSError:
            return set()

    def finish(self, machine: RentedMachine, why: str) -> None:
        """End one machine and log it."""
        name = f"{machine.node} ({machine.cloud} {machine.id})"
        self.made = "its client"
        try:
            self.carry_out(machine.cloud, self.client(machine.cloud).terminate([machine]))
            self.report(f"{name} ended: {why}")
        except Exception as error:  # the other machines are ended all the same
            self.report(f"{name} could not be ended: {self.made}: {_words(error)}", failed=True)

    def reached(self, machines: Sequence[RentedMachine], spent: float, total: float) -> None:
        """The budget is nearly spent: drain and warn first, end when the grace is over."""
        grace = float(self.conf["grace"])
        nodes = sorted({m.node for m in machines} & {*self.conf["nodes"]})  # known to Slurm
        if not self.state.get("reached"):
            self.state["reached"] = self.now()
            self.report(
                f"{spent:.2f} $ of {total:.2f} $ are spent: {','.join(nodes) or 'nothing'} "
                f"ends in {grace:.0f} s"
            )
        if not machines:
            return
        left = self.state["reached"] + grace - self.now()
        if left > 0 and nodes and self.drain(nodes, left):
            return
        text = f"{spent:.2f} $ of {total:.2f} $ are spent"
        for _ in range(TRIES):
            for machine, why in self.quick_first([(machine, text) for machine in machines]):
                self.finish(machine, why)
            self.wait(TRY_S)
            machines = self.rentals()
            self.count(machines)
            if not machines:
                self.report("the clouds list nothing any more")
                return
        self.report(f"{len(machines)} machines are still listed", failed=True)

    def drain(self, nodes: Sequence[str], left: float) -> bool:
        """No new jobs there, and an end for those that run; False when none runs any more."""
        names, last = ",".join(nodes), int(self.now() + left)
        try:
            *lines, running = self.wind_down("end", names, str(last))
        except (OSError, ValueError) as error:
            self.report(f"slurmctld was not asked: {error}")
            return True
        for line in lines:
            self.report(line)
        return running != "running 0"

    def back(self) -> None:
        """The budget has been raised: what this guard drained takes jobs again."""
        self.state.pop("reached")
        self.state.pop("rate", None)
        try:
            for line in self.wind_down("back"):
                self.report(line)
        except OSError as error:
            self.report(f"slurmctld was not asked: {error}")

    def wind_down(self, *words: str) -> list[str]:
        """The lines of the program that reads and drains nodes and limits their jobs."""
        return self.slurm(("sh", str(WIND_DOWN), *words)).splitlines()

    def report(self, text: str, *, failed: bool = False) -> None:
        """Keep a line for the journal and the state."""
        self.failed |= failed
        # A cloud's name of a machine may hold what no encoding can print.
        self.messages.append(text.encode("utf-8", "backslashreplace").decode())


def _words(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:LINE]}"


class Stay(urllib.request.HTTPRedirectHandler):
    """No redirect is followed: it would carry the key to another place."""

    def redirect_request(  # noqa: PLR0917  # urllib's own signature
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any
    ) -> None:
        """None, for which urllib raises HTTPError."""


@contextmanager
def within(limit: float) -> Generator[None]:
    """End what takes longer, by TimeoutError; in the main thread."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"the answer is not complete after {limit:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def content(text: bytes) -> Any:
    """The JSON of an answer, None for an empty one; raises ValueError for anything else."""
    if len(text) > ANSWER_MAX:
        raise ValueError("the answer is too long")
    if not text.strip():
        return None
    return import_module(ANSWERS).strict_json(text)


def key_of(cloud: str) -> str:
    """A cloud's key; raises OSError or ValueError where there is none."""
    key = (KEYS / f"{cloud}.key").read_text(encoding="utf-8").strip()
    if not (key and key.isascii() and key.isprintable()):
        raise ValueError(
            f"{cloud}.key is empty, or not one line"
        )  # else urllib's error has the key
    return key


def caller(urls: Mapping[str, str], key: Callable[[str], str], clients: Mapping[str, str]) -> Call:
    """Speaks to clouds over HTTPS, at each one's pace; 429 is waited out."""
    opener = urllib.request.build_opener(Stay)

    def call(cloud: str, method: str, path: str, body: Any) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        headers = {
            "Authorization": f"Bearer {key(cloud)}",
            "User-Agent": "corral-guard",
            "Content-Type": "application/json",
        }
        request = urllib.request.Request(urls[cloud] + path, data, headers, method=method)  # noqa: S310
        gap = cast("Client", import_module(clients[cloud])).GAPS["calls"] + 0.1
        for pause in PAUSES_S:
            time.sleep(gap)
            try:
                with within(CALL_S), opener.open(request, timeout=60) as answer:
                    return content(answer.read(ANSWER_MAX + 1))
            except urllib.error.HTTPError as error:
                if error.code not in (429, 502, 503) or not pause:
                    raise Refused(error.code) from error
                time.sleep(pause)
        raise OSError("no answer")

    return call


def slurm(argv: Sequence[str]) -> str:
    """Run one of these programs, times in Unix seconds; raises OSError without an answer."""
    environ = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(
            argv,
            env=environ,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SLURM_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{argv[0]} does not answer") from error
    if done.returncode:
        raise OSError(f"{argv[0]}: {done.stderr.strip()[-200:]}")
    return done.stdout


def main() -> int:
    """One round, unless another one runs."""
    STATE.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (STATE.parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        conf = json.loads(CONF.read_text())
        try:
            state: dict[str, Any] = json.loads(STATE.read_text())
        except (FileNotFoundError, ValueError):  # damaged by a power cut: clouds know the launches
            state = {}
        turn = Round(conf, state, caller(conf["clouds"], key_of, conf["clients"]), slurm)
        try:
            turn.run()
        finally:
            # `said`: the key in 0.1.
            before = state.get("messages", state.pop("said", []))
            state["messages"] = (turn.messages or before)[-20:]
            fresh = STATE.with_suffix(".new")
            fresh.write_text(json.dumps(state))
            fresh.replace(STATE)
            print("\n".join(turn.messages))
        return 1 if turn.failed else 0


if __name__ == "__main__":
    sys.path.insert(0, str(CLOUDS))
    sys.exit(main())
