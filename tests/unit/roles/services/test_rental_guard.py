"""What a controller is given for its guard."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from corral.agents import rental_guard as program
from corral.providers.cloud.client.accounts import calls_of
from corral.providers.cloud.model import Label
from corral.roles.inventory import Site
from corral.roles.machine import base as membership
from corral.roles.services import rental_guard
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.sections.cloud import Budget, Cloud, Elastic
from corral.state.base import Context, Seen
from corral.state.files import File
from corral.state.secrets import GuardKey, Watched
from corral.state.slurm.members import Roster
from tests.unit.roles.test_cluster import site
from tests.wind_down import ran

CALLS = "corral.providers.lambda_cloud.calls"
WATCHED = (Watched("lambda", "https://cloud.example.org", "0123456789abcdef", CALLS),)


def cluster(every: str) -> Site:
    spec = ClusterSpec(
        corral="v1",
        name="lab",
        groups=(
            NodeGroup(name="home", provider="ssh", nodes="desk", addresses="10.0.0.10"),
            NodeGroup(
                name="gpu",
                provider="lambda",
                nodes="gpu[0-1]",
                cloud=Cloud(type="gpu_1x"),
                elastic=Elastic(cpus=1, memory_gib=1),
            ),
            NodeGroup(
                name="pods",
                provider="runpod",
                nodes="pod[0-1]",
                cloud=Cloud(type="H100", cluster=True),
            ),
        ),
        budget=Budget(total=300, guard=every),
    )
    return replace(site(spec), watched=WATCHED)


def test_the_guard_gets_names_and_money_and_no_secret() -> None:
    (share,) = rental_guard.on_controller(cluster("5m"))
    (entry,) = share.desired
    assert entry.nodes == ("desk",)
    files = {r.path: r for r in entry.resources if isinstance(r, File)}
    settings = json.loads(files["/etc/corral/guard.json"].content)
    assert settings == {
        "cluster": "lab",
        "nodes": ["gpu0", "gpu1", "pod0", "pod1"],
        "groups": {"pods": ["pod0", "pod1"]},
        "elastic": ["gpu0", "gpu1"],
        "total": 300.0,
        "grace": 600,
        "ending": 1200,
        "clouds": {"lambda": "https://cloud.example.org"},
        "clients": {"lambda": CALLS},
    }
    assert files["/etc/corral/guard.json"].mode == "600"
    assert "OnUnitInactiveSec=300s" in files["/etc/systemd/system/corral-guard.timer"].content


def test_without_a_guard_all_of_it_goes() -> None:
    (share,) = rental_guard.on_controller(cluster("off"))
    (entry,) = share.desired
    ids = [r.id for r in entry.resources]
    assert ids[0] == "timer:corral-guard"
    assert "file:/etc/corral/guard/lambda.key" in ids


def test_a_key_is_known_by_its_digest() -> None:
    key = GuardKey("lambda", "/etc/corral/guard/lambda.key", "0123456789abcdef")
    context = Context("desk")
    assert key.diff(Seen(0, "0123456789abcdef 600 root"), context) is None
    for seen in ("absent", "0123456789abcdef 644 root", "ffffffffffffffff 600 root"):
        change = key.diff(Seen(0, seen), context)
        assert change is not None
        assert [s.path for s in change.secrets] == ["lambda"]


def test_the_list_of_machines_has_the_address_of_the_login() -> None:
    base = cluster("off")
    inside = replace(base, addresses={**base.addresses, "desk": "100.64.0.1"})
    resources = [r for s in membership.leaving(inside) for w in s.desired for r in w.resources]
    (roster,) = [r for r in resources if isinstance(r, Roster)]
    assert [(m.node, m.address) for m in roster.members] == [("desk", "10.0.0.10")]


@pytest.mark.parametrize("left", [None, "", '{"seen": {"i-1": '])
def test_a_memory_that_a_power_cut_spoilt_does_not_stop_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str | None
) -> None:
    conf, state = tmp_path / "guard.json", tmp_path / "state" / "state.json"
    conf.write_text(
        json.dumps({"cluster": "lab", "nodes": [], "elastic": [], "clouds": {}, "clients": {}})
    )
    if left is not None:
        state.parent.mkdir()
        state.write_text(left)
    monkeypatch.setattr(program, "CONF", conf)
    monkeypatch.setattr(program, "STATE", state)
    assert program.main() == 0
    assert json.loads(state.read_text())["spent"] == 0


@pytest.mark.parametrize(
    ("older", "reached"), [({}, True), ({"ending": 3600}, True), ({"ending": 0}, False)]
)
def test_the_settings_of_an_earlier_corral_have_no_ending(
    older: dict[str, int], *, reached: bool
) -> None:
    """The program is written before its settings: a round in between ended in a KeyError."""
    conf = {"cluster": "lab", "nodes": [], "elastic": [], "clouds": {}, "clients": {}}
    money = {"total": 10.0, "grace": 3600, **older}
    state = {"rate": 10.0}
    turn = program.Round({**conf, **money}, state, lambda *_: None, lambda _: "", now=lambda: 9.0)
    turn.run()
    assert ("reached" in state) is reached


LABEL = Label("lab", "gpu0", "abcdef").name
PODS = Label("lab", "pods", "abcdef").name
PLACE = {"region": {"name": "r"}, "instance_type": {"name": "t", "price_cents_per_hour": 75}}
POD = {"status": "RUNNING", "dataCenterId": "d", "cost": 2, "createdAt": "2026-11-23T08:00:00.5Z"}
RESPONSES = {
    "lambda": {"GET /api/v1/instances": {"data": [
        {"id": "a", "name": LABEL, "status": "active", **PLACE},
        {"id": "b", "name": LABEL, "status": "terminated", **PLACE},
        {"id": "c", "name": "other", "status": "active", **PLACE},
    ]}},
    "runpod": {
        "GET /v2/pods?includeClusterPods=true": {"pods": [
            {"id": "p0", "name": "x-0", "cluster": {"id": "k", "rank": 0}, **POD},
            {"id": "p1", "name": "x-1", "cluster": {"id": "k", "rank": 1}, **POD},
            {"id": "p2", "name": LABEL, **POD},
        ]},
        "GET /v2/clusters": {"clusters": [{"id": "k", "name": PODS, "compute": {"podCount": 2}}]},
    },
}  # fmt: skip
DONE = {
    "lambda": (["gpu0"], ["POST /api/v1/instance-operations/terminate"]),
    "runpod": (
        ["pod0", "pod1", "gpu0"],
        ["DELETE /v2/clusters/k", "DELETE /v2/pods/p0", "DELETE /v2/clusters/k",
         "DELETE /v2/pods/p1", "DELETE /v2/pods/p2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("refusal", [0, 404, 409, 500])
@pytest.mark.parametrize("cloud", RESPONSES)
def test_the_guard_carries_out_the_calls_of_the_client(cloud: str, refusal: int) -> None:
    done: list[str] = []

    def call(_: str, method: str, path: str, body: object) -> object:
        if method == "GET":
            return RESPONSES[cloud][f"{method} {path}"]
        done.append(f"{method} {path}")
        if refusal:
            raise program.Refused(refusal)
        return None

    conf = {
        "cluster": "lab",
        "nodes": [],
        "elastic": [],
        "groups": {"pods": ["pod0", "pod1"]},
        "clouds": {cloud: ""},
        "clients": {cloud: calls_of(cloud)},
    }
    turn = program.Round(conf, {}, call, lambda _: "", now=lambda: 1.8e9)
    rentals = turn.rentals()
    for rental in rentals:
        turn.finish(rental, "a test")
    nodes, calls = DONE[cloud]
    assert [rental.node for rental in rentals] == nodes
    assert not [message for message in turn.messages if "listed" in message]
    if refusal in (0, 404):
        assert done == calls and not turn.failed
    else:  # busy is tolerated of a member alone, whose cluster takes it along
        assert turn.failed


def test_a_cloud_whose_calls_are_missing_is_reported() -> None:
    conf = {"cluster": "lab", "nodes": [], "elastic": [], "clouds": {"x": ""},
            "clients": {"x": "corral.providers.none.calls"}}  # fmt: skip
    turn = program.Round(conf, {}, lambda *_: None, lambda _: "")
    assert turn.rentals() == [] and turn.failed and "x was not listed" in turn.messages[0]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        program.content(f'{{"price": {text}}}'.encode())
    assert program.content(b" ") is None


@contextmanager
def served(answer: str, heard: list[str]) -> Generator[str]:
    """A cloud on loopback that answers so; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers["Authorization"])
            if answer.startswith("http"):
                self.send_response(302)
                self.send_header("Location", answer)
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            while answer == "drip" and not over.wait(0.05):
                self.wfile.write(b" ")
                self.wfile.flush()
            self.wfile.write(b"[" * 200_000)

        def log_message(self, *_: object) -> None:
            pass

    over = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def asked(url: str) -> object:
    call = program.caller({"lambda": url}, lambda _: "secret", {"lambda": CALLS})
    return call("lambda", "GET", "/", None)


@pytest.mark.enable_socket
def test_the_key_follows_no_redirect() -> None:
    heard: list[str] = []
    elsewhere: list[str] = []
    with (
        served("{}", elsewhere) as other,
        served(other, heard) as url,
        pytest.raises(program.Refused, match="302"),
    ):
        asked(url)
    assert heard == ["Bearer secret"]
    assert elsewhere == []


@pytest.mark.enable_socket
@pytest.mark.parametrize("answer", ["drip", "deep"])
def test_a_cloud_that_answers_badly_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """Single bytes that never end held the guard until systemd ended it, before any other cloud."""
    monkeypatch.setattr(program, "CALL_S", 0.5)
    with served(answer, []) as url, pytest.raises((OSError, ValueError)):
        asked(url)


def test_what_slurm_prints_may_be_no_utf8() -> None:
    assert program.slurm(["printf", r"\377"]) == "\ufffd"


def test_slurm_prints_times_in_unix_seconds() -> None:
    assert program.slurm(["printenv", "SLURM_TIME_FORMAT"]) == "%s\n"


def test_what_the_program_for_slurm_reports_is_kept(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("8 R 1000 NONE\n")
    turn = program.Round(
        {}, {}, lambda *_: None, lambda argv: ran(tmp_path, *argv[2:]), now=lambda: 1345.0
    )
    assert turn.drain(["gpu0"], 600)
    assert turn.messages[0].startswith("job 8 ends at ") and len(turn.messages) == 1
    (tmp_path / "jobs").write_text("")
    assert not turn.drain(["gpu0"], 600)
    (tmp_path / "jobs").unlink()
    assert turn.drain(["gpu0"], 600)
    assert turn.messages[-1].startswith("slurmctld was not asked: exit status 1")
