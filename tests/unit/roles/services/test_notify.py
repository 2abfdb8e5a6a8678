"""What the controller is given for messages about jobs."""

from __future__ import annotations

import json
from dataclasses import replace

from corral.roles.services import notify
from corral.spec.sections.services import Notify, Services, Webhook
from corral.state.base import Context, Seen
from corral.state.files import File
from corral.state.own_secret import OwnSecret
from tests.unit.roles.test_cluster import laptop, site

SECRET = OwnSecret("relay", "/root/password", "f00d")


def declared(**more: object) -> Services:
    fields = {"relay": "mail.example.org", "sender": "lab@example.org", **more}
    hooks = (Webhook(name="lab-chat", url="https://hooks.example.org/x"),)
    return Services(notify=Notify(webhooks=hooks, **fields))  # pyright: ignore[reportArgumentType]


def test_nothing_without_the_field() -> None:
    base = site(laptop())
    assert not notify.slurm_conf(base).settings
    (share,) = notify.on_controllers(base)
    assert {r.id.partition(":")[0] for r in share.desired[0].resources} == {"path", "file"}


def test_program_queue_units_and_secret() -> None:
    base = replace(site(laptop(services=declared(domains=("Example.org",)))), notify=(SECRET,))
    (share,) = notify.on_controllers(base)
    resources = share.desired[0].resources
    files = {r.path: r for r in resources if isinstance(r, File)}
    settings = json.loads(files[notify.CONF].content)
    assert settings["relay"]["domains"] == ["example.org"]
    assert settings["webhooks"] == {"lab-chat": "https://hooks.example.org/x"}
    assert files[notify.PROGRAM].mode == "755"
    unit = files["/etc/systemd/system/corral-notify.service"].content
    assert SECRET in resources
    assert "User=slurm" in unit
    assert [s.value for s in notify.slurm_conf(base).settings] == [notify.PROGRAM]
    assert [r for r in resources if r.id == "path:corral-notify"]


def test_a_plan_knows_a_secret_by_its_fingerprint_alone() -> None:
    change = SECRET.diff(Seen(0, "absent"), Context({}))
    assert change is not None
    assert [ref.path for ref in change.secrets] == ["/root/password"]
    assert "f00d" not in change.summary
    assert SECRET.diff(Seen(0, "f00d"), Context({})) is None
