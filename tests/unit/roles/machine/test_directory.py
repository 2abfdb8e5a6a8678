"""The directory of people: SSSD's settings, who gets which, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.errors import Code, CorralError
from corral.roles.inventory import Site
from corral.roles.machine.directory import ROLE, members, on_nodes, sssd_conf
from corral.roles.order import desired_stages
from corral.spec.models import Storage
from corral.spec.sections.directory import Directory
from corral.state.base import Resource
from corral.state.files import File, Gone
from corral.state.service import Service, Stopped, Timer
from corral.state.system.directory import (
    CA,
    CONF,
    FINGERPRINT,
    KEYS,
    LOCAL,
    LOCAL_CONF,
    PASSWORD,
    PASSWORD_CONF,
    GroupAccounts,
    HomesAtLogin,
    KeysFromDirectory,
    MemberFolders,
    RootFile,
)
from tests.unit.roles.test_cluster import directory

ACCOUNTS_UNIT = "corral-group-accounts"
FOLDERS_UNIT = "corral-member-folders"


def declared(**changes: object) -> Directory:
    section = directory().spec.directory
    assert section is not None
    return section.model_copy(update=changes)


def with_section(section: Directory | None) -> Site:
    site = directory()
    return replace(site, spec=site.spec.model_copy(update={"directory": section}))


def held(site: Site, node: str) -> dict[str, Resource]:
    (share,) = on_nodes(site)
    return {r.id: r for d in share.desired if node in d.nodes for r in d.resources}


def test_sssd_reads_the_directory_by_tls_alone_and_lets_the_groups_in() -> None:
    lines = sssd_conf(declared()).splitlines()
    assert "ldap_uri = ldaps://one.example.org, ldap://two.example.org" in lines
    assert "ldap_tls_reqcert = demand" in lines
    assert "ldap_id_use_start_tls = true" in lines
    assert f"ldap_tls_cacert = {CA}" in lines
    assert "simple_allow_groups = vision, guests" in lines
    assert "sudo_provider = none" in lines
    assert "override_homedir = /shared/home/%u" in lines
    assert "ldap_schema = rfc2307" in lines
    assert not [line for line in lines if line.startswith("ldap_default_authtok =")]


def test_what_is_left_out_is_not_written() -> None:
    section = declared(ca=None, bind_dn=None, password_file=None, tls="off")
    text = sssd_conf(section.model_copy(update={"group_members": "entries"}))
    assert "start_tls" not in text
    assert "cacert" not in text
    assert "bind_dn" not in text
    assert "ldap_schema = rfc2307bis\n" in text
    here = held(with_section(section), "a0")
    gone = {CA, PASSWORD, PASSWORD_CONF, FINGERPRINT}
    assert {r.path for r in here.values() if isinstance(r, Gone)} == gone


def test_every_node_has_sssd_and_the_server_of_homes_makes_their_folder() -> None:
    site = directory()
    for node in site.names:
        conf = held(site, node)[f"file:{CONF}"]
        assert isinstance(conf, RootFile)
        assert conf.mode == "600"
    assert "directory:/shared/home" in held(site, "ctl")
    assert "directory:/shared/home" not in held(site, "a0")
    (share,) = on_nodes(site)
    assert {gate.node for gate in share.gates} == set(site.names)


def test_what_is_this_machines_own_is_left_out_before_sssd_starts() -> None:
    here = held(directory(), "a0")
    drop_in = here["file:/etc/systemd/system/sssd.service.d/corral.conf"]
    assert isinstance(drop_in, File)
    assert f"ExecStartPre=+{LOCAL} {CONF} {LOCAL_CONF}\n" in drop_in.content
    sssd = here["service:sssd"]
    assert isinstance(sssd, Service)
    assert {f"file:{LOCAL}", drop_in.id, "user:alice", "former-people"} <= set(sssd.watches)
    order = list(here)
    assert order.index(f"file:{LOCAL}") < order.index("service:sssd")
    assert order.index(f"file:{KEYS}") < order.index(KeysFromDirectory(on=True).id)
    for program in (LOCAL, KEYS):
        file = here[f"file:{program}"]
        assert isinstance(file, File)
        assert (file.owner, file.mode) == ("root:root", "755")


def test_homes_of_its_own_are_checked_on_each_node() -> None:
    site = with_section(declared(homes="/home"))
    assert all("directory:/home" in held(site, node) for node in site.names)


def test_a_home_that_cannot_be_made_ends_no_login() -> None:
    profile = held(directory(), "a0")["file:/usr/share/pam-configs/corral-homes"]
    assert isinstance(profile, File)
    assert "\toptional\t" in profile.content
    assert "required" not in profile.content


def test_members_get_their_accounts_on_the_controller_and_by_a_timer() -> None:
    site = directory()
    (share, *_) = members(site)
    (entry,) = share.desired
    assert entry.nodes == (site.controller,)
    first, *units = entry.resources
    groups = ("vision:vision:high", "guests:vision:")
    assert first == GroupAccounts("directory", groups, first.watches)
    texts = "".join(r.content for r in units if isinstance(r, File) and "systemd" in r.path)
    assert f"ExecStart=/usr/local/sbin/{ACCOUNTS_UNIT} directory {' '.join(groups)}\n" in texts
    assert "OnUnitInactiveSec=600s" in texts
    assert units[-1] == Timer(ACCOUNTS_UNIT)


def test_members_get_their_folders_where_shared_storage_is_kept() -> None:
    """As root is nobody on a client of Corral's own NFS."""
    site = directory()
    for storage, keeper, path in (
        (Storage(mount="/shared", kind="existing"), site.controller, "/shared"),
        (Storage(mount="/shared", kind="nfs", server="a1", path="/srv/x"), "a1", "/srv/x"),
    ):
        spec = site.spec.model_copy(update={"storage": (storage,)})
        _, share, *rest = members(replace(site, spec=spec))
        (entry,) = share.desired
        assert entry.nodes == (keeper,)
        first, *units = entry.resources
        groups = ("vision:vision:high", "guests:vision:")
        assert first == MemberFolders(path, groups, ("service:sssd", f"job-folders:{path}"))
        texts = "".join(r.content for r in units if isinstance(r, File) and "systemd" in r.path)
        command = f'{FOLDERS_UNIT} {path} corral "jobs envs data" {" ".join(groups)}'
        assert f"ExecStart=/usr/local/sbin/{command}\n" in texts
        assert units[-1] == Timer(FOLDERS_UNIT)
        gone = [d for s in rest for d in s.desired if Timer(FOLDERS_UNIT, on=False) in d.resources]
        assert [d.nodes for d in gone] == (
            [] if keeper == site.controller else [(site.controller,)]
        )


def test_off_is_at_up_only() -> None:
    (share, *_) = members(with_section(declared(every="off")))
    (entry,) = share.desired
    assert isinstance(entry.resources[0], GroupAccounts)
    assert Timer(ACCOUNTS_UNIT, on=False) in entry.resources
    assert not [r for r in entry.resources if isinstance(r, File)]


def test_without_a_directory_what_corral_put_there_goes() -> None:
    site = with_section(None)
    here = held(site, "a0").values()
    assert Stopped("sssd") in here
    assert HomesAtLogin(on=False) in here
    assert {Gone(CONF), Gone(LOCAL_CONF), Gone(LOCAL), Gone(KEYS)} <= set(here)
    (share,) = members(site)
    assert Timer(ACCOUNTS_UNIT, on=False) in share.desired[0].resources
    assert Timer(FOLDERS_UNIT, on=False) in share.desired[0].resources


def test_a_machine_without_systemd_is_refused() -> None:
    site = directory()
    facts = {**site.facts, "a1": replace(site.facts["a1"], systemd=False)}
    with pytest.raises(CorralError) as error:
        ROLE.check(replace(site, facts=facts))
    assert error.value.code is Code.NOT_GOOD
    assert error.value.node == "a1"


def test_users_of_the_file_come_before_the_directory_and_accounts_last() -> None:
    names = [stage.name for stage in desired_stages(directory())]
    assert names.index("people") < names.index("directory") < names.index("accounting")
    assert names[-1] == "group-accounts"
