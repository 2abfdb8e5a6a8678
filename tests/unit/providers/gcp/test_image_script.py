"""The image's script, from its file into the blueprint."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.providers.gcp.blueprint.cluster import export
from corral.providers.gcp.deployment import Making
from corral.providers.gcp.image_script import script_of
from tests.unit.providers.gcp.test_blueprint import mega


def test_it_is_in_the_exported_files(tmp_path: Path) -> None:
    script = tmp_path / "more.sh"
    script.write_text("apt-get install -y nvtop\n")
    made = export(mega(image_script=str(script)), "")
    assert "apt-get install -y nvtop" in made.files["blueprint.yaml"]
    assert script_of(mega()) == ""


def test_a_changed_script_is_a_changed_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    script = tmp_path / "more.sh"
    script.write_text("true\n")
    making = Making(mega(image_script=str(script)), "v1.95.0")
    assert not making.changed  # nothing was made from here
    making.folder.mkdir(parents=True)
    (making.folder / "marks.json").write_text('{"deployed": "another"}')
    assert making.changed
    script.unlink()
    with pytest.raises(CorralError, match="cannot be read: No such file"):
        assert making.changed


@pytest.mark.parametrize("data", [b"", b" \n", b"a\0b", b"a\r\n", b"\xff\xfe", b"#" * 70000])
def test_what_is_not_a_script_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "more.sh").write_bytes(data)
    with pytest.raises(CorralError, match="is not a shell script") as caught:
        script_of(mega(image_script=str(tmp_path / "more.sh")))
    assert caught.value.code is Code.NOT_GOOD
