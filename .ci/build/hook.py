"""What hatchling adds to the wheel and the sdist: manual pages, and the bill of materials."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# hatchling loads this file by its path.
sys.path.insert(0, str(Path(__file__).parent))
import manual
import sbom


class Release(BuildHookInterface[Any]):
    """Makes them in a temporary folder, for each build."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to what is packed; an editable install has none."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        pages = manual.write(folder / "man", self.metadata.version)
        placed = {str(page): f"share/man/man1/{page.name}" for page in pages}
        bill = folder / "sbom.cdx.json"
        bill.write_text(sbom.text(Path(self.root)), encoding="utf-8")
        if self.target_name == "wheel":
            build_data["shared_data"] |= placed
            build_data["sbom_files"].append(str(bill))
        else:
            build_data["force_include"] |= placed | {str(bill): "sbom.cdx.json"}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        del build_data, artifact_path
        if version != "editable":
            self._folder.cleanup()
