"""What a cluster is given for its scheduled backup."""

from __future__ import annotations

import json

from corral.roles.services import backup
from corral.spec.sections.backup import ScheduledBackup
from corral.state.files import File, Gone
from corral.state.storage.root_folders import RootFolder
from tests.unit.roles.test_cluster import laptop, site

KEY = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"


def files(declared: ScheduledBackup) -> dict[str, File]:
    base = site(laptop(backup=declared))
    (share,) = backup.on_controller(base)
    (entry,) = share.desired
    assert entry.nodes == (base.controller,)
    return {r.path: r for r in entry.resources if isinstance(r, File)}


def test_off_removes_programs_and_timer_but_no_archive() -> None:
    (share,) = backup.on_controller(site(laptop()))
    (entry,) = share.desired
    ids = [resource.id for resource in entry.resources]
    assert ids[0] == "timer:corral-backup"
    assert {name for name in ids[1:] if "/var/backups" in name} == set()
    assert Gone(backup.METRICS) in entry.resources
    assert len(ids) == 9


def test_what_the_program_reads() -> None:
    given = files(ScheduledBackup(every="1d", to=(KEY, f"{KEY}a"), keep=3, folder="/shared/old"))
    conf = given[backup.CONF]
    assert conf.mode == "600"
    settings = json.loads(conf.content)
    assert (settings["folder"], settings["keep"]) == ("/shared/old", 3)
    assert settings["request"]["database"] == "slurm_acct_db"
    assert json.loads(settings["request"]["files"]["cluster.json"])["name"] == "laptop"
    assert given[backup.RECIPIENTS].content == f"{KEY}\n{KEY}a\n"
    timer = given["/etc/systemd/system/corral-backup.timer"].content
    assert "Unit=corral-backup-due.service\nOnActiveSec=600s\nOnUnitActiveSec=3600s\n" in timer
    assert settings["asked"] == 3600
    check = given["/etc/systemd/system/corral-backup-due.service"].content
    assert "ExecStart=/usr/local/sbin/corral-backup --due\n" in check
    often = files(ScheduledBackup(every="2h", to=(KEY,)))[backup.CONF]
    assert json.loads(often.content)["asked"] == 600
    service = given["/etc/systemd/system/corral-backup.service"].content
    assert "RequiresMountsFor=/shared/old" in service


def test_metrics_are_written_where_the_cluster_has_them() -> None:
    declared = ScheduledBackup(every="1d", to=(KEY,))
    services = laptop().services.model_copy(update={"metrics": True})
    for spec, path in (
        (laptop(backup=declared), ""),
        (laptop(backup=declared, services=services), backup.METRICS),
    ):
        (share,) = backup.on_controller(site(spec))
        (entry,) = share.desired
        (conf,) = [r for r in entry.resources if isinstance(r, File) and r.path == backup.CONF]
        assert json.loads(conf.content)["metrics"] == path
        assert (Gone(backup.METRICS) in entry.resources) == (not path)


def test_the_folder_is_not_taken_over_from_a_user() -> None:
    declared = ScheduledBackup(every="1d", to=(KEY,), folder="/shared/old")
    (share,) = backup.on_controller(site(laptop(backup=declared)))
    (entry,) = share.desired
    (folder,) = [r for r in entry.resources if r.id == "directory:/shared/old"]
    assert folder == RootFolder("/shared/old", "700")
