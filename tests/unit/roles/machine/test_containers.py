"""Enroot and Pyxis: what machines get, and when the plugin is recompiled."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.hosts.quote import Script
from corral.plan.make import resources_of
from corral.roles.inventory import Site
from corral.roles.machine import containers
from corral.roles.order import configured, desired_stages
from corral.spec.load import load_or_raise
from corral.spec.sections.software import EnrootPackage, Pyxis, PyxisSource, Software
from corral.state.base import (
    HERE,
    Change,
    Context,
    DesiredStage,
    Seen,
)
from corral.state.files import File, Parts
from corral.state.packages import Artifact
from corral.state.service import Service
from corral.state.system.enroot import PLUGIN, EnrootPackages, PyxisPlugin, UserNamespaces
from tests.unit.roles.test_cluster import laptop, listing, site
from tests.unit.slurm.clusters import written
from tests.unit.state.shell import diff, run

EXAMPLES = Path(__file__).parents[4] / "examples"
SUM = hashlib.sha256(b"").hexdigest()
PYXIS = Pyxis(
    enroot=(EnrootPackage(file="/srv/enroot_4.1.2-1_amd64.deb", sha256=SUM),),
    source=PyxisSource(file="https://mirror.example/pyxis-0.24.0.tar.gz", sha256=SUM),
    local="/raid/enroot",
)


def test_without_containers_the_notice_names_how_jobs_get_their_software() -> None:
    lab = load_or_raise(EXAMPLES / "lab-3x5090.yaml")
    assert "needs neither Pyxis nor root" in containers.notice(lab)
    alone = lab.model_copy(update={"storage": ()})
    assert "the nodes' own software" in containers.notice(alone)
    for name in ("dgx-infiniband", "laptop", "a3mega"):
        assert not containers.notice(load_or_raise(EXAMPLES / f"{name}.yaml")), name


def clustered(*, own_clock: bool = True, **facts: object) -> Site:
    software = Software(containers="pyxis", pyxis=PYXIS)
    return site(laptop(software=software), own_clock=own_clock, cgroup="v2", **facts)


def of_stage(cluster: Site) -> tuple[DesiredStage, ...]:
    return tuple(s for s in desired_stages(cluster) if s.name == "containers")


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden("roles/containers.txt", listing(of_stage(clustered())))


def change_of(artifact: Artifact) -> Change:
    change = artifact.diff(Seen(0, "absent"), Context("here"))
    assert change is not None
    return change


def known(**fields: object) -> tuple[Artifact, ...]:
    """Files of a cluster file that names none."""
    software = Software(containers="pyxis", pyxis=Pyxis(**fields) if fields else None)
    facts = {"os_id": "debian", "os_version": "13"}
    cluster = site(laptop(software=software), cgroup="v2", **facts)
    return tuple(
        r
        for stage in of_stage(cluster)
        for desired in stage.desired
        for r in desired.resources
        if isinstance(r, Artifact)
    )


def test_golden_of_files_that_nobody_names(golden: Callable[[str, str], None]) -> None:
    software = Software(containers="pyxis")
    cluster = site(laptop(software=software), cgroup="v2", os_id="debian", os_version="13")
    texts = [change_of(artifact).summary for artifact in known()]
    golden("roles/containers-known.txt", listing(of_stage(cluster)) + "\n".join(texts) + "\n")


def test_files_that_nobody_names_are_those_of_the_table() -> None:
    files = known()
    assert [f.name for f in files] == [f.name for f in containers.known_files()]
    assert all(f.place.startswith("https://github.com/NVIDIA/") for f in files)
    assert [f.machine for f in files] == ["x86_64", "x86_64", ""]
    text = change_of(files[0]).script
    assert "another file than Corral knows" in text
    assert "software.pyxis.enroot" in text
    note = containers.notice(laptop(software=Software(containers="pyxis")))
    assert "Orign-al/Origin-Forge" in note
    assert "pyxis-0.24.0.tar.gz" in note
    assert not containers.notice(laptop(software=Software(containers="pyxis", pyxis=PYXIS)))


def test_a_mirror_has_the_same_digests() -> None:
    there = known(mirror="https://mirror.example/nvidia")
    assert [f.sha256 for f in there] == [f.sha256 for f in known()]
    assert there[0].place == "https://mirror.example/nvidia/enroot_4.2.1-1_amd64.deb"
    sent = change_of(known(mirror="/srv/nvidia")[0])
    assert sent.summary == "enroot_4.2.1-1_amd64.deb from this machine"


def test_own_files_win_each_for_itself() -> None:
    files = known(source=PYXIS.source)
    assert [f.sha256 for f in files][2] == SUM
    assert files[0].name == "enroot_4.2.1-1_amd64.deb"


@pytest.mark.parametrize("system", [("ubuntu", "26.04"), ("debian", "11")])
def test_a_system_that_the_table_has_not_is_refused_with_the_way_out(
    system: tuple[str, str],
) -> None:
    os_id, version = system
    software = Software(containers="pyxis")
    cluster = site(laptop(software=software), cgroup="v2", os_id=os_id, os_version=version)
    with pytest.raises(CorralError, match=f"no Enroot for {os_id} {version}") as refused:
        of_stage(cluster)
    assert "software.pyxis.enroot" in refused.value.hint


def test_another_kind_of_machine_downloads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.state.packages.FOLDER", str(tmp_path))
    digest = hashlib.sha256(b"text").hexdigest()
    for machine, kept in (("vax", False), (platform.machine(), True)):
        place = "https://files.example/x.deb"
        artifact = Artifact(place, digest, f"{machine}.deb", machine, hint="name it")
        script = f'curl() {{ printf text >"$5"; }}\n{change_of(artifact).script}'
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True)
        assert Path(artifact.path).exists() is kept, done.stderr
        assert ("vax.deb is for vax: name it" in done.stderr) is not kept


def test_nothing_without_being_asked() -> None:
    plain = site(laptop())
    assert of_stage(plain) == ()
    assert "plugstack.conf" not in written(configured(plain).slurm_files)


def test_every_machine_has_plugin_and_folders_on_its_own_disk() -> None:
    cluster = clustered()
    for held in resources_of(desired_stages(cluster)).values():
        texts = {r.path: r.content for r in held if isinstance(r, File)}
        assert "/raid/enroot/data/user-$(id -u)" in texts[containers.ENROOT_CONF]
        parts = {n: t for r in held if isinstance(r, Parts) for n, t in r.files}
        assert "local=/raid/enroot\n" in parts["50-all-enroot-dirs"]
        assert any(isinstance(r, PyxisPlugin) for r in held)
        slurmd = next(r for r in held if isinstance(r, Service) and r.unit == "slurmd")
        assert PLUGIN in slurmd.inputs
    # Optional would run a job outside of its container when that cannot be made.
    assert f"required {PLUGIN}" in written(configured(cluster).slurm_files)["plugstack.conf"]


def test_the_cgroup_hook_goes_in_containers_only() -> None:
    def hooked(cluster: Site) -> bool:
        return any(
            r.id == f"file:{containers.CGROUP_HOOK}"
            for s in of_stage(cluster)
            for w in s.desired
            for r in w.resources
        )

    assert not hooked(clustered())
    nested = site(laptop(software=Software(containers="pyxis", pyxis=PYXIS)))
    assert hooked(nested)


PLUG = PyxisPlugin("/s.tar.gz", SUM, "libslurm-dev", ("file:/s.tar.gz", "packages:slurm"))


@pytest.mark.parametrize(
    ("seen", "changed", "summary"),
    [
        ("current", "", None),
        ("absent", "", "compile Pyxis against this machine's Slurm"),
        ("made from abc slurm 24.05.1", "", "recompile Pyxis against this machine's Slurm"),
        ("current", "packages:slurm", "recompile Pyxis against this machine's Slurm"),
    ],
)
def test_the_plugin_is_made_when_slurm_or_source_moved(
    seen: str, changed: str, summary: str | None
) -> None:
    context = Context("here")
    if changed:
        context.changed[changed] = Change(changed, "", "", "", Script(":"))
    change = PLUG.diff(Seen(0, seen), context)
    assert (change.summary if change else None) == summary


def test_user_namespaces_are_opened_where_the_kernel_closes_them() -> None:
    assert UserNamespaces().diff(Seen(0, "yes"), Context("here")) is None
    seen = "user/max_user_namespaces 0\nkernel/apparmor_restrict_unprivileged_userns 1"
    change = UserNamespaces().diff(Seen(0, seen), Context("here"))
    assert change is not None
    assert "user.max_user_namespaces = 65536" in change.after
    assert "kernel.apparmor_restrict_unprivileged_userns = 0" in change.after
    assert "unprivileged_userns_clone" not in change.after


def test_enroot_is_installed_when_another_one_is_there() -> None:
    packages = EnrootPackages(("/f/enroot.deb",), ("file:/f/enroot.deb",))
    same = "wanted enroot 4.1.2-1\ninstalled enroot 4.1.2-1"
    assert packages.diff(Seen(0, same), Context("here")) is None
    change = packages.diff(
        Seen(0, same.replace("installed enroot 4.1.2", "installed enroot 3.4.0")), Context("here")
    )
    assert change is not None
    assert change.summary == "replace enroot 3.4.0-1"


def test_a_file_comes_by_stdin_and_another_one_is_refused(
    hostile_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.state.packages.FOLDER", str(hostile_tmp_path / "files"))
    data = b"package\0bytes\n"
    artifact = Artifact(f"{hostile_tmp_path}/x.deb", hashlib.sha256(data).hexdigest(), "x.deb")
    change = diff(artifact)
    assert change is not None
    assert [(s.node, s.path) for s in change.secrets] == [(HERE, artifact.place)]
    with pytest.raises(AssertionError, match="another file"):
        run(change, b"3\nbad")
    assert not Path(f"{artifact.path}.new").exists()
    run(change, b"%d\n%s" % (len(data), data))
    assert Path(artifact.path).read_bytes() == data
    assert diff(artifact) is None
