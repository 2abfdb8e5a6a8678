"""Profiles of users without root, and what a host answers at a login."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api.config import login, profiles
from corral.api.config.login import Address
from corral.api.operations import overview
from corral.apply import connection
from corral.apply.connection import Connection, entry_of
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.inspect.question import shells
from corral.inspect.slurm import login_questions
from corral.passwords import Person, accompanied
from corral.providers.lookup import providers_of
from corral.spec.client import ClientFile, ClientSpec, LoginNode, Profile, public_part, published
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.nodes import users_of
from tests.fakes import Answer, Recorded, asked, framed

EXAMPLES = Path(__file__).parents[4] / "examples"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8NPl64S0eyUYOHjBVPbP3UjxmQGXOTNMSG8GGGGGGG"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def spec() -> ClusterSpec:
    return load_or_raise(EXAMPLES / "laptop.yaml")


def profile(spec: ClusterSpec, **changes: Any) -> Profile:
    fields: dict[str, Any] = {
        "node": "node0",
        "cluster": public_part(spec),
        "host": "lab.example.org",
        "user": "alice",
        "name": "lab",
        "uid": 2001,
    }
    return Profile(**{**fields, **changes})


def refused(name: str) -> CorralError:
    with pytest.raises(CorralError) as caught:
        api.spec_of(name)
    return caught.value


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_what_clients_get_of_each_example_is_a_cluster_of_the_same_names(file: Path) -> None:
    spec = load_or_raise(file)
    client = profiles.client_spec(profile(spec), Path("known_hosts"))
    assert [g.nodes for g in client.groups] == [g.nodes for g in spec.groups]
    assert client.partitions == spec.partitions
    assert [s.mount for s in client.storage] == [s.mount for s in spec.storage]
    assert client.software.containers == spec.software.containers
    assert entry_of(client) == "node0"
    assert [(user.name, user.uid) for user in users_of(client)] == [("alice", 2001)]


def test_what_clients_get_holds_no_address_key_or_person(spec: ClusterSpec) -> None:
    people: Any = ({"name": "zoe", "uid": 2001, "keys": [KEY]},)
    declared = ClusterSpec.model_validate({**spec.model_dump(), "users": people})
    text = published(declared, "node0")
    assert "zoe" not in text
    assert "AAAA" not in text
    assert "addresses" not in text
    assert json.loads(text)["node"] == "node0"


def test_a_profile_is_kept_for_its_user_alone_and_found_by_name(
    home: Path, spec: ClusterSpec
) -> None:
    profiles.keep(profile(spec, host_keys=(KEY,)), f"node0 {KEY}\n")
    folder = home / "profiles/lab"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert api.profiles() == ("lab",)
    client = api.spec_of("lab")
    assert isinstance(client, ClientSpec)
    assert client.profile == profile(spec)
    assert Path(client.known_hosts).read_text() == f"node0 {KEY}\n"
    api.logout("lab")
    assert api.profiles() == ()
    assert refused("lab").code is Code.NOT_FOUND


def test_its_name_is_not_a_cluster_of_this_machine(home: Path, spec: ClusterSpec) -> None:
    (home / "clusters/lab").mkdir(parents=True)
    (home / "clusters/lab/journal.jsonl").write_text("{}\n")
    with pytest.raises(CorralError, match="brought up from here") as caught:
        profiles.keep(profile(spec), "")
    assert "--name" in caught.value.hint


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "A B"])
def test_a_name_never_leaves_the_folder(name: str) -> None:
    with pytest.raises(CorralError) as caught:
        api.logout(name)
    assert caught.value.code is Code.USAGE


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"format": 3, "corral": "9.0"}', "newer Corral 9.0: format 3"),
        ("{", "not one that this Corral can read"),
        ("[]", "not one that this Corral can read"),
        ("null", "not one that this Corral can read"),
        ('{"format": 1, "node": "a"}', "not one that this Corral can read"),
        ('{"format": "x"}', "not one that this Corral can read"),
    ],
)
def test_a_damaged_or_newer_profile_is_one_sentence(
    home: Path, spec: ClusterSpec, text: str, word: str
) -> None:
    profiles.keep(profile(spec), "")
    (home / "profiles/lab/profile.json").write_text(text)
    error = refused("lab")
    assert error.code is Code.PARSE_FAILED
    assert word in error.message
    assert "corral logout lab" in error.hint


def test_a_cluster_with_fields_of_a_newer_corral(spec: ClusterSpec) -> None:
    profiles.keep(profile(spec, cluster={**public_part(spec), "quantum": True}), "")
    error = refused("lab")
    assert error.code is Code.PARSE_FAILED
    assert "corral login alice@lab.example.org --name lab" in error.hint


def test_scripts_run_as_the_user_and_through_its_node(spec: ClusterSpec) -> None:
    client = profiles.client_spec(profile(spec, identity="/keys/id"), Path("/k/known_hosts"))
    (provider,) = providers_of(client)
    entry, other = provider.ssh_target("node0"), provider.ssh_target("node1")
    for target in (entry, other):
        assert "sudo" not in target.remote
        assert target.user == "alice"
        assert not target.pin_new or target is other
    assert entry.address == "lab.example.org"
    assert other.via == entry
    assert "sudo" in provider.ssh_target("node0").__class__("a", user="alice").remote


def test_work_that_needs_root_is_refused(spec: ClusterSpec) -> None:
    client = profiles.client_spec(profile(spec), Path("known_hosts"))
    for work in (
        api.plan(client),
        api.up(client),
        api.down(client),
        api.prove(client),
        api.doctor(client),
        api.drain(client, "node1", "new memory"),
        api.resume(client, "node1"),
        api.execute(client, ["id"]),
        api.export_client(client),
    ):
        with pytest.raises(CorralError) as caught:
            asyncio.run(work)
        assert caught.value.code is Code.FORBIDDEN
        assert "profile lab logs in as alice, without root" in caught.value.message


@pytest.mark.parametrize(
    ("text", "user", "host"),
    [("alice@lab", "alice", "lab"), ("lab", "", "lab"), ("a@", "a", ""), ("", "", "")],
)
def test_addresses(text: str, user: str, host: str) -> None:
    assert Address.read(text) == Address(user, host)


ANSWERS = {"uid": "2001", "AccountingStorageEnforce": "associations,limits"}
ACCOUNTS = {"associations": "vision|normal"}


def answered(answers: dict[str, str], client: ClientFile | None = None) -> Any:
    shell = shells(login_questions("alice"))
    machine = Recorded.of("lab", {asked(shell): Answer(framed(shell, ACCOUNTS | answers))})
    return asyncio.run(login.asked(machine, "lab", "alice", client))


def test_a_login_node_reports_the_cluster(spec: ClusterSpec) -> None:
    file, uid, notes = answered({**ANSWERS, "client": published(spec, "node0")})
    assert (file.node, uid, notes) == ("node0", 2001, ())
    assert file.cluster["name"] == spec.name


def test_a_user_without_an_association_is_warned(spec: ClusterSpec) -> None:
    answers = {**ANSWERS, "client": published(spec, "node0"), "associations": ""}
    (note,) = answered(answers)[2]
    assert "alice has no association" in note
    assert "names alice under users: of the cluster file" in note
    (note,) = answered({**answers, "person": "alice is a person of the directory"})[2]
    assert "adds alice to a group of directory.groups" in note
    assert "users:" not in note, "a user of the file with that name would lock alice out"
    assert answered({**answers, "AccountingStorageEnforce": "none"})[2] == ()


def test_hosts_that_are_no_login_nodes(spec: ClusterSpec) -> None:
    with pytest.raises(CorralError, match="not a login node") as caught:
        answered(ANSWERS)
    assert "corral export client" in caught.value.hint
    with pytest.raises(CorralError, match="sbatch is not on alice's PATH"):
        answered(
            {**ANSWERS, "client": published(spec, "node0"), "missing-commands": "sbatch\nsqueue"}
        )
    given = ClientFile(node="node0", cluster=public_part(spec))
    assert answered(ANSWERS, given)[0] == given


def test_a_login_names_a_missing_user_or_host() -> None:
    for text, word in (("lab", "no user given"), ("alice@", "no host given")):
        with pytest.raises(CorralError, match=word):
            asyncio.run(api.login(Address.read(text), accept=lambda *_: True))


def test_a_client_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CorralError, match="cannot be read") as caught:
        api.client_file(tmp_path / "none.json")
    assert "corral export client" in caught.value.hint


class Opened(Connection):
    """A session with a recorded machine."""

    def __init__(self, spec: ClusterSpec, machine: Recorded) -> None:
        super().__init__(spec, providers_of(spec))
        self.fleet = Fleet({machine.node: machine})


NODES = "NodeName=node0 State=IDLE CPUTot=4 Partitions=main Version=24.11.5"


def test_status_without_root_is_what_slurm_reports(
    spec: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = profiles.client_spec(profile(spec), Path("known_hosts"))
    questions = {
        question.name: question.shell
        for question in (
            overview.PING,
            overview.while_up(overview.NODES),
            overview.while_up(overview.QUEUE),
            overview.while_up(overview.OWN_QUEUE),
        )
    }
    answers = {
        "ping": "Slurmctld(primary) at node0 is UP",
        "nodes": "\n".join(NODES.replace("node0", f"node{n}") for n in range(3)),
        "queue": "RUNNING\nRUNNING\nPENDING",
        "own-queue": "RUNNING",
    }
    machine = Recorded.of("node0", {asked(questions): Answer(framed(questions, answers))})

    async def opened(spec: ClusterSpec, *, root: bool = True) -> Connection:
        assert not root
        return Opened(spec, machine)

    monkeypatch.setattr(Connection, "open", opened)
    seen = asyncio.run(api.status(client))
    assert [node.state for node in seen.nodes] == ["idle", "idle", "idle"]
    assert seen.good
    assert seen.user == "alice"
    assert seen.as_dict()["machines_checked"] is False
    assert seen.as_dict()["own_jobs"] == {"running": 1}
    assert seen.jobs == {"pending": 1, "running": 2}


OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOtherKeyOtherKeyOtherKeyOtherKeyOtherKeyOtherXX"


def of_two(spec: ClusterSpec) -> ClusterSpec:
    data = spec.model_dump(mode="json")
    data["access"] = {"login": "node[0-1]"}
    return ClusterSpec.model_validate(data)


def two_logins(spec: ClusterSpec, **changes: Any) -> ClientSpec:
    """A profile of node0 that knows node1 too, on this machine."""
    other = LoginNode(node="node1", host="10.0.0.11", port=2222, host_keys=(KEY,))
    stored = profile(of_two(spec), login_nodes=(other,), **changes)
    profiles.keep(stored, f"node0 {KEY}\n")
    client = api.spec_of("lab")
    assert isinstance(client, ClientSpec)
    return client


def test_nodes_name_all_login_nodes_where_there_are_several(spec: ClusterSpec) -> None:
    assert "access" not in json.loads(published(spec, "node0"))["cluster"]
    text = json.loads(published(of_two(spec), "node1"))
    assert text["cluster"]["access"] == {"login": "node[0-1]"}
    assert text["format"] == 1, "a client of the plain format reads it"


def test_a_profile_of_one_login_node_is_of_the_plain_format(home: Path, spec: ClusterSpec) -> None:
    profiles.keep(profile(spec), "")
    stored = json.loads((home / "profiles/lab/profile.json").read_text())
    assert stored["format"] == 1
    assert "login_nodes" not in stored
    two_logins(spec)
    stored = json.loads((home / "profiles/lab/profile.json").read_text())
    assert stored["format"] == 2
    assert stored["login_nodes"] == [
        {"node": "node1", "host": "10.0.0.11", "port": 2222, "host_keys": []}
    ]


def entered(
    client: ClientSpec, monkeypatch: pytest.MonkeyPatch, **closed: Code
) -> tuple[Connection, list[str], list[tuple[str, str]]]:
    """A connection where some login nodes do not let in; which were tried, and what was shown."""
    tried: list[str] = []
    shown: list[tuple[str, str]] = []

    class Door:
        def __init__(self, node: str) -> None:
            self.node = node

        async def run(self, *_: object, **__: object) -> None:
            tried.append(self.node)
            if self.node in closed:
                raise CorralError(closed[self.node], "refused", node=self.node)

    monkeypatch.setattr(connection, "_transport", lambda _, node, __: Door(node))
    with accompanied(Person(show=lambda *words: shown.append(words))):
        return asyncio.run(Connection.open(client, root=False)), tried, shown


def test_the_next_login_node_is_used_where_the_first_is_away(
    spec: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = two_logins(spec)
    session, tried, shown = entered(client, monkeypatch)
    assert (session.controller, tried, shown) == ("node0", ["node0"], [])

    session, tried, shown = entered(client, monkeypatch, node0=Code.UNREACHABLE)
    assert (session.controller, tried) == ("node1", ["node0", "node1"])
    assert shown == [("node0", "no answer; by node1 (10.0.0.11) instead")]
    target = session.targets()["node1"]
    assert (target.address, target.port, target.user) == ("10.0.0.11", 2222, "alice")
    assert session.targets()["node2"].via == target
    # The minute after it, the first one is not waited for again.
    session, tried, shown = entered(client, monkeypatch)
    assert (session.controller, tried, len(shown)) == ("node1", ["node1"], 1)
    # Where that one goes too, the first one is asked.
    session, tried, _ = entered(client, monkeypatch, node1=Code.TIMED_OUT)
    assert (session.controller, tried) == ("node0", ["node1"])


@pytest.mark.parametrize("code", [Code.HOST_KEY_CHANGED, Code.LOGIN_REFUSED])
def test_a_refusal_is_not_passed_over(
    spec: ClusterSpec, monkeypatch: pytest.MonkeyPatch, code: Code
) -> None:
    """Another host key is reported, and no other node is used."""
    session, tried, shown = entered(two_logins(spec), monkeypatch, node0=code)
    assert (session.controller, tried, shown) == ("node0", ["node0"], [])


def test_a_profile_of_one_login_node_asks_nobody_before_the_work(
    spec: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = profiles.client_spec(profile(spec), Path("known_hosts"))
    session, tried, _ = entered(client, monkeypatch, node0=Code.UNREACHABLE)
    assert (session.controller, tried) == ("node0", [])


def test_a_client_file_of_several_is_read_as_of_the_node_that_is_named(spec: ClusterSpec) -> None:
    other = LoginNode(node="node1", host="10.0.0.11", host_keys=(OTHER,))
    file = ClientFile(
        node="node0",
        cluster=public_part(of_two(spec)),
        host="10.0.0.10",
        host_keys=(KEY,),
        login_nodes=(other,),
    )
    assert json.loads(file.text())["format"] == 2
    assert login._entered_by(file, "10.0.0.10") == file
    turned = login._entered_by(file, "10.0.0.11")
    assert (turned.node, turned.host, turned.host_keys) == ("node1", "10.0.0.11", (OTHER,))
    assert turned.login_nodes == (LoginNode(node="node0", host="10.0.0.10", host_keys=(KEY,)),)
