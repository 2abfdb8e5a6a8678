# Installed as: /usr/local/lib/corral/guard.py on the controller of a cluster with rented machines
# Started by: corral-guard.timer
# Runs as: root
"""The guard: watches what a cluster has rented, from its controller (docs/decisions/0044).

Installed as /usr/local/lib/corral/guard.py and run by corral-guard.timer; python3 and nothing else.
One round:

* machines of the cluster are found at the clouds by the label in their names, and counted;
* those that nobody needs are ended: nodes that Slurm has powered down, and nodes that the cluster
  file has not named for an hour;
* when budget.total is spent: rented nodes are drained and their jobs' time ends after the grace, so
  that Slurm sends each job the signal it asked for (sbatch --signal); then all machines are ended,
  and listed again until none is left.

It reads /etc/corral/guard.json and one key per cloud in /etc/corral/guard (mode 600), and keeps
/var/lib/corral/guard/state.json. It writes no key anywhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

CONF = Path("/etc/corral/guard.json")
KEYS = Path("/etc/corral/guard")
STATE = Path("/var/lib/corral/guard/state.json")
REASON = "corral: the budget is spent"
STRAY_S = 3600.0
"""A node that is being added stands at the cloud before it stands in the file here."""
ROUNDS = 2
"""A node that is powered down is ended when this many rounds in a row have seen it so."""
TRIES, TRY_S = 24, 5.0

Call = Callable[[str, str, str, Any], Any]
"""(cloud, method, path, body) gives the JSON of the answer; raises OSError or ValueError."""
Slurm = Callable[[Sequence[str]], str]
"""Runs one of Slurm's programs and gives its output; raises OSError."""


@dataclass(frozen=True)
class Found:
    """One machine at a cloud: whose node it is, and what it costs an hour."""

    cloud: str
    id: str
    node: str
    price: float
    created: float | None
    group: str = ""


def label(name: str, cluster: str) -> str:
    """The node in an instance's name, "" when it is not this cluster's (model.label_of)."""
    head, _, tail = name.rpartition("-")
    start = f"corral-{cluster}-"
    if not head.startswith(start) or not re.fullmatch(r"[0-9a-f]{14}", tail):
        return ""
    node = head[len(start) :]
    mark = hashlib.sha256(f"{cluster}\0{node}".encode()).hexdigest()[:8]
    return node if node and tail.startswith(mark) else ""


def _lambda(call: Call, cluster: str, _: object) -> list[Found]:
    gone = ("terminating", "terminated", "preempted")
    return [
        Found(
            "lambda",
            str(one["id"]),
            label(str(one.get("name", "")), cluster),
            one["instance_type"]["price_cents_per_hour"] / 100,
            _launched(one.get("tags") or []),
        )
        for one in call("lambda", "GET", "/api/v1/instances", None)["data"]
        if one["status"] not in gone
    ]


def _launched(tags: Sequence[Mapping[str, str]]) -> float | None:
    times = [tag["value"] for tag in tags if tag["key"] == "corral-launched"]
    return float(times[0]) if times and times[0].isdecimal() else None


def _runpod(call: Call, cluster: str, groups: Mapping[str, Sequence[str]]) -> list[Found]:
    every = call("runpod", "GET", "/v2/clusters", None)["clusters"]
    mine = {str(one["id"]): label(str(one["name"]), cluster) for one in every}
    found: list[Found] = []
    for pod in call("runpod", "GET", "/v2/pods?includeClusterPods=true", None)["pods"]:
        if pod["status"] == "TERMINATED":
            continue
        member: Mapping[str, Any] = pod.get("cluster") or {}
        group, rank = str(member.get("id", "")), member.get("rank")
        nodes = groups.get(mine.get(group, ""), ())
        node = label(str(pod["name"]), cluster) or (str(pod["name"]) if mine.get(group) else "")
        node = str(nodes[rank]) if rank is not None and rank < len(nodes) else node
        when = _time(pod.get("createdAt"))
        found.append(Found("runpod", str(pod["id"]), node, float(pod["cost"]), when, group))
    return found


def _paperspace(call: Call, cluster: str, _: object) -> list[Found]:
    found: list[Found] = []
    after = ""
    while True:
        page = call("paperspace", "GET", f"/machines?limit=100{after}", None)
        found += [
            Found(
                "paperspace",
                str(one["id"]),
                label(str(one["name"]), cluster),
                float(one["usageRate"] or 0),
                _time(one.get("dtCreated")),
            )
            for one in page["items"]
            if not one.get("dtDeleted")
        ]
        if not page["hasMore"]:
            return found
        after = f"&after={page['nextPage']}"


LISTS = {"lambda": _lambda, "runpod": _runpod, "paperspace": _paperspace}


def _time(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def end(one: Found, call: Call) -> None:
    """End one machine; a RunPod cluster goes as a whole, the only way there is."""
    if one.cloud == "lambda":
        call("lambda", "POST", "/api/v1/instance-operations/terminate", {"instance_ids": [one.id]})
    elif one.cloud == "paperspace":
        call("paperspace", "DELETE", f"/machines/{one.id}", None)
    elif one.group:
        call("runpod", "DELETE", f"/v2/clusters/{one.group}", None)
    else:
        call("runpod", "DELETE", f"/v2/pods/{one.id}", None)


class Round:
    """One round of the guard.

    Args:
        conf: what /etc/corral/guard.json says.
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
        self.said, self.failed = list[str](), False

    def run(self) -> None:
        """Look, count, end."""
        state = self.state
        found = self.look()
        spent = self.count(found)
        self.idle(found)
        total = self.conf.get("total")
        if total is not None and spent >= float(total):
            self.reached(found, spent, float(total))
        elif state.get("reached"):
            self.back()
        state["spent"], state["at"], state["failed"] = round(spent, 4), self.now(), self.failed

    def look(self) -> list[Found]:
        """All machines of the cluster; a cloud that does not answer is said, and tried again."""
        found, told = list[Found](), (str(self.conf["cluster"]), self.conf.get("groups", {}))
        for cloud in self.conf["clouds"]:
            try:
                found += [x for x in LISTS[cloud](self.call, *told) if x.node]
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.say(f"{cloud} was not listed: {error}", failed=True)
                # Counted on, as nobody has seen an end.
                found += [
                    Found(cloud, i, s["node"], s["price"], s["since"], s.get("group", ""))
                    for i, s in self.seen.items()
                    if s["cloud"] == cloud and not s["ended"]
                ]
        return found

    @property
    def seen(self) -> dict[str, dict[str, Any]]:
        """Every machine that any round has seen, by its id."""
        return self.state.setdefault("seen", {})

    def count(self, found: Sequence[Found]) -> float:
        """Dollars since the first launch, from the launch until its end was seen."""
        now = self.now()
        for one in found:
            since = min(one.created, now) if one.created else now
            fresh = {"cloud": one.cloud, "node": one.node, "since": since, "down": 0}
            kept = self.seen.setdefault(one.id, fresh)
            kept |= {"price": one.price, "until": now, "ended": False, "group": one.group}
        there = {one.id for one in found}
        for identity, kept in self.seen.items():
            if identity not in there and not kept["ended"]:
                kept |= {"until": now, "ended": True}
        return sum((k["until"] - k["since"]) / 3600 * k["price"] for k in self.seen.values())

    def idle(self, found: Sequence[Found]) -> None:
        """End what nobody needs."""
        states = self.states()
        for one in found:
            kept, words = self.seen[one.id], states.get(one.node, set[str]())
            off = one.node in self.conf["elastic"] and words & {"POWERED_DOWN", "POWERING_DOWN"}
            kept["down"] = kept["down"] + 1 if off else 0
            named = one.node in self.conf["nodes"] or bool(one.group)
            if kept["down"] >= ROUNDS:
                self.finish(one, "powered down by Slurm")
            elif not named and self.now() - kept["since"] >= STRAY_S:
                self.finish(one, "not in the cluster file")

    def states(self) -> dict[str, set[str]]:
        """State words by node; nothing while slurmctld does not answer."""
        try:
            text = self.slurm(("scontrol", "--oneliner", "show", "nodes"))
        except OSError:
            return {}
        rows = re.findall(r"^NodeName=(\S+) .*? State=(\S+)", text, re.MULTILINE)
        return {name: set(state.split("+")) for name, state in rows}

    def finish(self, one: Found, why: str) -> None:
        """End one machine and say so."""
        try:
            end(one, self.call)
            self.say(f"{one.node} ({one.cloud} {one.id}) ended: {why}")
        except (OSError, ValueError) as error:
            self.say(f"{one.node} ({one.cloud} {one.id}) could not be ended: {error}", failed=True)

    def reached(self, found: Sequence[Found], spent: float, total: float) -> None:
        """The budget is spent: drain and warn first, end when the grace is over."""
        grace = float(self.conf["grace"])
        nodes = sorted({one.node for one in found} & {*self.conf["nodes"]})  # known to Slurm
        if not self.state.get("reached"):
            self.state |= {"reached": self.now(), "ended": []}
            self.say(
                f"{spent:.2f} $ of {total:.2f} $ are spent: {','.join(nodes) or 'nothing'} "
                f"ends in {grace:.0f} s"
            )
        if not found:
            return
        left = self.state["reached"] + grace - self.now()
        if left > 0 and nodes and self.drain(nodes, left):
            return
        for _ in range(TRIES):
            for one in found:
                self.finish(one, f"{spent:.2f} $ of {total:.2f} $ are spent")
            self.wait(TRY_S)
            found = self.look()
            self.count(found)
            if not found:
                self.say("the clouds list nothing any more")
                return
        self.say(f"{len(found)} machines are still listed", failed=True)

    def drain(self, nodes: Sequence[str], left: float) -> bool:
        """No new jobs there, and an end for those that run; False when none runs any more."""
        names = ",".join(nodes)
        try:
            self.slurm(
                ("scontrol", "update", f"nodename={names}", "state=drain", f"reason={REASON}")
            )
            jobs = self.slurm(("squeue", "-h", "-w", names, "-t", "R,CG,S", "-o", "%A %t %M %L"))
        except OSError as error:
            self.say(f"slurmctld was not asked: {error}")
            return True
        rows = [line.split() for line in jobs.splitlines() if line.strip()]
        when = datetime.fromtimestamp(self.now() + left).strftime("%Y-%m-%dT%H:%M:%S")
        ended: list[str] = self.state.setdefault("ended", [])
        for job, state, ran, remains in rows:
            late = 120 if job in ended else 60  # Slurm rounds ends to minutes, 90 s at most
            if state != "CG" and seconds(remains) > left + late:
                # An end without a limit sends no signal (24.11.5): the limit comes first.
                limit = int((seconds(ran) + left) // 60 + 2)
                try:
                    self.slurm(("scontrol", "update", f"jobid={job}", f"timelimit={limit}"))
                    self.slurm(("scontrol", "update", f"jobid={job}", f"endtime={when}"))
                    ended.append(job)
                    self.say(f"job {job} ends at {when}: Slurm sends the signal that it asked for")
                except OSError as error:
                    self.say(f"job {job} keeps its time: {error}")
        return bool(rows)

    def back(self) -> None:
        """The budget has been raised: what this guard drained takes jobs again."""
        self.state.pop("reached")
        try:
            text = self.slurm(("sinfo", "-h", "-N", "-o", "%N|%E"))
            mine = sorted({row.split("|")[0] for row in text.splitlines() if row.endswith(REASON)})
            if mine:
                self.slurm(("scontrol", "update", f"nodename={','.join(mine)}", "state=resume"))
                self.say(f"{','.join(mine)} takes jobs again: the budget was raised")
        except OSError as error:
            self.say(f"slurmctld was not asked: {error}")

    def say(self, text: str, *, failed: bool = False) -> None:
        """Keep a line for the journal and the state."""
        self.failed |= failed
        self.said.append(text)


def seconds(text: str) -> float:
    """``[days-][hours:]minutes:seconds`` in seconds; a word, such as UNLIMITED, is for ever."""
    days, _, clock = text.rpartition("-")
    try:
        total = 0
        for part in clock.split(":"):
            total = total * 60 + int(part)
        return total + int(days or 0) * 86400
    except ValueError:
        return float("inf")


def caller(urls: Mapping[str, str], keys: Mapping[str, str]) -> Call:
    """Speaks to clouds over HTTPS; 404 on an end is an end, 429 is waited out."""

    def call(cloud: str, method: str, path: str, body: Any) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {keys[cloud]}", "User-Agent": "corral-guard",
                   "Content-Type": "application/json"}  # fmt: skip
        request = urllib.request.Request(urls[cloud] + path, data, headers, method=method)  # noqa: S310
        for pause in (2.0, 5.0, 15.0, 0.0):
            time.sleep(1.1)  # Lambda takes one call a second
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                    text = answer.read()
                    return json.loads(text) if text.strip() else None
            except urllib.error.HTTPError as error:
                if error.code == 404 and method != "GET":  # noqa: PLR2004
                    return None
                if error.code not in (429, 502, 503) or not pause:
                    raise OSError(f"HTTP {error.code}") from error
                time.sleep(pause)
        raise OSError("no answer")

    return call


def slurm(argv: Sequence[str]) -> str:
    """Run one of Slurm's programs; raises OSError when it does not answer."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
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
        keys = {cloud: (KEYS / f"{cloud}.key").read_text().strip() for cloud in conf["clouds"]}
        try:
            state: dict[str, Any] = json.loads(STATE.read_text())
        except (FileNotFoundError, ValueError):  # spoilt by a power cut: clouds know the launches
            state = {}
        turn = Round(conf, state, caller(conf["clouds"], keys), slurm)
        try:
            turn.run()
        finally:
            state["said"] = (turn.said or state.get("said", []))[-20:]
            fresh = STATE.with_suffix(".new")
            fresh.write_text(json.dumps(state))
            fresh.replace(STATE)
            print("\n".join(turn.said))
        return 1 if turn.failed else 0


if __name__ == "__main__":
    sys.exit(main())
