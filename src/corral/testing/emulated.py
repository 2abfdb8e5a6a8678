"""Machines of a cluster in this process, which answer Corral's scripts over lossy links.

Facts are a recorded machine's. A resource is held once its change was made, and its probe answers
then as on a machine that holds it (``machines.ANSWERS``). Nothing is run: what is real is all that
Corral does on its own side, from the bytes of the answers to the next script.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

from corral.apply import connection, observation, run
from corral.errors import Code, CorralError
from corral.hosts.framing import Inquiry, Reports
from corral.hosts.openssh import Hops
from corral.hosts.quote import Script
from corral.hosts.transport import OnLine, Result
from corral.inspect.facts import facts_inquiry
from corral.providers.base import Provider
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.providers import OWNED
from corral.state.base import Change, Resource, probes
from corral.testing.machines import in_desired_state

_WORD: Final = re.compile(r"corral-[0-9a-f]{32}")
_PACKET: Final = 1448
"""Bytes of a script or an answer in one packet of 1,500."""


@dataclass(frozen=True, slots=True)
class Link:
    """How a machine is reached.

    Attributes:
        delay: seconds of a round trip.
        loss: share of packets that are lost, each of which costs ``again``.
        again: seconds until a lost packet is sent again (TCP's least is 0.2 s).
        give_up: seconds until a machine that does not answer is given up.
    """

    delay: float = 0.001
    loss: float = 0.001
    again: float = 0.2
    give_up: float = 10.0


@dataclass
class Traffic:
    """What went to the machines and came back."""

    scripts: int = 0
    sent: int = 0
    received: int = 0


@dataclass
class Emulated:
    """One machine.

    Attributes:
        node: its name.
        silent: it does not answer.
        broken: the last change of each stage fails.
    """

    node: str
    cluster: EmulatedCluster
    facts: Mapping[str, str]
    silent: bool = False
    broken: bool = False
    held: dict[str, str] = field(default_factory=dict[str, str])
    asked: dict[str, Resource] = field(default_factory=dict[str, Resource])

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        """Answer questions or a share of a stage; any other script prints nothing."""
        cluster = self.cluster
        if self.silent:
            await asyncio.sleep(cluster.link.give_up)
            raise CorralError(Code.UNREACHABLE, "does not answer", node=self.node)
        status, text = self._answer(script)
        cluster.traffic.scripts += 1
        cluster.traffic.sent += len(script) + len(stdin)
        cluster.traffic.received += len(text)
        await asyncio.sleep(cluster.seconds(len(script) + len(stdin) + len(text)))
        if on_line is not None:
            for line in text.splitlines():
                on_line(line)
        return Result(self.node, status, text, "emulated failure" if status else "")

    async def close(self) -> None:
        """Nothing is open."""

    def _answer(self, script: str) -> tuple[int, str]:
        parts: list[str] = []
        for word in dict.fromkeys(_WORD.findall(script)):
            if word in self.cluster.stages:
                return self._stage(word, self.cluster.stages[word])
            if word in self.cluster.facts:
                parts.append(
                    _framed(word, [self.facts.get(n, "") for n in self.cluster.facts[word]])
                )
            elif word in self.cluster.probes:
                resources = self.cluster.probes[word]
                self.asked.update({r.id: r for r in resources})
                parts.append(_framed(word, [self.held.get(r.id, "absent") for r in resources]))
        return 0, "".join(parts) or ("AAAA" if "base64 -w0" in script else "")

    def _stage(self, word: str, changes: Sequence[Change]) -> tuple[int, str]:
        lines: list[str] = []
        for at, change in enumerate(changes):
            lines.append(f"{word} start {at}\n")
            if self.broken and at == len(changes) - 1:
                return 9, "".join([*lines, f"{word} failed {at} 9\n"])
            resource = self.asked[change.resource]
            self.held[change.resource] = in_desired_state(resource).text
            lines.append(f"{word} done {at}\n")
        return 0, "".join(lines)


class EmulatedCluster:
    """The machines of ``spec``, and what Corral has asked of them.

    Args:
        count: how many machines.
        facts: a machine's answers to the questions for facts; its address is replaced.
        link: how each is reached.
        seed: of the losses.
    """

    def __init__(self, count: int, facts: Mapping[str, str], link: Link, *, seed: int = 1) -> None:
        self.link = link
        self.spec = _spec(count)
        self.traffic = Traffic()
        self.facts: dict[str, tuple[str, ...]] = {}
        self.probes: dict[str, tuple[Resource, ...]] = {}
        self.stages: dict[str, Sequence[Change]] = {}
        self._random = random.Random(seed)  # noqa: S311 - losses, not secrets
        self.machines = {
            f"n{at}": Emulated(f"n{at}", self, _at(facts, _address(at))) for at in range(count)
        }

    def seconds(self, size: int) -> float:
        """How long a script and its answer of so many bytes are on the way."""
        packets = 2 + size // _PACKET
        lost = sum(self._random.random() < self.link.loss for _ in range(packets))
        return self.link.delay + lost * self.link.again

    @contextmanager
    def in_place_of_ssh(self) -> Generator[None]:
        """Corral reaches these machines, and no others, by the scripts that it makes meanwhile."""
        with (
            patch.object(connection, "_transport", self._transport),
            patch.object(observation, "facts_inquiry", self._facts_inquiry),
            patch.object(observation, "inquiry_of", self._inquiry_of),
            patch.object(run, "stage_script", self._stage_script(run.stage_script)),
        ):
            yield

    def _transport(self, provider: Provider, node: str, hops: Hops) -> Emulated:
        return self.machines[node]

    def _facts_inquiry(self) -> Inquiry:
        made = facts_inquiry()
        self.facts[made.word] = made.names
        return made

    def _inquiry_of(self, resources: tuple[Resource, ...], made: dict[int, Script]) -> Inquiry:
        inquiry = Inquiry(probes(resources, made))
        self.probes[inquiry.word] = resources
        return inquiry

    def _stage_script(self, make: Callable[..., Script]) -> Callable[..., Script]:
        def made(changes: Sequence[Change], cluster: str, reports: Reports) -> Script:
            self.stages[reports.word] = changes
            return make(changes, cluster, reports)

        return made


def _framed(word: str, answers: Sequence[str]) -> str:
    marks = (f"{answer}\n{word} {at} 0\n" for at, answer in enumerate(answers, 1))
    return f"\n{word} 0 0\n" + "".join(marks)


def _address(at: int) -> str:
    return f"10.{at // 62_500}.{at // 250 % 250}.{at % 250 + 1}"


def _at(facts: Mapping[str, str], address: str) -> dict[str, str]:
    first = r"(?m)^(2: \S+ +inet )[0-9.]+"
    return {**facts, "addresses": re.sub(first, rf"\g<1>{address}", facts["addresses"])}


def _spec(count: int) -> ClusterSpec:
    addresses = ",".join(map(_address, range(count)))
    group: dict[str, Any] = {"nodes": f"n[0-{count - 1}]", "addresses": addresses}
    nodes = NodeGroup(name="cpu", provider=OWNED, **group)
    return ClusterSpec(corral="v1", name="emulated", groups=(nodes,))
