"""What is repeated and what is not, whose turn it is, and that the key stays out of sight."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from corral.errors import Code, CorralError
from corral.providers.cloud.client import accounts
from corral.providers.cloud.client.http import ATTEMPT_S, LIMITED_S
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.client.secrets import key_file, key_of, url_of
from corral.providers.cloud.errors import CloudError, Reason
from corral.providers.cloud.model import Label
from corral.providers.lambda_cloud.client import LambdaCloud
from corral.spec.providers import CLOUDS
from corral.testing import rentals
from corral.testing.clouds import SIMS, Fault, Faults
from corral.testing.rentals import SECRET, launch_request
from corral.testing.virtual import VirtualLoop, run
from tests.clouds.common import World


def world(tmp_path: Path, name: str = "lambda", **faults: Fault) -> rentals.World:
    at = {int(k[1:]): v for k, v in faults.items()}
    return rentals.World(name, tmp_path, options={"faults": Faults(at)})


def test_lists_are_repeated_launches_are_not(tmp_path: Path) -> None:
    here = world(tmp_path, c0=Fault.FAILED, c1=Fault.LOST, c2=Fault.HALF)
    assert run(here.loop, here.client().instances()) == ()
    assert len(here.sim.calls) == 4

    async def launch() -> None:
        api = here.client()
        offer = await here.offer(api)
        await api.launch(launch_request(Label("lab", "gpu0", "00000a"), offer))

    here.sim.faults.at = {8: Fault.UNSEEN}
    with pytest.raises(CloudError) as caught:
        run(here.loop, launch())
    assert caught.value.unsure
    assert [c.operation.split()[0] for c in here.sim.calls].count("POST") == 2  # key, launch
    assert len(here.sim.alive()) == 1


@pytest.mark.parametrize(("reason", "calls"), [(Reason.CUT, 2), (Reason.FORBIDDEN, 1)])
def test_what_an_unsure_call_made_is_looked_for(tmp_path: Path, reason: Reason, calls: int) -> None:
    here = world(tmp_path)
    made: list[str] = []

    async def find() -> str | None:
        return made[1] if len(made) > 1 else None

    async def make() -> str:
        made.append(f"script{len(made)}")
        raise CloudError(Code.PROVIDER_FAILED, "no answer", reason=reason)

    async def called() -> str:
        api = here.client()
        assert isinstance(api, LambdaCloud)
        return await api.caller.find_or_make(find, make)

    if calls == 1:
        with pytest.raises(CloudError, match="no answer"):
            run(here.loop, called())
    else:
        assert run(here.loop, called()) == "script1"
    assert len(made) == calls


def test_a_429_holds_back_all_processes(tmp_path: Path) -> None:
    here = world(tmp_path, c0=Fault.LIMITED)
    run(here.loop, here.client().check())
    first, second = (call.at for call in here.sim.calls)
    assert second - first >= 2


@pytest.mark.parametrize("after", ["", "0", "1", "-5", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_slow_refusals_end_in_time(tmp_path: Path, after: str) -> None:
    """100 refusals, each complete after 55 s, and a pause of a second: an hour and a half."""
    loop = VirtualLoop()

    async def refused(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(55)
        headers = {"retry-after": after} if after else {}
        return httpx.Response(429, json={"error": {}}, headers=headers)

    network = httpx.MockTransport(refused)
    pacer = Pacer(tmp_path, "account", {"calls": 1.0}, loop.time)
    client = LambdaCloud("https://cloud.example", SECRET, pacer, network)
    began = loop.time()
    with pytest.raises(CloudError) as caught:
        run(loop, client.check())
    assert caught.value.reason is Reason.LIMIT
    assert loop.time() - began <= LIMITED_S + ATTEMPT_S


def test_turns_of_several_processes(tmp_path: Path) -> None:
    loop = VirtualLoop()
    pacers = [Pacer(tmp_path, "account", {"calls": 2.0}, loop.time) for _ in range(3)]
    waits = [run(loop, p.turn("calls")) for p in pacers]
    assert waits[0] == 0
    assert waits[1:] == pytest.approx([2.0, 2.0])
    assert "account" not in "".join(p.name for p in tmp_path.iterdir())


def test_a_file_from_another_clock_is_not_believed(tmp_path: Path) -> None:
    loop = VirtualLoop()
    Pacer(tmp_path, "a", {"calls": 1.0}, lambda: loop.time() + 1e6).hold("calls", 5)
    assert run(loop, Pacer(tmp_path, "a", {"calls": 1.0}, loop.time).turn("calls")) == 0


def test_wrong_key_is_one_sentence_and_never_shown(tmp_path: Path) -> None:
    for name in CLOUDS:
        here = world(tmp_path / name, name)
        here.sim.key = "another"
        with pytest.raises(CloudError) as caught:
            run(here.loop, here.client().check())
        error = caught.value
        assert error.reason is Reason.KEY
        assert "_API_KEY" in error.hint
        assert SECRET not in f"{error.message} {error.tail} {error.hint} {error.command}"


def test_keys_come_from_environment_file_or_keyring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    none: dict[str, str] = {}
    assert key_of("lambda", {"LAMBDA_API_KEY": "from-environment"}) == "from-environment"
    assert key_of("lambda", none, lambda _: "from-keyring") == "from-keyring"
    with pytest.raises(CorralError, match="no API key"):
        key_of("lambda", none, lambda _: "")
    file = key_file("lambda")
    file.parent.mkdir(parents=True)
    file.write_text("from-the-file\n")
    file.chmod(0o644)
    with pytest.raises(CorralError, match="others can read"):
        key_of("lambda", none, lambda _: "")
    file.chmod(0o600)
    assert key_of("lambda", none, lambda _: "") == "from-the-file"
    with pytest.raises(CorralError, match="is not a key"):
        key_of("lambda", {"LAMBDA_API_KEY": "two words"}, lambda _: "")


def test_key_never_travels_in_the_clear() -> None:
    assert url_of("lambda", {}) == "https://cloud.lambda.ai"
    assert (
        url_of("lambda", {"CORRAL_LAMBDA_URL": "http://127.0.0.1:8/x/"}) == "http://127.0.0.1:8/x"
    )
    for bad in ("http://example.org", "http://8.8.8.8", "ftp://127.0.0.1", "file:///etc"):
        with pytest.raises(CorralError, match="in the clear"):
            url_of("lambda", {"CORRAL_LAMBDA_URL": bad})


@pytest.mark.parametrize("name", CLOUDS)
def test_no_capacity_and_quota_are_passed_on(name: str, tmp_path: Path) -> None:
    full = World(name, tmp_path / "a", options={"capacity": {SIMS[name].offer: 0}})
    with pytest.raises(CorralError, match="none of 1 offers"):
        run(full.loop, full.up())
    assert not full.sim.rented and full.spent() == 0
    few = World(name, tmp_path / "b", options={"quota": 1})
    with pytest.raises(CorralError, match="none of 1 offers"):
        run(few.loop, few.up())
    assert len(few.sim.alive()) == 1  # the first node's; the same again goes on from there


def test_account_sets_are_merged_never_replaced(tmp_path: Path) -> None:
    here = world(tmp_path, "runpod")
    api = here.client()
    theirs = list(here.sim.keys)  # type: ignore[attr-defined]
    asked: list[tuple[int, int]] = []

    def confirm(before: object, after: object, answer: bool = True) -> bool:
        asked.append((len(before), len(after)))  # type: ignore[arg-type]
        return answer

    change = accounts.change(api.ssh_keys, api.set_ssh_keys, ["mine"], confirm)
    assert run(here.loop, change)
    assert here.sim.keys == [*theirs, "mine"]  # type: ignore[attr-defined]
    again = accounts.change(api.ssh_keys, api.set_ssh_keys, ["mine"], confirm)
    assert run(here.loop, again)
    assert asked == [(1, 2)]
    no = accounts.change(api.ssh_keys, api.set_ssh_keys, ["x"], lambda b, a: False)
    assert not run(here.loop, no)
    assert here.sim.keys == [*theirs, "mine"]  # type: ignore[attr-defined]


def test_runpod_cluster_members_are_found_and_ended(tmp_path: Path) -> None:
    """Its members bear no label (F56): they are found by their cluster and by the ledger."""
    here = World("runpod", tmp_path)

    async def make() -> None:
        api = here.client()
        offer = await here.offer(api)
        label = Label("lab", "island", "00000a")
        here.ledger.intent(label, offer)
        here.ledger.launched("00000a", await api.launch_cluster(launch_request(label, offer), 3))

    run(here.loop, make())
    assert len(here.sim.alive()) == 3
    gone = run(here.loop, here.down())
    assert len([line for line in gone if "instance" in line]) == 3
    assert here.sim.alive() == [] and here.sim.violations == []
