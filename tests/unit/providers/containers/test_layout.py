"""Names, addresses, scripts, keys and recipes."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.hosts.process import Ended
from corral.providers.base import Action, MachineAction
from corral.providers.containers import (
    container,
    image,
    layout,
    recipe,
)
from corral.providers.containers.image import Images
from corral.providers.containers.podman import Podman, bridge, subnets
from corral.providers.embedded import access
from corral.providers.ssh.provider import SshProvider
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of

Network = ipaddress.IPv4Network
KEY = "ssh-ed25519 " + "B" * 68


def nodes(hostlist: str = "n[0-4]") -> tuple[layout.Node, ...]:
    group = {"name": "g", "provider": "embedded", "nodes": hostlist}
    return nodes_of(ClusterSpec.model_validate({"corral": "v1", "name": "c", "groups": [group]}))


def test_subnet_is_the_same_for_a_name_and_never_a_used_one() -> None:
    first = layout.subnet("lab", 3, [])
    assert first == layout.subnet("lab", 3, [])
    assert first.subnet_of(layout.POOL)
    second = layout.subnet("lab", 3, [first])
    assert not second.overlaps(first)
    with pytest.raises(CorralError) as caught:
        layout.subnet("lab", 3, [Network("10.0.0.0/8")])
    assert "podman network ls" in caught.value.hint


@given(st.integers(1, 5000))
def test_subnet_has_room_for_its_nodes_and_more(count: int) -> None:
    net = layout.subnet("lab", count, [])
    assert net.num_addresses - 2 - layout.FIRST_HOST >= count


@given(st.dictionaries(st.sampled_from(["n0", "n1", "n2", "x"]), st.integers(10, 20), max_size=4))
def test_addresses_are_unique_and_kept(known: dict[str, int]) -> None:
    net = Network("10.160.1.0/24")
    have = {n: str(net[i]) for i, n in enumerate(known, start=10)}
    addresses = layout.addresses(net, nodes(), have)
    assert len(set(addresses.values())) == len(addresses) == 5
    assert all(addresses[n] == a for n, a in have.items() if n in addresses)
    assert not set(addresses.values()) & {a for n, a in have.items() if n not in addresses}


def test_a_full_network_is_reported() -> None:
    with pytest.raises(CorralError) as caught:
        layout.addresses(Network("10.160.1.0/28"), nodes("n[0-9]"), {})
    assert caught.value.node == "n5"


@given(st.ip_addresses(v=4))
def test_mac_is_local_and_unicast(address: ipaddress.IPv4Address) -> None:
    first, *rest = (int(part, 16) for part in layout.mac(str(address)).split(":"))
    assert first & 0b11 == 0b10
    assert bytes(rest[1:]) == address.packed


def sh(script: str, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", *args],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )


@pytest.mark.parametrize(
    "script",
    [
        container.entry(container.stand_ins(0)),
        container.entry(container.stand_ins(8)),
        container.enrol("n0", ["/shared", "/a b/$(touch x)"]),
        recipe.EARLY,
        recipe.late(recipe.recipes()["debian"]),
        recipe.late(recipe.recipes()["ubuntu"]),
        image.SCRIPT,
    ],
)
def test_scripts_are_shell(script: str) -> None:
    done = subprocess.run(["/bin/sh", "-n"], input=script, text=True, check=False, timeout=20)
    assert done.returncode == 0


def settled(root: Path) -> Path:
    (root / "etc/ssh").mkdir(parents=True)
    (root / "var/log").mkdir(parents=True)
    (root / "etc/ssh/ssh_host_rsa_key").write_text("secret")
    (root / "etc/munge").mkdir()
    (root / "etc/munge/munge.key").write_text("secret")
    (root / "etc/machine-id").write_text("0123")
    (root / "etc/hosts").write_text("127.0.1.1 build-host\n")
    (root / "var/log/dpkg.log").write_text("long")
    done = sh(recipe.settle(recipe.recipes()["debian"]).replace("$1", str(root)))
    assert done.returncode == 0, done.stderr
    return root


def test_settled_root_holds_no_secret_and_no_identity(tmp_path: Path) -> None:
    root = settled(tmp_path)
    assert not (root / "etc/ssh/ssh_host_rsa_key").exists()
    assert not (root / "etc/munge/munge.key").exists()
    assert (root / "etc/machine-id").read_text() == ""
    assert (root / "var/log/dpkg.log").read_text() == ""
    assert "build-host" not in (root / "etc/hosts").read_text()
    units = root / "etc/systemd/system"
    assert (units / "systemd-udevd.service").readlink() == Path("/dev/null")
    assert (units / "default.target").readlink().name == "multi-user.target"


def test_tag_follows_the_content() -> None:
    debian = recipe.recipes()["debian"]
    assert debian.tag("x86_64", "a") == debian.tag("x86_64", "a")
    others = {debian.tag("aarch64", "a"), debian.tag("x86_64", "b")}
    others.add(recipe.recipes()["ubuntu"].tag("x86_64", "a"))
    assert len(others | {debian.tag("x86_64", "a")}) == 4


def test_image_of_an_unknown_distribution() -> None:
    with pytest.raises(CorralError) as caught:
        recipe.recipes_for("fedora", "rhel")
    assert "fedora" in caught.value.message
    assert "image:" in caught.value.hint


def test_pinning_replaces_and_refuses_what_is_no_key(tmp_path: Path) -> None:
    keys = access.Access(tmp_path)
    keys.pin("n0", KEY, "a" * 64)
    keys.pin("n1", KEY, "b" * 64)
    keys.pin("n0", KEY, "c" * 64)
    assert [line.split()[0] for line in keys.known_hosts.read_text().splitlines()] == ["n1", "n0"]
    assert keys.enrolled() == {}, "without a key pair nobody is let in"
    (tmp_path / "id_ed25519").touch()
    (tmp_path / "id_ed25519.pub").touch()
    assert keys.enrolled() == {"n1": "b" * 64, "n0": "c" * 64}
    keys.unpin("n1")
    assert list(keys.enrolled()) == ["n0"]
    for bad in ("", "ssh-rsa AAAA", KEY + "\nn9 " + KEY, "@cert-authority " + KEY):
        with pytest.raises(CorralError) as caught:
            keys.pin("n0", bad, "d" * 64)
        assert caught.value.code is Code.PARSE_FAILED
    assert len(keys.remove()) == 3
    assert keys.remove() == ()


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
def test_key_is_made_once_and_private(tmp_path: Path) -> None:
    keys = access.Access(tmp_path)
    first = asyncio.run(keys.public_key())
    assert first.startswith("ssh-ed25519 ")
    assert asyncio.run(keys.public_key()) == first
    assert keys.key.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["id_ed25519", "id_ed25519.pub"]


def images(*listed: tuple[str, str], users: str = "[]") -> tuple[Images, list[list[str]]]:
    calls: list[list[str]] = []
    rows = ",".join(
        f'{{"Id":"{i}","Names":["{n}"],"Size":7,"Created":{k},'
        f'"Labels":{{"corral.os":"debian:13","corral.image":"{n}"}}}}'
        for k, (i, n) in enumerate(listed)
    )

    async def run(argv: list[str], *, stdin: bytes = b"", timeout: float) -> Ended:
        args = argv[1:]
        calls.append(args)
        if args[0] == "rmi":
            return Ended(0, b"", b"")
        if args[0] == "images" and "dangling=true" in args:
            return Ended(0, b"", b"")
        if args[0] == "images":
            return Ended(0, f"[{rows}]".encode(), b"")
        if args[0] == "ps" and "json" in args:
            return Ended(0, users.encode(), b"")
        if args[0] == "ps":
            return Ended(0, b"", b"")
        raise AssertionError(args)

    return Images(Podman((), run)), calls  # type: ignore[arg-type]


def test_images_newest_first_with_users() -> None:
    have, _ = images(("a", "old"), ("b", "new"), users='[{"Names":["c1"],"ImageID":"a"}]')
    listed = asyncio.run(have.listed())
    assert [i.reference for i in listed] == ["new", "old"]
    assert listed[1].used_by == ("c1",)
    assert listed[0].as_dict()["os"] == "debian 13"


def test_remove_takes_unused_images_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.providers.containers.image_build.sweep", lambda folder: None)
    have, calls = images(("a", "old"), ("b", "new"), users='[{"Names":["c1"],"ImageID":"a"}]')
    assert asyncio.run(have.remove()) == ("new",)
    assert [c for c in calls if c[0] == "rmi"] == [["rmi", "b"]]
    with pytest.raises(CorralError) as busy:
        asyncio.run(have.remove("old"))
    assert busy.value.code is Code.BUSY
    with pytest.raises(CorralError) as unknown:
        asyncio.run(have.remove("none"))
    assert unknown.value.code is Code.NOT_FOUND


def test_ssh_provider_has_nothing_to_do() -> None:
    spec = ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": "c",
            "groups": [
                {
                    "name": "g",
                    "provider": "ssh",
                    "nodes": "n[0-1]",
                    "addresses": "192.0.2.[5-6]",
                    "ssh": {"user": "admin", "port": 2222},
                }
            ],
        }
    )
    provider = SshProvider(spec)
    seen = asyncio.run(provider.read_machines())
    assert provider.plan(seen) == ()
    assert [m.address for m in seen.machines.values()] == ["192.0.2.5", "192.0.2.6"]
    target = provider.ssh_target("n1")
    assert (target.address, target.port, target.user) == ("192.0.2.6", 2222, "admin")
    assert target.known_hosts is not None
    assert target.known_hosts.parts[-2:] == ("c", "known_hosts")
    assert (target.user_config, target.pin_new, target.key) == (True, True, None)
    assert asyncio.run(provider.destroy(lambda event: None)) == ()
    with pytest.raises(CorralError):
        asyncio.run(provider.apply([MachineAction("n0", Action.CREATE, "")], lambda event: None))
    with pytest.raises(CorralError):
        provider.address("nobody")


def test_networks_of_old_and_new_podman() -> None:
    new = {"name": "a", "subnets": [{"subnet": "10.0.1.0/24"}, {"subnet": "fd00::/64"}]}
    assert subnets(new) == ("a", ["10.0.1.0/24", "fd00::/64"])
    assert subnets({"name": "host"}) == ("host", [])
    bridge = base64.b64encode(b'{"ipam": {"ranges": [[{"subnet": "10.88.0.0/16"}]]}}').decode()
    other = base64.b64encode(b'{"type": "portmap"}').decode()
    old = {"Name": "podman", "Plugins": [{"Bytes": bridge}, {"Bytes": other}]}
    assert subnets(old) == ("podman", ["10.88.0.0/16"])


def test_bridges_of_old_and_new_podman() -> None:
    new = {"name": "corral-lab", "network_interface": "podman2"}
    plugins = [b'{"type": "portmap"}', b'{"type": "bridge", "bridge": "cni-podman1"}']
    old = {"Name": "lab", "Plugins": [{"Bytes": base64.b64encode(p).decode()} for p in plugins]}
    assert bridge("corral-lab", [old, {"name": "host"}, new]) == "podman2"
    assert bridge("lab", [new, old]) == "cni-podman1"
    assert bridge("host", [{"name": "host"}]) == bridge("none", [new, old]) == ""


def test_enrol_writes_nothing_outside_the_node() -> None:
    script = container.enrol("surely-not-this-machine", [])
    done = sh(script, stdin=KEY + "\n")
    assert done.returncode == 4
    assert "this is not the node" in done.stderr
