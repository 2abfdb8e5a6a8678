from __future__ import annotations

import json
from pathlib import Path

from corral.providers.containers.cni import fix_version


def test_the_refused_version_is_replaced_once(tmp_path: Path) -> None:
    path = tmp_path / "corral-lab.conflist"
    plugins = [{"type": "bridge"}, {"type": "firewall", "backend": ""}]
    path.write_text(json.dumps({"cniVersion": "1.0.0", "name": "corral-lab", "plugins": plugins}))
    assert fix_version("corral-lab", tmp_path)
    assert json.loads(path.read_text()) == {
        "cniVersion": "0.4.0",
        "name": "corral-lab",
        "plugins": plugins,
    }
    assert not fix_version("corral-lab", tmp_path)


def test_other_networks_and_netavark_are_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.conflist"
    other.write_text('{"cniVersion": "1.0.0"}')
    assert not fix_version("corral-lab", tmp_path)
    assert other.read_text() == '{"cniVersion": "1.0.0"}'
