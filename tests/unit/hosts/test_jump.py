from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from corral.api.operations.nodes import login
from corral.errors import Code, CorralError
from corral.hosts.jump import Hop, along, chain
from corral.hosts.ssh_errors import by_hand
from corral.hosts.target import SshTarget

KNOWN = Path("/k/known hosts")


def expanded(value: str, host: str, port: str) -> list[str]:
    """A value of ProxyCommand as ssh fills it in and the shell reads it."""
    marks = {"%%": "%", "%h": host, "%p": port}
    out, at = "", 0
    while at < len(value):
        pair = value[at : at + 2]
        out += marks.get(pair, value[at])
        at += 2 if pair in marks else 1
    return shlex.split(out)


def option(words: list[str], name: str) -> str:
    (value,) = [w.partition("=")[2] for w in words if w.startswith(f"{name}=")]
    return value


def test_the_way_of_a_cluster_file() -> None:
    last = chain("admin@gate:2222,inner", KNOWN)
    assert last is not None
    first, second = (*along(last), last)
    assert (first.address, first.port, first.user, first.alias) == (
        *("gate", 2222, "admin"),
        "_jump.gate-2222",
    )
    assert (second.address, second.port, second.user, second.alias) == (
        *("inner", 22, ""),
        "_jump.inner",
    )
    assert chain("", KNOWN) is None
    node = SshTarget("192.0.2.7", user="ada", known_hosts=KNOWN, via=last)
    assert by_hand(node) == "ssh -p 22 -J admin@gate:2222,inner ada@192.0.2.7"


def test_two_hops_reach_ssh_as_they_are_meant(tmp_path: Path) -> None:
    known = tmp_path / "it's 100% known"
    node = SshTarget("192.0.2.7", known_hosts=known, via=chain("gate,b@inner:24", known))
    argv = node.arguments("n0", tmp_path / "c", opens=True, hops=tmp_path)
    inner = expanded(option(argv, "ProxyCommand"), "192.0.2.7", "22")
    assert inner[:3] == ["ssh", "-W", "[192.0.2.7]:22"]
    assert inner[-4:] == ["-l", "b", "--", "inner"]
    assert option(inner, "HostKeyAlias") == "_jump.inner-24"
    assert option(inner, "UserKnownHostsFile") == f'"{known}"'.replace("%", "%%")
    assert option(inner, "StrictHostKeyChecking") == "accept-new"
    assert option(inner, "ControlMaster") == "no"
    outer = expanded(option(inner, "ProxyCommand"), "inner", "24")
    assert outer[:3] == ["ssh", "-W", "[inner]:24"]
    assert outer[-2:] == ["--", "gate"] and "-l" not in outer
    assert option(outer, "BatchMode") == "yes"
    assert option(outer, "UserKnownHostsFile") == f'"{known}"'.replace("%", "%%")


def test_a_node_reached_another_way_is_another_connection() -> None:
    node = SshTarget("192.0.2.7", known_hosts=KNOWN)
    names = {replace(node, via=chain(t, KNOWN)).control_name("n") for t in ("", "a", "b", "a,b")}
    assert len(names) == 4


def test_a_person_takes_the_same_way_and_the_own_config_counts() -> None:
    plain = SshTarget("192.0.2.7", known_hosts=KNOWN, key=Path("/k/id"))
    mine = replace(plain, user_config=True, only_key=False, via=chain("gate", KNOWN))
    assert login(plain, "n0", ())[:3] == ["ssh", "-F", "none"]
    argv = login(mine, "n0", ("uptime",))
    assert "none" not in argv[: argv.index("--")][:3]
    assert "IdentityAgent=none" not in argv
    assert "[%h]:%p" in option(argv, "ProxyCommand")


@dataclass
class Line:
    """A connection that opens or not, as set in advance."""

    opens: list[bool]
    inherited: bool = False
    tried: int = 0
    renewed: int = field(default=0)

    async def connect(self) -> None:
        self.tried += 1
        if not self.opens.pop(0):
            raise CorralError(Code.UNREACHABLE, "nothing listens", node="_jump.gate", hint="wait")

    async def renew(self) -> bool:
        was, self.inherited = self.inherited, False
        self.renewed += was
        return was

    def trust(self) -> None:
        self.inherited = False


GATE = SshTarget("gate", known_hosts=KNOWN)


def test_a_dead_jump_host_is_asked_once_for_all_nodes() -> None:
    line = Line([False] * 9)

    async def scenario() -> list[BaseException | int]:
        hop = Hop(GATE, line)
        return await asyncio.gather(*(hop.ready() for _ in range(9)), return_exceptions=True)

    results = asyncio.run(scenario())
    assert line.tried == 1
    assert {str(error) for error in results} == {"jump host gate: nothing listens"}
    assert len({id(error) for error in results}) == 9, "each node may write its own name into it"


@pytest.mark.parametrize("inherited", [True, False])
def test_an_old_connection_is_given_up_once(inherited: bool) -> None:
    line = Line([True] * 9, inherited=inherited)
    dead = {"until renewed": inherited}

    async def work() -> None:
        await asyncio.sleep(0)
        if dead["until renewed"] and not line.renewed:
            raise CorralError(Code.UNREACHABLE, "broke")
        if not inherited:
            raise CorralError(Code.UNREACHABLE, "this node is off")

    async def scenario() -> list[BaseException | None]:
        hop = Hop(GATE, line)
        return await asyncio.gather(*(hop.through(work) for _ in range(4)), return_exceptions=True)

    results = asyncio.run(scenario())
    assert line.renewed == int(inherited)
    if inherited:
        assert results == [None] * 4
    else:
        assert {str(error) for error in results} == {"this node is off"}


def test_a_changed_key_of_a_jump_host_is_named_by_its_address() -> None:
    class Changed(Line):
        async def connect(self) -> None:
            hint = "corral keys forget _jump.gate"
            raise CorralError(Code.HOST_KEY_CHANGED, "the host key changed", hint=hint)

    with pytest.raises(CorralError) as caught:
        asyncio.run(Hop(GATE, Changed([])).ready())
    assert caught.value.code is Code.HOST_KEY_CHANGED
    assert caught.value.hint == "corral keys forget gate"
