"""What a machine reports of the mesh, parsed; texts as seen with tailscale 1.102.5."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.api.mesh.tailnet import thin, watched
from corral.inspect.facts import Facts
from corral.inspect.mesh import QUESTIONS, TAILNET, MeshFacts, mesh
from corral.inspect.question import shells
from corral.inspect.rules import key_ends
from corral.mesh.control import Device
from corral.mesh.link import Link, parse_figures, parse_path
from corral.spec.models import Storage
from corral.spec.sections.network import Mesh
from corral.state.network.mesh import MeshMember

JOINED = """\
tun
caps 000001ffffffffff
joined yes
Version 1.102.5
TUN true
BackendState Running
ID 1
address 100.64.0.1
tag tag:corral-lab
server https://headscale.example.org"""
URL = "https://headscale.example.org"


def facts(**changes: object) -> Facts:
    joined = mesh({"container": "", "mesh": JOINED})
    return Facts(
        "node1",
        "debian",
        "13",
        "6.12",
        2,
        1,
        2,
        1,
        4096,
        "v2",
        True,
        "10.0.0.1",
        mesh=dataclasses.replace(joined, **changes),
    )  # type: ignore[arg-type]


def test_a_member() -> None:
    seen = mesh({"container": "", "mesh": JOINED})
    assert seen.member
    assert seen.mode == "tun"
    assert (seen.address, seen.tags, seen.expires) == ("100.64.0.1", ("tag:corral-lab",), "")
    assert (seen.udp, seen.joined, seen.server) == ("yes", True, URL)


def test_a_container_without_rights() -> None:
    around = "yes\nuserns\nlimit 3221225472"
    seen = mesh({"container": around, "mesh": "caps 00000000800405fb"})
    assert (seen.container, seen.userns, seen.limit_mib) == (True, True, 3072)
    assert (seen.tun, seen.net_admin, seen.mode) == (False, False, "userspace")
    assert not seen.member


@pytest.mark.parametrize(
    ("line", "address"),
    [("fabric 10.65.0.2", "10.65.0.2"), ("fabric ", ""), ("fabric 10.65.0.2; rm -rf /", "")],
)
def test_a_containers_own_network_is_an_address_or_nothing(line: str, address: str) -> None:
    assert mesh({"container": f"yes\n{line}\nlimit max"}).fabric == address


@pytest.mark.parametrize(
    ("line", "name"),
    [("name 4f2a8c", "4f2a8c"), ("name a-b.example.org", "a-b"), ("name x y", ""), ("name ", "")],
)
def test_a_containers_own_name(line: str, name: str) -> None:
    assert mesh({"container": f"yes\n{line}\nlimit max"}).name == name


def test_no_limit_is_no_limit() -> None:
    assert mesh({"container": "yes\nlimit max"}).limit_mib == 0
    assert mesh({"container": "yes\nlimit 9223372036854771712"}).limit_mib == 0


def test_facts_of_an_older_corral_have_none() -> None:
    assert mesh({}) == MeshFacts()
    fields = facts().as_dict()
    assert Facts.from_dict(json.loads(json.dumps(fields))) == facts()
    del fields["mesh"]
    assert Facts.from_dict(fields).mesh == MeshFacts()


def test_gos_zero_time_is_never() -> None:
    assert mesh({"mesh": "KeyExpiry 0001-01-01T00:00:00Z"}).expires == ""
    assert mesh({"mesh": "KeyExpiry 2027-01-01T00:00:00Z"}).expires == "2027-01-01T00:00:00Z"


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_no_text_breaks_it(text: str) -> None:
    try:
        mesh({"container": text, "mesh": text})
    except ValueError:
        assert "caps" in text


STATUS = {
    "Version": "1.102.5-t1",
    "TUN": True,
    "BackendState": "Running",
    "TailscaleIPs": ["100.64.0.7", "fd7a:115c:a1e0::1"],
    "Self": {
        "ID": "n1CNTRL",
        "HostName": "node0",
        "Tags": ["tag:a", "tag:corral-x"],
        "Online": True,
        "KeyExpiry": "2027-05-01T00:00:00Z",
        "Addrs": ["198.18.1.10:41641"],
    },
    "Health": ["some words that change"],
    "Peer": {"nodekey:1": {"TailscaleIPs": ["100.64.0.9"], "KeyExpiry": "2020-01-01T00:00:00Z"}},
}


def printed(folder: Path, script: str, status: str = "", indent: str = "  ") -> str:
    """What a script prints where tailscale gives such a status."""
    (folder / "status").write_text(status or json.dumps(STATUS, indent=indent))
    (folder / "prefs").write_text(json.dumps({"ControlURL": URL}, indent=indent))
    fake = folder / "tailscale"
    fake.write_text(
        f"#!/bin/sh\ncase $1 in status) cat {folder}/status;; debug) cat {folder}/prefs;; esac\n"
    )
    fake.chmod(0o755)
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, env=path, check=True
    ).stdout


@pytest.mark.parametrize("indent", ["  ", "\t"])
def test_the_shell_picks_what_stays_the_same(tmp_path: Path, indent: str) -> None:
    lines = printed(tmp_path, shells(QUESTIONS)["mesh"], indent=indent)
    assert "words" not in lines
    assert "Online" not in lines
    seen = mesh({"container": "", "mesh": lines})
    assert (seen.address, seen.id, seen.server) == ("100.64.0.7", "n1CNTRL", URL)
    assert (seen.expires, seen.tags) == ("2027-05-01T00:00:00Z", ("tag:a", "tag:corral-x"))
    assert seen.member


@pytest.mark.parametrize("indent", ["  ", "\t"])
def test_the_resource_reads_the_same(tmp_path: Path, indent: str) -> None:
    probe = MeshMember("node0", URL, URL, "tag:corral-x", "by TUN", 10).probe()
    lines = printed(tmp_path, probe, indent=indent)
    assert lines == f"Running {URL} owner tag:a,tag:corral-x\n"
    assert printed(tmp_path, probe, "{}").split() == ["absent", URL, "owner", "-"]
    (tmp_path / "tailscale").unlink()
    gone = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ended = subprocess.run(
        ["sh", "-c", probe], capture_output=True, text=True, env=gone, check=True
    )
    assert ended.stdout == "absent - owner -\n"


def test_the_doctor_reads_the_same(tmp_path: Path) -> None:
    own = TAILNET.parse(printed(tmp_path, str(TAILNET.shell)))
    assert (own["BackendState"], own["Online"]) == ("Running", "true")
    assert own["KeyExpiry"] == "2027-05-01T00:00:00Z"  # not that of a peer


def test_nobody_else_reads_it(repo: Path) -> None:
    """Peers are the doctor's matter, out of JSON."""
    files = [f for f in (repo / "src/corral").rglob("*.*") if f.suffix in (".py", ".sh")]
    readers = {f.name for f in files if re.search(r"tailscale status --json", f.read_text())}
    assert readers == {"tailnet-status.sh", "mesh.py"}


@pytest.mark.parametrize(
    ("expires", "days"),
    [
        ("", None), ("0001-01-01T00:00:00Z", None), ("no time", None), ("2026-12-01", None),
        ("2026-12-06T00:00:00Z", None), ("2026-12-05T00:00:00Z", 13), ("2026-11-20T00:00:00Z", -2),
    ],
)  # fmt: skip
def test_when_a_key_ends(expires: str, days: int | None) -> None:
    left = key_ends(expires, NOW)
    assert (left.days if left is not None else None) == days
    assert key_ends(expires, None) is None


NOW = datetime(2026, 11, 22, tzinfo=UTC)
DEVICE = Device("1", "node1", "100.64.0.1", ("tag:corral-lab",), True, "", "", expired=False)


def problem(seen: Facts | None, device: Device | None = DEVICE, *, asked: bool = True) -> str:
    return watched(Mesh(url=URL), "node1", seen, device, NOW, asked=asked).problem


def test_what_is_watched() -> None:
    assert problem(facts()) == ""
    assert problem(None) == "does not answer"
    assert "expired or it was taken out" in problem(facts(state="NeedsLogin"))
    assert "not in the tailnet" in problem(facts(state="", joined=False))
    assert "not in the tailnet" in problem(facts(server="https://another.example.org"))
    assert problem(facts(), dataclasses.replace(DEVICE, expired=True)) == "its node key has expired"
    assert "does not know it" in problem(facts(), None)
    assert problem(facts(), None, asked=False) == ""
    assert problem(facts(joined=False), None) == "", (
        "its owner brought it in: it has no tag of ours"
    )


@pytest.mark.parametrize(("days", "expected"), [(13, True), (15, False), (-1, True)])
def test_a_node_key_that_expires_soon(days: int, expected: bool) -> None:
    expires = (NOW + timedelta(days=days)).isoformat()
    assert bool(problem(facts(expires=expires))) is expected


def test_paths() -> None:
    direct = (
        "pong from b (100.64.0.2) via DERP(fra) in 90ms\n"
        "pong from b (100.64.0.2) via 198.51.100.7:41641 in 1ms\nmtu 1280"
    )
    assert parse_path(direct) == ("direct", "198.51.100.7:41641", 1280)
    assert parse_path("pong from b (100.64.0.2) via DERP(lab) in 2ms\n") == ("relayed", "lab", 0)
    assert parse_path("no reply")[0] == "unknown"


def test_figures() -> None:
    rtt, mbps = parse_figures("rtt 0.012000\nsent 25000000 2.000000\n")
    assert (rtt, mbps) == (12.0, 100.0)
    with pytest.raises(ValueError, match="end"):
        parse_figures("rtt 0.1\n")


@pytest.mark.parametrize(
    ("link", "verdict"),
    [
        (Link("a", "b", "direct", "x", 0.1, 9400, 1280), "yes"),
        (Link("a", "b", "direct", "x", 0.1, 2000, 1280), "perhaps"),
        (Link("a", "b", "direct", "x", 20, 300, 1280), "no: jobs of one node"),
        (Link("a", "b", "relayed", "fra", 20, 9400, 1280), "no: relayed"),
        (Link("a", "b", "direct", "x", 0.1, 9400, 0), "no: TCP only"),
        (Link("a", "b", "unknown", "", 0, 0, 1280, "closed"), "no: it could not"),
    ],
)
def test_verdicts(link: Link, verdict: str) -> None:
    assert link.verdict.startswith(verdict)


def test_nfs_over_a_thin_link_is_named() -> None:
    folders = (
        Storage(mount="/shared", kind="nfs", server="desk"),
        Storage(mount="/data", kind="existing"),
    )
    links = [
        Link("desk", "rent0", "direct", "a", 12, 180, 1280),
        Link("desk", "rent1", "direct", "a", 1, 900, 1280),
        Link("rent2", "desk", "relayed", "fra", 90, 600, 1280),
        Link("desk", "pod0", "direct", "a", 5, 700, 0),
        Link("rent0", "rent1", "direct", "a", 5, 1, 1280),
        Link("desk", "lost", "unknown", "", 0, 0, 1280, "no answer"),
    ]
    assert thin(folders, links, "other") == (
        "rent0: /shared from desk comes at 180 Mb/s: 10 GB take 7 minutes, in each epoch",
        "rent2: /shared from desk comes at 600 Mb/s, by a relay: 10 GB take 2 minutes, in each "
        "epoch",
        "pod0: /shared from desk cannot be mounted there: it is reached by TCP only",
    )
