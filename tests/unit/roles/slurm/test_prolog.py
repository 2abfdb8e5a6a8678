"""Which scripts run before and after jobs, and what slurm.conf holds of them."""

from __future__ import annotations

import re
import subprocess

import pytest

from corral import agents
from corral.plan.make import resources_of
from corral.roles.order import configured, desired_stages
from corral.roles.slurm import prolog
from corral.spec.models import Slurm
from corral.spec.sections.services import Prolog
from corral.state.files import File, Parts
from tests.unit.roles.test_cluster import laptop, site

HERE = agents.FOLDER / "prolog"
ALL = sorted(str(p.relative_to(HERE)) for p in HERE.glob("*.d/*"))


def parts(declared: Prolog | None) -> dict[str, tuple[str, ...]]:
    cluster = site(laptop(slurm=Slurm(prolog=declared)))
    held = resources_of(desired_stages(cluster))["node1"]
    return {r.folder: tuple(n for n, _ in r.files) for r in held if isinstance(r, Parts)}


def conf(declared: Prolog | None) -> str:
    return configured(site(laptop(slurm=Slurm(prolog=declared)))).slurm_files.slurm.text


def test_nothing_without_being_asked() -> None:
    assert parts(None) == {}
    assert "Prolog" not in conf(None).replace("PrologFlags", "")


def test_the_default_cleans_up_and_touches_no_clocks() -> None:
    assert parts(Prolog()) == {
        "/etc/slurm/prolog.d": (),
        "/etc/slurm/epilog.d": (
            "40-lastuserjob-processes",
            "42-lastuserjob-cleanup",
            "45-job-gpu-processes",
            "50-exclusive-gpu",
        ),
    }


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"leftovers": False}, "epilog.d/42-lastuserjob-cleanup"),
        ({"gpus": False}, "epilog.d/45-job-gpu-processes"),
        ({"clocks": "highest"}, "prolog.d/50-exclusive-gpu"),
        ({"drop_caches": True}, "epilog.d/80-exclusive-caches"),
    ],
)
def test_each_switch_moves_its_scripts(change: dict[str, object], name: str) -> None:
    plain = prolog.chosen(Prolog(), containers=False)
    other = prolog.chosen(Prolog(**change), containers=False)  # type: ignore[arg-type]
    assert (name in plain) != (name in other)


def test_every_script_can_be_chosen() -> None:
    everything = Prolog(clocks="highest", drop_caches=True)
    assert sorted(prolog.chosen(everything, containers=True)) == ALL


def test_slurm_conf_names_the_runner_and_bounds_its_time() -> None:
    text = conf(Prolog(minutes=7))
    for line in (
        "Prolog=/etc/slurm/prolog.sh",
        "Epilog=/etc/slurm/epilog.sh",
        "PrologEpilogTimeout=420",
        "SchedulerParameters=nohold_on_prolog_fail,batch_sched_delay=0",
    ):
        assert line in text.splitlines()
    cluster = site(laptop(slurm=Slurm(prolog=Prolog())))
    files = [r for r in resources_of(desired_stages(cluster))["node1"] if isinstance(r, File)]
    assert {f.path: f.mode for f in files if f.path.endswith("log.sh")} == {
        prolog.PROLOG: "755",
        prolog.EPILOG: "755",
    }


@pytest.mark.parametrize("name", [*ALL, "run.sh"])
def test_scripts_are_posix_and_name_their_purpose(name: str) -> None:
    text = (HERE / name).read_text()
    assert text.startswith("#!/bin/sh\n# Written by Corral. ")
    assert re.fullmatch(r"run\.sh|(pro|epi)log\.d/\d\d-[a-z0-9-]+", name)
    subprocess.run(["/bin/sh", "-n", HERE / name], check=True)
