"""A podman that keeps its objects in memory and refuses every command it does not know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from corral.hosts.process import Ended

HOST_KEY = "ssh-ed25519 " + "A" * 68
VOLUMES = "/var/lib/containers/storage/volumes"


def option(argv: Sequence[str], name: str) -> str:
    return argv[list(argv).index(name) + 1]


def options(argv: Sequence[str], name: str) -> list[str]:
    return [argv[i + 1] for i, word in enumerate(argv) if word == name]


def labels(argv: Sequence[str]) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in options(argv, "--label"))


@dataclass
class FakePodman:
    """State machine behind ``Podman(run=fake)``."""

    containers: dict[str, dict[str, object]] = field(default_factory=dict)
    networks: dict[str, dict[str, object]] = field(default_factory=dict)
    volumes: dict[str, dict[str, str]] = field(default_factory=dict)
    images: set[str] = field(default_factory=set)
    calls: list[list[str]] = field(default_factory=list)
    fail: dict[str, str] = field(default_factory=dict)
    stdins: list[bytes] = field(default_factory=list)
    racing: dict[str, dict[str, str]] = field(default_factory=dict)
    """Containers that another podman makes at this moment, with labels that differ from ours."""

    async def __call__(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Ended:
        await asyncio.sleep(0)
        assert timeout > 0
        assert argv[0] == "podman"
        args = list(argv[1:])
        if args[:1] == ["--runtime"]:
            args = args[2:]
        self.calls.append(args)
        self.stdins.append(stdin)
        verb = " ".join(args[:2]) if args[0] in ("network", "volume", "image") else args[0]
        if verb in self.fail:
            return Ended(125, b"", self.fail[verb].encode())
        known: dict[str, Callable[[list[str]], Ended]] = {
            "ps": self._ps,
            "run": self._run,
            "rm": self._rm,
            "start": self._start,
            "kill": self._kill,
            "stop": lambda a: Ended(0, b"", b""),
            "exec": lambda a: Ended(0, f"{HOST_KEY}\n".encode(), b""),
            "inspect": self._inspect,
            "network ls": self._network_ls,
            "network exists": lambda a: Ended(0 if a[2] in self.networks else 1, b"", b""),
            "network create": self._network_create,
            "network rm": lambda a: self._drop(self.networks, a),
            "volume ls": self._volume_ls,
            "volume exists": lambda a: Ended(0 if a[2] in self.volumes else 1, b"", b""),
            "volume create": self._volume_create,
            "volume rm": lambda a: self._drop(self.volumes, a),
            "image exists": lambda a: Ended(0 if a[2] in self.images else 1, b"", b""),
            "logs": lambda a: Ended(0, b"last words", b""),
        }
        if verb not in known:
            raise AssertionError(f"podman has no verb like this in the tests: {args}")
        return known[verb](args)

    def _matches(self, args: list[str], have: dict[str, str]) -> bool:
        filters = options(args, "--filter")
        assert all(f.startswith(("label=", "network=")) for f in filters)
        pairs = [f.removeprefix("label=") for f in filters if f.startswith("label=")]
        split = [pair.partition("=") for pair in pairs]
        return all(key in have and (not sep or have[key] == text) for key, sep, text in split)

    def _ps(self, args: list[str]) -> Ended:
        assert "--all" in args
        containers = [c for c in self.containers.values() if self._matches(args, c["Labels"])]  # type: ignore[arg-type]
        if "--quiet" in args:
            return Ended(0, "\n".join(str(c["Id"]) for c in containers).encode(), b"")
        if option(args, "--format") == "json":
            return Ended(0, json.dumps(containers).encode(), b"")
        return Ended(0, "\n".join(str(c["Names"][0]) for c in containers).encode(), b"")  # type: ignore[index]

    def _run(self, args: list[str]) -> Ended:
        name = option(args, "--name")
        if name in self.containers:
            return Ended(125, b"", b"the container name is already in use")
        if option(args, "--network") not in self.networks:
            return Ended(125, b"", b"unable to find network")
        for volume in options(args, "--volume"):
            if not volume.startswith("/") and volume.partition(":")[0] not in self.volumes:
                return Ended(125, b"", b"no such volume: podman would make one without a label")
        if args[-1] not in self.images:
            return Ended(125, b"", b"image not known")
        identity = f"{len(self.calls):064x}"
        self.containers[name] = {
            "Id": identity,
            "Names": [name],
            "Labels": labels(args) | self.racing.get(name, {}),
            "State": "running",
            "Pid": 1,
        }
        if name in self.racing:
            return Ended(125, b"", b"the container name is already in use")
        return Ended(0, identity.encode(), b"")

    def _rm(self, args: list[str]) -> Ended:
        assert "--force" in args
        for name in args:
            self.containers.pop(name, None)
        return Ended(0, b"", b"")

    def _kill(self, args: list[str]) -> Ended:
        assert args[1:3] == ["--signal", "KILL"]
        for name in args[3:]:
            if name in self.containers:
                self.containers[name]["State"] = "exited"
        return Ended(0, b"", b"")

    def _start(self, args: list[str]) -> Ended:
        self.containers[args[1]]["State"] = "running"
        return Ended(0, b"", b"")

    def _inspect(self, args: list[str]) -> Ended:
        if "{{.NetworkSettings.SandboxKey}}" in args:
            known = {str(c["Id"]): str(c.get("SandboxKey", "")) for c in self.containers.values()}
            return Ended(0, "\n".join(known[i] for i in args[3:]).encode(), b"")
        container = self.containers.get(args[-1])
        if container is None:
            return Ended(125, b"", b"no such object")
        text = option(args, "--format")
        text = text.replace("{{.Id}}", str(container["Id"]))
        text = text.replace("{{.State.Status}}", str(container["State"]))
        for label, value in cast("dict[str, str]", container["Labels"]).items():
            text = text.replace(f'{{{{index .Config.Labels "{label}"}}}}', value)
        text = text.replace("{{.State.Running}}", str(container["State"] == "running").lower())
        assert "{{" not in text, text
        return Ended(0, text.encode(), b"")

    def _network_ls(self, args: list[str]) -> Ended:
        networks = {n: v for n, v in self.networks.items() if self._matches(args, v["labels"])}  # type: ignore[arg-type]
        if option(args, "--format") == "json":
            return Ended(0, json.dumps(list(networks.values())).encode(), b"")
        return Ended(0, "\n".join(networks).encode(), b"")

    def _network_create(self, args: list[str]) -> Ended:
        subnet = option(args, "--subnet")
        if any(subnet == n["subnets"][0]["subnet"] for n in self.networks.values()):  # type: ignore[index]
            return Ended(125, b"", b"subnet is already used on the host or by another config")
        self.networks[args[-1]] = {
            "name": args[-1],
            "subnets": [{"subnet": subnet}],
            "network_interface": f"podman{len(self.networks) + 1}",
            "labels": labels(args),
        }
        return Ended(0, b"", b"")

    def _volume_ls(self, args: list[str]) -> Ended:
        names = [n for n, have in self.volumes.items() if self._matches(args, have)]
        if option(args, "--format") == "json":
            records = [{"Name": name, "Mountpoint": f"{VOLUMES}/{name}/_data"} for name in names]
            return Ended(0, json.dumps(records).encode(), b"")
        return Ended(0, "\n".join(names).encode(), b"")

    def _volume_create(self, args: list[str]) -> Ended:
        self.volumes[args[-1]] = labels(args)
        return Ended(0, b"", b"")

    @staticmethod
    def _drop(have: dict[str, object], args: list[str]) -> Ended:  # type: ignore[type-arg]
        for name in args[2:]:
            have.pop(name, None)
        return Ended(0, b"", b"")
