"""Both control servers: what is asked, and what is made of the answers. No sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from corral.api.mesh.tailnet import merged, needed
from corral.errors import Code, CorralError
from corral.mesh import control
from corral.mesh.control import Answer, Device, Http, Policy, secret, tailnet

TAG = "tag:corral-lab"
NODE = Device("n1", "node1", "100.64.0.1", (TAG,), True, "", "", expired=False)
HEADSCALE = "https://headscale.example.org"
TAILSCALE = "https://api.tailscale.com"


class Wire:
    """Answers by (method, path), and keeps what was asked."""

    def __init__(self, answers: Mapping[tuple[str, str], object]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, Any, Mapping[str, str]]] = []

    async def ask(
        self, method: str, path: str, *, body: Any = None, headers: Any = None, form: Any = None
    ) -> Answer:
        self.asked.append((method, path, body or form, headers or {}))
        answer = self.answers[method, path]
        if isinstance(answer, CorralError):
            raise answer
        return Answer(answer if isinstance(answer, dict) else {}, json.dumps(answer), "etag1")


@pytest.fixture
def wired(monkeypatch: pytest.MonkeyPatch) -> Any:
    def wire(answers: Mapping[tuple[str, str], object]) -> Wire:
        made = Wire(answers)
        monkeypatch.setattr(control, "Http", lambda _base: made)
        return made

    return wire


def test_a_key_of_headscale_is_tagged_single_use_and_expires(wired: Any) -> None:
    wire = wired({("POST", "/preauthkey"): {"preAuthKey": {"key": "hskey-1"}}})
    server = tailnet(HEADSCALE, {"HEADSCALE_API_KEY": "k"})
    assert asyncio.run(server.mint(TAG, "node1", 10)) == "hskey-1"
    body = wire.asked[0][2]
    assert body["aclTags"] == [TAG]
    assert (body["reusable"], body["ephemeral"]) == (False, False)
    assert body["expiration"].endswith("Z")


def test_a_key_of_tailscale_by_oauth(wired: Any) -> None:
    wire = wired(
        {
            ("POST", "/oauth/token"): {"access_token": "t", "expires_in": 3600},
            ("POST", "/tailnet/-/keys"): {"key": "tskey-auth-1"},
        }
    )
    given = {"TAILSCALE_OAUTH_CLIENT_ID": "c", "TAILSCALE_OAUTH_CLIENT_SECRET": "s"}
    server = tailnet(TAILSCALE, given)
    assert asyncio.run(server.mint(TAG, "node1", 10)) == "tskey-auth-1"
    (_, _, form, _), (_, _, body, headers) = wire.asked
    assert form["grant_type"] == "client_credentials"
    assert headers["Authorization"] == "Bearer t"
    create = body["capabilities"]["devices"]["create"]
    assert create == {"reusable": False, "ephemeral": False, "preauthorized": True, "tags": [TAG]}
    assert body["expirySeconds"] == 600


def test_devices_are_those_with_the_tag(wired: Any) -> None:
    wired(
        {
            ("GET", "/node"): {
                "nodes": [
                    {
                        "id": "1",
                        "name": "node1",
                        "ipAddresses": ["fd7a::1", "100.64.0.1"],
                        "tags": [TAG],
                        "online": True,
                        "expiry": "2020-01-01T00:00:00Z",
                    },
                    {"id": "2", "name": "phone", "tags": [], "ipAddresses": ["100.64.0.2"]},
                ]
            }
        }
    )
    (device,) = asyncio.run(tailnet(HEADSCALE, {"HEADSCALE_API_KEY": "k"}).devices(TAG))
    assert (device.id, device.hostname, device.address) == ("1", "node1", "100.64.0.1")
    assert device.expired


def test_devices_of_tailscale(wired: Any) -> None:
    wired(
        {
            ("GET", "/tailnet/-/devices?fields=all"): {
                "devices": [
                    {
                        "nodeId": "nA",
                        "id": "7",
                        "hostname": "node1",
                        "addresses": ["100.64.0.1"],
                        "tags": [TAG],
                        "keyExpiryDisabled": True,
                        "expires": "2020-01-01T00:00:00Z",
                        "connectedToControl": True,
                    },
                    {"nodeId": "nB", "hostname": "x", "tags": None, "expires": ""},
                ]
            }
        }
    )
    (device,) = asyncio.run(tailnet(TAILSCALE, {"TAILSCALE_API_KEY": "k"}).devices(TAG))
    assert (device.id, device.expires, device.expired, device.online) == ("nA", "", False, True)


def test_one_that_is_gone_already_is_no_error(wired: Any) -> None:
    gone = CorralError(Code.PROVIDER_FAILED, "no", status=404)
    wired({("DELETE", "/node/n1"): gone})
    asyncio.run(tailnet(HEADSCALE, {"HEADSCALE_API_KEY": "k"}).remove(NODE))
    wired({("DELETE", "/device/n1"): CorralError(Code.PROVIDER_FAILED, "no", status=403)})
    with pytest.raises(CorralError):
        asyncio.run(tailnet(TAILSCALE, {"TAILSCALE_API_KEY": "k"}).remove(NODE))


def test_a_policy_is_written_with_the_mark_it_was_read_by(wired: Any) -> None:
    wire = wired({("GET", "/tailnet/-/acl"): {"acls": []}, ("POST", "/tailnet/-/acl"): {}})
    server = tailnet(TAILSCALE, {"TAILSCALE_API_KEY": "k"})
    before = asyncio.run(server.policy())
    assert before == Policy('{"acls": []}', "etag1")
    asyncio.run(server.set_policy(Policy("{}", "etag1")))
    assert wire.asked[-1][3]["If-Match"] == "etag1"


def test_headscale_without_a_policy(wired: Any) -> None:
    none = CorralError(Code.PROVIDER_FAILED, "refused: acl policy not found", status=500)
    wired({("GET", "/policy"): none})
    assert asyncio.run(tailnet(HEADSCALE, {"HEADSCALE_API_KEY": "k"}).policy()) is None


def test_a_missing_key_names_where_it_is_looked_for() -> None:
    for url, name in ((HEADSCALE, "HEADSCALE_API_KEY"), (TAILSCALE, "TAILSCALE_API_KEY")):
        with pytest.raises(CorralError) as missing:
            tailnet(url, {})
        assert missing.value.code is Code.NOT_FOUND
        assert f"{name}_FILE" in missing.value.hint
    with pytest.raises(CorralError, match="its secret is not"):
        tailnet(TAILSCALE, {"TAILSCALE_OAUTH_CLIENT_ID": "c"})


def test_a_key_in_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("s3cret\n")
    file.chmod(0o644)
    with pytest.raises(CorralError) as shared:
        secret({"X_FILE": str(file)}, "X")
    assert shared.value.code is Code.NOT_GOOD
    assert "s3cret" not in str(shared.value) + repr(shared.value)
    file.chmod(0o600)
    assert secret({"X_FILE": str(file)}, "X") == "s3cret"
    assert secret({}, "X") == ""
    with pytest.raises(CorralError, match="cannot be read"):
        secret({"X_FILE": str(tmp_path / "none")}, "X")


def test_reading_is_tried_again_and_writing_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def fails(self: Http, method: str, *more: object) -> Answer:
        calls.append(method)
        raise CorralError(Code.PROVIDER_FAILED, "503", status=503)

    async def at_once(_: float) -> None:
        return None

    monkeypatch.setattr(Http, "_once", fails)
    monkeypatch.setattr("corral.mesh.control.asyncio.sleep", at_once)
    for method in ("GET", "POST"):
        with pytest.raises(CorralError):
            asyncio.run(Http(HEADSCALE).ask(method, "/x"))
    assert calls == ["GET"] * 3 + ["POST"]


def test_a_policy_keeps_what_it_has() -> None:
    other = {"action": "accept", "src": ["a"], "dst": ["b:22"]}
    before = json.dumps(
        {"acls": [other], "groups": {"group:x": ["a@b"]}, "tagOwners": {"tag:z": []}}
    )
    text = merged(before, needed(TAG))
    assert text is not None
    after = json.loads(text)
    assert other in after["acls"]
    assert after["groups"] == {"group:x": ["a@b"]}
    assert set(after["tagOwners"]) == {"tag:z", TAG}
    assert merged(text, needed(TAG)) is None, "the second time nothing is lacking"


@pytest.mark.parametrize("text", ['{"acls": [], // mine\n}', "[]", '{"acls": [],}'])
def test_a_policy_with_comments_is_not_touched(text: str) -> None:
    with pytest.raises(CorralError) as refused:
        merged(text, needed(TAG))
    assert refused.value.code is Code.NOT_GOOD


@pytest.mark.parametrize(
    "response", [{}, [], "<html>", {"nodes": None}, {"devices": {}}, {"nodes": [1]}]
)
@pytest.mark.parametrize("url", [HEADSCALE, TAILSCALE])
def test_another_response_is_never_a_tailnet_without_machines(
    url: str, response: object, wired: Any
) -> None:
    wired({("GET", "/node"): response, ("GET", "/tailnet/-/devices?fields=all"): response})
    server = tailnet(url, {"HEADSCALE_API_KEY": "k", "TAILSCALE_API_KEY": "k"})
    with pytest.raises(CorralError, match="the control server's response has no"):
        asyncio.run(server.devices(TAG))


def test_another_response_is_never_a_tailnet_without_a_policy(wired: Any) -> None:
    """Without a policy all nodes reach all: `corral mesh policy` would have written a new one."""
    wired({("GET", "/policy"): "<html>log in</html>"})
    with pytest.raises(CorralError, match="has no policy"):
        asyncio.run(tailnet(HEADSCALE, {"HEADSCALE_API_KEY": "k"}).policy())
