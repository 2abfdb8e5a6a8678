"""Builds the site of several versions into one folder, with a switch between them.

    .venv/bin/python .ci/site_versions.py OUT next=. 0.2.0=v0.2.0     # newest first; v0.2.0: a tag
    .venv/bin/python .ci/site_versions.py OUT next=.                  # `.`: the files here

Each version is a folder of OUT, built from its own files by its own mkdocs.yml; OUT/index.html
opens the first. The switch leads to the same page of another version where that has it. Like the
site, it works from a folder, without a web server: Material's own switch fetches a list, which
browsers refuse there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
SWITCH = REPO / "docs/assets/versions.js"
HOME = """\
<!doctype html>
<meta charset="utf-8">
<title>Corral</title>
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">Corral {0}</a>
"""


def source_of(ref: str, folder: Path) -> Path:
    """The files of a commit or tag, in a folder; ``.``: those of this checkout."""
    if ref == ".":
        return REPO
    archive, source = folder / "source.tar", folder / "source"
    source.mkdir()
    for words in (["git", "-C", REPO, "archive", "-o", archive, ref], ["tar", "-xf", archive]):
        subprocess.run(words, cwd=source, check=True)
    return source


def built(source: Path, site: Path) -> None:
    """The site of one version."""
    words = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--strict",
        "--site-dir",
        str(site),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(words, cwd=source, env=environment, check=True)


def joined(out: Path, versions: list[str]) -> None:
    """Put the switch, and the list that it reads, into the versions' sites."""
    pages = {
        version: sorted(
            page.relative_to(out / version).as_posix() for page in (out / version).rglob("*.html")
        )
        for version in versions
    }
    listed = [{"version": version, "pages": names} for version, names in pages.items()]
    (out / "versions.js").write_text(f"window.corralVersions = {json.dumps(listed)};\n")
    shutil.copy(SWITCH, out / "switch.js")
    for version, names in pages.items():
        for name in names:
            page = out / version / name
            up = "../" * (name.count("/") + 1)
            scripts = (
                f'<script src="{up}versions.js"></script><script src="{up}switch.js"></script>'
            )
            text = page.read_text()
            if scripts not in text:
                page.write_text(text.replace("</body>", f"{scripts}</body>", 1))
    (out / "index.html").write_text(HOME.format(versions[0]))


def main(words: list[str]) -> int:
    """Build all of them."""
    out, *versions = words or [""]
    if not versions or not all("=" in version for version in versions):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    sites = Path(out).resolve()
    refs = dict(version.split("=", 1) for version in versions)
    for version, ref in refs.items():
        with tempfile.TemporaryDirectory() as folder:
            built(source_of(ref, Path(folder)), sites / version)
    joined(sites, list(refs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
