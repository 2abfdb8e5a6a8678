"""Which cluster is meant where none is named: one rule for all verbs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api.config.profiles import keep
from corral.cli import cluster_choice
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError
from corral.spec.client import ClientSpec, Profile, public_part
from corral.spec.load import load_or_raise
from corral.state_dir import cluster_dir

EXAMPLE = Path(__file__).parents[3] / "examples" / "laptop.yaml"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def written(path: Path, name: str = "laptop") -> Path:
    path.write_text(EXAMPLE.read_text().replace("name: laptop", f"name: {name}", 1))
    return path


def applied(path: Path, *, rehearsal: bool = False, kept: bool = True) -> str:
    """As `corral up` leaves it: the record of the spec, and where it came from."""
    spec = api.load(path)
    record = {"kind": "spec", "spec": spec.model_dump(mode="json")}
    (cluster_dir(spec.name) / "journal.jsonl").write_text(f"{json.dumps(record)}\n")
    if kept:
        cluster_choice.remember(spec, str(path), rehearse=rehearsal)
    return spec.name


def refused(*words: str, **more: Any) -> CorralError:
    with pytest.raises(CorralError) as caught:
        cluster_choice.declared(Ui(), *words, **more)
    return caught.value


def test_without_any_cluster_the_file_is_asked_for(here: Path) -> None:
    error = refused()
    assert (error.code, "corral up FILE" in error.hint) == (Code.USAGE, True)


def test_the_only_cluster_is_read_again_from_its_file(here: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "lab.yaml", "lab")
    applied(file)
    file.write_text(file.read_text().replace("node[0-2]", "node[0-3]", 1))
    assert "node[0-3]" in [g.nodes for g in cluster_choice.declared(Ui()).groups]
    assert "node[0-3]" in [g.nodes for g in cluster_choice.declared(Ui(), "", "lab").groups]
    assert "node[0-3]" not in [g.nodes for g in cluster_choice.cluster(Ui()).groups], (
        "as it was applied"
    )


def test_cluster_yaml_of_this_folder_comes_before_the_only_one(here: Path, tmp_path: Path) -> None:
    applied(written(tmp_path / "lab.yaml", "lab"))
    written(here / "cluster.yaml", "here")
    assert cluster_choice.declared(Ui()).name == cluster_choice.cluster(Ui()).name == "here"
    assert (
        cluster_choice.declared(Ui(), "", "lab").name
        == cluster_choice.cluster(Ui(), "", "lab").name
        == "lab"
    )
    cluster_choice.remember(api.load(here / "cluster.yaml"))
    origin = api.origin_of("here")
    assert origin == api.Origin(str(here / "cluster.yaml"))


def test_of_several_one_must_be_named(here: Path, tmp_path: Path) -> None:
    applied(written(tmp_path / "a.yaml", "a"))
    applied(written(tmp_path / "b.yaml", "b"))
    assert "a, b" in refused().message
    assert cluster_choice.declared(Ui(), "b").name == "b"


def test_a_rehearsal_is_not_applied_to_the_machines(here: Path) -> None:
    """Its file declares real machines: the next `corral up` without a file rehearses again."""
    file = EXAMPLE.parent / "lab-3x5090.yaml"
    spec, _ = api.rehearsal(api.load(file))
    record = {"kind": "spec", "spec": spec.model_dump(mode="json")}
    (cluster_dir(spec.name) / "journal.jsonl").write_text(f"{json.dumps(record)}\n")
    cluster_choice.remember(spec, str(file), rehearse=True)
    again = cluster_choice.declared(Ui())
    assert {group.provider for group in again.groups} == {"embedded"}


def test_a_file_that_is_gone_or_another_cluster_now(here: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "lab.yaml", "lab")
    applied(file)
    written(file, "other")
    assert "declares cluster other now" in refused("lab").message
    file.unlink()
    assert refused("lab").code is Code.NOT_FOUND


def test_without_a_known_file_it_is_the_record(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    applied(written(tmp_path / "lab.yaml", "lab"), kept=False)
    assert cluster_choice.declared(Ui()).name == "lab"
    assert "as it was last applied" in capsys.readouterr().err


def test_the_next_command_names_what_was_named() -> None:
    assert cluster_choice.again("", "") == ""
    assert cluster_choice.again("a b.yaml", "", rehearse=True) == " 'a b.yaml' --rehearse"


def logged_in(name: str) -> str:
    """As `corral login` leaves it."""
    spec = load_or_raise(EXAMPLE)
    fields: dict[str, Any] = {"node": "node0", "cluster": public_part(spec), "host": "lab"}
    keep(Profile(name=name, uid=2001, user="alice", **fields), "")
    return name


def test_the_only_profile_is_meant_where_root_is_not_needed(here: Path) -> None:
    logged_in("lab")
    spec = cluster_choice.cluster(Ui(), administers=False)
    assert isinstance(spec, ClientSpec)
    assert cluster_choice.declared(Ui(), "lab", administers=False) == spec
    with pytest.raises(CorralError) as caught:
        cluster_choice.cluster(Ui())
    assert caught.value.code is Code.FORBIDDEN
    assert refused("lab").code is Code.FORBIDDEN


def test_of_a_cluster_and_a_profile_one_must_be_named(here: Path, tmp_path: Path) -> None:
    applied(written(tmp_path / "a.yaml", "a"))
    logged_in("lab")
    assert "a, lab" in refused().message
    assert cluster_choice.cluster(Ui(), "a").name == "a"
