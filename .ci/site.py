"""What MkDocs does not know about this repository: pages may link to files outside of docs/.

Such a file becomes a page below ``repository/``: Markdown as it is, other files as a code block, a
folder as the list of its files. So no link leaves the site, which is read without a network.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPO: Final = Path(__file__).resolve().parents[1]
DOCS: Final = REPO / "docs"
HOME: Final = {"README.md": "index.md"}
"""Files that have a page of the site in their place."""
PROJECT: Final = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
"""Files of the root that the site shows, linked or not."""
_FENCED: Final = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.M | re.S)
_LINK: Final = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_MARK: Final = re.compile(
    r"^( *)<!-- (run by|not run): ([^\n]+) -->\n(\1```.*?^\1```$)(\n+\1```text\n.*?^\1```$)?",
    re.M | re.S,
)
_SHOWN: Final = re.compile(
    r"^( *)<!-- shown: (\w+)(?:; ([^\n]+))? -->\n(\1```.*?^\1```$)", re.M | re.S
)
_EACH: Final = re.compile(r"^<!-- each block: ([^\n]+) -->$", re.M)
_YAML: Final = re.compile(
    r"^( *)(?:<!-- not linted: ([^\n]+) -->\n\1)?(```yaml.*?^\1```$)", re.M | re.S
)
_CAPTIONS: Final = {
    "run by": "Run as it is written by `{}`: it succeeds.",
    "run but": "Run by `{}`, {}: it succeeds.",
    "not run": "Not run {}.",
    "file": "Checked by `corral lint` in each run of the tests.",
    "part": "A part of a cluster file, checked by `corral lint` with the rest made up.",
    "not linted": "Not checked by `corral lint`: {}.",
}
KINDS: Final = {
    "diagram": "A diagram.",
    "output": "An example of output, which no run is compared with: {}.",
    "file": "The text of a file.",
    "query": "A query of Prometheus; `tests/unit/web/reference/test_metrics.py` has its metrics.",
}
"""All that a block may be which nobody runs or checks (``<!-- shown: KIND; WORDS -->``)."""
_LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".sh": "sh", ".toml": "toml"}


def address(file: Path) -> str:
    """The place in the site of a file of the repository, relative to docs/."""
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS).as_posix()
    name = file.relative_to(REPO).as_posix()
    page = name if name.endswith(".md") else f"{name}.md"
    return HOME.get(name, f"repository/{page}")


def outside(source: Path, text: str) -> set[Path]:
    """Files and folders of the repository, outside of docs/, that a page links to."""
    targets = (
        (source.parent / match[1]).resolve()
        for prose in _FENCED.split(text)[::2]
        for match in _LINK.finditer(prose)
    )
    return {
        target
        for target in targets
        if target.exists() and target.is_relative_to(REPO) and not target.is_relative_to(DOCS)
    }


def with_site_links(source: Path, text: str) -> str:
    """A page's text with its links as the site has them.

    Args:
        source: the file of the repository that the text is from: its links are relative to it.
        text: Markdown.
    """
    here = Path(address(source)).parent

    def replaced(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        if not target.exists() or not target.is_relative_to(REPO):
            return match[0]  # MkDocs reports it
        return f"]({os.path.relpath(address(target), here)}{match[2] or ''})"

    pieces = _FENCED.split(text)
    pieces[::2] = [_LINK.sub(replaced, prose) for prose in pieces[::2]]
    return "".join(pieces)


def as_page(file: Path) -> str:
    """A file or folder of the repository as Markdown."""
    name = file.relative_to(REPO).as_posix()
    if file.is_dir():
        inside = sorted(x for x in file.rglob("*") if x.is_file() and "__pycache__" not in x.parts)
        blocks = [f"# {name}/", *(_block(x, x.relative_to(file).as_posix()) for x in inside)]
        return "\n\n".join(blocks)
    if file.suffix == ".md":
        return with_site_links(file, file.read_text())
    return f"# {name}\n\n{_block(file, file.name)}"


def _block(file: Path, title: str) -> str:
    language = _LANGUAGES.get(file.suffix, "text")
    return f'````{language} title="{title}"\n{file.read_text()}\n````'


def _reached(pages: Iterable[Path]) -> set[Path]:
    """All files outside of docs/ that pages link to, and what those link to."""
    waiting = [*pages, *(REPO / name for name in PROJECT)]
    reached = {REPO / name for name in PROJECT}
    while waiting:
        page = waiting.pop()
        new = outside(page, page.read_text()) - reached if page.suffix == ".md" else set()
        reached |= new
        waiting += [file for file in new if file.is_file()]
    return {file for file in reached if file.relative_to(REPO).as_posix() not in HOME}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of files outside of docs/."""
    pages = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    for file in sorted(_reached(pages)):
        files.append(File.generated(config, address(file), content=as_page(file)))
    return files


def with_captions(text: str) -> str:
    """Who runs or checks each block, below it and its output (tests/guide_blocks.py)."""

    def captioned(match: re.Match[str]) -> str:
        indent, kind, words, block, output = match.groups(default="")
        file, mark, but = words.partition("; ")
        if kind == "run by":
            caption = _CAPTIONS["run but" if mark else kind].format(file, but)
        else:
            caption = _CAPTIONS[kind].format(words if words.startswith("as ") else f"here: {words}")
        return f"{block}{output}\n\n{indent}*{caption}*{{: .ran }}"

    def checked(match: re.Match[str]) -> str:
        indent, why, block = match.groups(default="")
        complete = "\n" in block and block.split("\n")[1].strip() == "corral: v1"
        kind = "not linted" if why else "file" if complete else "part"
        return f"{indent}{block}\n\n{indent}*{_CAPTIONS[kind].format(why)}*{{: .ran }}"

    def shown(match: re.Match[str]) -> str:
        indent, kind, words, block = match.groups(default="")
        return f"{block}\n\n{indent}*{KINDS[kind].format(words)}*{{: .ran }}"

    text = _EACH.sub(r"\n*Each block of this page: \1.*{: .ran .each }", text)
    return _YAML.sub(checked, _SHOWN.sub(shown, _MARK.sub(captioned, text)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links that leave docs/."""
    del config, files
    source = page.file.abs_src_path
    return with_captions(with_site_links(Path(source), markdown) if source else markdown)
