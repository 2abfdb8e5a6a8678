"""The podman program: the only place that runs it. Argument lists, never a shell."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, Protocol, cast

from corral.errors import Code, CorralError
from corral.hosts import process
from corral.tables import Hint, hints_for, read_table

TAIL_LINES: Final = 12
REMOVAL_S: Final = 600.0
"""For images and volumes, seconds: with three busy loops on two cores a node image took over a
minute, and users' data can be larger. A podman that is ended in the middle leaves half of it."""
INSTALL: Final = "apt install podman runc (as root)"

Fields = Mapping[str, Any]


class Run(Protocol):
    """How a program is run: ``hosts.process.run``, or a recorded one in tests."""

    async def __call__(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float
    ) -> process.Ended:
        """Run it to its end."""
        ...


class Podman:
    """Podman with its global options.

    Args:
        options: global options before the verb, such as ``("--runtime", "runc")``.
        run: what runs it.
    """

    def __init__(self, options: Sequence[str] = (), run: Run = process.run) -> None:
        self._base = ("podman", *options)
        self._run = run

    @property
    def base(self) -> tuple[str, ...]:
        """The program and its global options."""
        return self._base

    async def ended(
        self, *args: str, stdin: bytes = b"", timeout: float = 60.0, node: str = ""
    ) -> process.Ended:
        """Run ``podman ARGS`` and give its end, whatever its exit status.

        Raises:
            CorralError: MISSING_TOOL or TIMED_OUT.
        """
        argv = [*self._base, *args]
        try:
            return await self._run(argv, stdin=stdin, timeout=timeout)
        except TimeoutError as error:
            raise CorralError(
                Code.TIMED_OUT,
                f"podman {args[0]} did not end within {timeout:.0f} s",
                node=node,
                command=" ".join(argv),
                hint="look for a podman that hangs: ps -ef | grep podman",
            ) from error
        except CorralError as error:
            if error.code is Code.MISSING_TOOL:
                error.hint = INSTALL
            raise

    async def text(
        self,
        *args: str,
        stdin: bytes = b"",
        timeout: float = 60.0,
        node: str = "",
        what: str = "",
        hint: str = "",
    ) -> str:
        """Run ``podman ARGS`` and give what it printed.

        Args:
            args: verb and its arguments.
            stdin: what it reads.
            timeout: seconds.
            node: the node it is about.
            what: what failed, in words, when it fails.
            hint: likely cause and what to do, when it fails.

        Raises:
            CorralError: PROVIDER_FAILED, MISSING_TOOL or TIMED_OUT.
        """
        end = await self.ended(*args, stdin=stdin, timeout=timeout, node=node)
        if end.status != 0:
            tail = _tail(end.stderr) or _tail(end.stdout)
            raise CorralError(
                Code.PROVIDER_FAILED,
                what or f"podman {args[0]} failed",
                node=node,
                command=" ".join([*self._base, *args]),
                status=end.status,
                tail=tail,
                hint=_known(tail) or hint,
            )
        return end.stdout.decode(errors="replace")

    async def ensure(self, kind: str, name: str, *options: str, hint: str = "") -> None:
        """Create a network or a volume that is not there yet.

        A killed Corral's podman may be creating it at this moment: that is not a failure.

        Raises:
            CorralError: PROVIDER_FAILED, MISSING_TOOL or TIMED_OUT.
        """
        if (await self.ended(kind, "exists", name)).status == 0:
            return
        try:
            await self.text(kind, "create", *options, name, hint=hint)
        except CorralError:
            if (await self.ended(kind, "exists", name)).status != 0:
                raise

    async def records(self, *args: str) -> list[Fields]:
        """Run ``podman ARGS --format json`` and give its records.

        Raises:
            CorralError: PARSE_FAILED, and what ``text`` raises.
        """
        text = await self.text(*args, "--format", "json")
        try:
            records = json.loads(text or "[]")
        except json.JSONDecodeError as error:
            raise CorralError(
                Code.PARSE_FAILED,
                f"podman {args[0]} printed no JSON",
                command=" ".join([*self._base, *args]),
                tail=text[-500:],
                hint="Corral knows podman 4.3 to 5",
            ) from error
        return cast("list[Fields]", records or [])


def _tail(output: bytes) -> str:
    return "\n".join(output.decode(errors="replace").strip().splitlines()[-TAIL_LINES:])


@cache
def podman_errors() -> tuple[Hint, ...]:
    """Failures of podman that were seen: the table ``podman_errors.yaml``."""
    return read_table("corral.providers.containers", "podman_errors.yaml", tuple[Hint, ...])


def _known(tail: str) -> str:
    """The cause of a failure that was seen before, "" when there is none."""
    low = tail.lower()
    return next(iter(hints_for(podman_errors(), low)), "")


def subnets(network: Fields) -> tuple[str, list[str]]:
    """Name and subnets of a record of ``network ls``.

    Podman 3.4 (Ubuntu 22.04) prints CNI's own configuration, in which the subnets are in base64.
    """
    if "name" in network:
        return str(network["name"]), [str(s["subnet"]) for s in network.get("subnets") or ()]
    cidrs: list[str] = []
    for plugin in _cni_plugins(network):
        ranges = plugin.get("ipam", {}).get("ranges", ())  # portmap has no addresses
        cidrs += [str(entry["subnet"]) for group in ranges for entry in group]
    return str(network["Name"]), cidrs


def bridge(name: str, networks: Iterable[Fields]) -> str:
    """The interface on this machine of a network, from ``network ls``; "" when it has none."""
    for network in networks:
        if network.get("name") == name:
            return str(network.get("network_interface") or "")
        if network.get("Name") == name:
            return next((str(p["bridge"]) for p in _cni_plugins(network) if "bridge" in p), "")
    return ""


def _cni_plugins(network: Fields) -> Iterator[Fields]:
    for plugin in network.get("Plugins") or ():
        with suppress(KeyError, ValueError):
            yield json.loads(base64.b64decode(plugin["Bytes"]))
