"""The site as a reader has it: opened from a folder, without a network, in Debian's Chromium."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import markdown
import pytest

REPO = Path(__file__).parents[2]
OTHER_SCHEMES = {"http", "https", "mailto", "data", "javascript"}


@dataclass
class Links(HTMLParser):
    """A page's links and the places in it that others can link to."""

    targets: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            if name in ("id", "name") and value:
                self.ids.add(value)


def links_of(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text())
    return links


def dead_links(site: Path) -> list[str]:
    """Links and sources of all pages that lead to no file or no place of the site.

    A web server shows 404.html in any folder, so its links begin at the site's root.
    """
    files = [page for page in site.rglob("*.html") if page != site / "404.html"]
    pages = {page: links_of(page) for page in files}
    dead: list[str] = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme in OTHER_SCHEMES:
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = file.exists() and (
                not parts.fragment
                or file not in pages
                or unquote(parts.fragment) in pages[file].ids
            )
            if not there:
                dead.append(f"{page.relative_to(site)}: {target}")
    return dead


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every warning as an error."""
    out = tmp_path_factory.mktemp("site").resolve()
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=REPO,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return out


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        pytest.skip("chromium is not installed: ./test docs installs it")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def reader(chromium: Any, site: Path) -> Iterator[Any]:
    """A page of the home page, in a browser without a network; it fails on errors and requests."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda r: problems.append(r.url) if urlsplit(r.url).scheme in ("http", "https") else None,
    )
    page.goto((site / "index.html").as_uri())
    yield page
    context.close()
    assert problems == []


def test_no_link_of_the_site_is_dead(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > 70
    assert dead_links(site) == []


@pytest.mark.parametrize("link", ["gone.html", "guide/jobs.html#gone", "#gone", "img/gone.png"])
def test_a_dead_link_is_seen(site: Path, tmp_path: Path, link: str) -> None:
    copy = tmp_path / "site"
    shutil.copytree(site, copy)
    home = copy / "index.html"
    home.write_text(home.read_text().replace("</main>", f'<a href="{link}">x</a></main>'))
    assert dead_links(copy) == [f"index.html: {link}"]


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    pages = [file.relative_to(REPO / "docs") for file in (REPO / "docs").rglob("*.md")]
    names = {page.with_suffix(".html") if page.name != "README.md" else page for page in pages}
    missing = [str(name) for name in names if name.suffix == ".html" and not (site / name).exists()]
    assert missing == []


def captions(page: Path) -> list[str]:
    return re.findall(r'<p><em class="ran">(.*?)</em></p>', page.read_text(), re.S)


def test_captions_claim_no_more_than_was_done(site: Path) -> None:
    """What a test replaced is in the caption; YAML has one, and what no test takes a reason."""
    start = " ".join(captions(site / "guide/getting-started.html"))
    assert "on three embedded nodes of a cluster with another name: it succeeds" in start
    tour = captions(site / "guide/train-across-clouds.html")
    assert sum("slow test" in caption for caption in tour) >= 7
    file = " ".join(captions(site / "guide/cluster-file.html"))
    assert "Checked by <code>corral lint</code>" in file
    assert any("A part of a cluster file" in c for c in captions(site / "guide/queues.html"))
    jobs = " ".join(captions(site / "guide/jobs.html"))
    assert "Not checked by <code>corral lint</code>: a job file" in jobs
    assert "with stand-ins of the model" in jobs
    assert "nginx -t" in " ".join(captions(site / "guide/ui.html"))
    assert captions(site / "repository/benchmarks/index.html")
    everywhere = [caption for page in site.rglob("*.html") for caption in captions(page)]
    assert len(everywhere) > 150
    assert not [caption for caption in everywhere if "Run as it is by" in caption]


@dataclass
class Blocks(HTMLParser):
    """The code blocks of an article, each with what comes before and behind it."""

    items: list[list[str]] = field(default_factory=list)
    article: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        self.article = self.article or tag == "article"
        kinds = {"em": "ran", "span": "filename"}
        if not self.article or (tag in kinds and kinds[tag] not in classes):
            return
        if tag in {"pre", "p", "li", "tr", "h1", "h2", "h3", "h4", *kinds}:
            self.items.append([tag, ""])

    def handle_data(self, data: str) -> None:
        if self.article and self.items:
            self.items[-1][1] += data


def without_caption(text: str) -> list[str]:
    """Blocks of a page without a caption below them, or below the output that follows; not files.

    A page that is made from the code has one caption for each of its blocks.
    """
    blocks = Blocks()
    blocks.feed(text)
    if 'class="ran each"' in text:
        return []
    items = [item for item in blocks.items if item[0] != "p" or item[1].strip()]
    bare: list[str] = []
    for place, (tag, code) in enumerate(items):
        behind = [kind for kind, _ in items[place + 1 :] if kind != "pre"]
        of_a_file = place and items[place - 1][0] == "span"
        if tag == "pre" and not of_a_file and behind[:1] != ["em"]:
            bare.append(code.strip().partition("\n")[0])
    return bare


def test_each_block_of_the_site_has_a_caption(site: Path) -> None:
    """Records of measurements and decisions are of their day."""
    of_their_day = {site / "measurements", site / "decisions"}
    pages = [p for p in site.rglob("*.html") if not of_their_day & set(p.parents)]
    bare = {str(p.relative_to(site)): without_caption(p.read_text()) for p in pages}
    assert {page: blocks for page, blocks in bare.items() if blocks} == {}
    assert without_caption("<article><pre>ls</pre><p>Text</p></article>") == ["ls"]
    assert not without_caption('<article><pre>ls</pre><p><em class="ran">Run</em></p></article>')


def test_search_finds_a_page(reader: Any, site: Path) -> None:
    reader.click("input.md-search__input")
    reader.keyboard.type("budget.guard")
    reader.wait_for_selector("a.md-search-result__link", timeout=20_000)
    results = reader.locator("a.md-search-result__link").all()
    pages = [Path(urlsplit(result.evaluate("link => link.href")).path) for result in results]
    assert site / "reference/cluster-file.html" in pages


def test_dark_mode_stays_on_the_next_page(reader: Any) -> None:
    scheme = "body[data-md-color-scheme={}]"
    reader.wait_for_selector(scheme.format("default"))
    reader.click("label[for=__palette_1]:visible, label[for=__palette_0]:visible")
    reader.wait_for_selector(scheme.format("slate"))
    reader.click("article >> text=Getting started")
    reader.wait_for_selector(scheme.format("slate"))
    assert "getting-started" in reader.url


def test_each_path_of_the_home_page_is_there(reader: Any) -> None:
    rows = reader.locator("article table tbody tr")
    assert rows.count() >= 7
    for row in range(rows.count()):
        assert rows.nth(row).locator("a").count() >= 1


def test_pages_fit_a_phone(chromium: Any, site: Path) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    for name in ("index", "guide/what-corral-is", "guide/support"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


NEXT, LAST = "next", "0.1.0"


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions in one folder: these files, and the last commit; only the first has the FAQ."""
    out = tmp_path_factory.mktemp("versions").resolve()
    words = [".ci/site_versions.py", str(out), f"{NEXT}=.", f"{LAST}=HEAD"]
    done = subprocess.run([sys.executable, *words], cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = out / "versions.js"
    first, rest = listed.read_text().split(f'"{LAST}"')
    listed.write_text(f'{first}"{LAST}"{rest.replace("guide/faq.html", "guide/gone.html")}')
    return out


def test_versions_are_switched_in_a_folder(chromium: Any, versions: Path) -> None:
    """From the same page to the same page, from one that the other has not to its home."""
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.goto((versions / "index.html").as_uri())
    page.wait_for_url(f"**/{NEXT}/index.html")
    page.goto((versions / NEXT / "guide/jobs.html").as_uri())
    assert page.text_content(".md-version__current") == NEXT
    assert page.locator(".md-version__link").all_text_contents() == [NEXT, LAST]
    page.focus(".md-version__current")
    page.click(f".md-version__link >> text={LAST}")
    page.wait_for_url(f"**/{LAST}/guide/jobs.html")
    assert page.text_content(".md-version__current") == LAST
    page.goto((versions / NEXT / "guide/faq.html").as_uri())
    page.focus(".md-version__current")
    page.click(f".md-version__link >> text={LAST}")
    page.wait_for_url(f"**/{LAST}/index.html")
    page.close()
    assert problems == []


def test_one_version_has_no_switch(reader: Any) -> None:
    assert reader.locator(".md-version").count() == 0


GITHUB = """
body { margin: 0; width: 840px; }
body { font: 16px/1.5 "Liberation Sans"; }
p, ul, pre, table { margin: 0 0 16px; }
h1 { font-size: 32px; line-height: 1.25; margin: 0 0 16px; }
h1 { padding-bottom: 9.6px; border-bottom: 1px solid; }
ul { padding-left: 32px; }
li + li { margin-top: 4px; }
img { max-width: 100%; }
code { font: 13.6px "Liberation Mono"; padding: 2.7px 5.4px; }
pre { padding: 16px; overflow: auto; }
pre code { line-height: 1.45; padding: 0; }
table { border-spacing: 0; border-collapse: collapse; display: block; }
table { width: max-content; max-width: 100%; }
th, td { padding: 6px 13px; border: 1px solid; }
"""
"""What GitHub's style sheet for Markdown (github-markdown-css 5) sets that decides heights.

Of its list of fonts the one that a Linux system has: with DejaVu Sans, which is wider, the same
page is 11 % higher.
"""
SCREEN = 1_100
README_HEIGHT = 1_650
"""A screen and a half (CONTRIBUTING.md)."""


def readme_height(chromium: Any, text: str) -> int:
    """Pixels of a README as a repository's page shows it: its column is 840 px wide."""
    fonts = subprocess.run(["fc-list", "Liberation Sans"], capture_output=True, text=True).stdout
    assert fonts, "install fonts-liberation, as ./test docs does"
    extensions = ["tables", "fenced_code", "sane_lists"]
    body = markdown.markdown(text, extensions=extensions)
    page = chromium.new_page(viewport={"width": 840, "height": SCREEN})
    place = REPO / ".readme-as-rendered.html"
    try:
        place.write_text(f"<!doctype html><style>{GITHUB}</style><body>{body}</body>")
        page.goto(place.as_uri())
        assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        return int(page.evaluate("document.body.getBoundingClientRect().height"))
    finally:
        place.unlink()
        page.close()


def test_the_readme_fits_a_screen_and_a_half(chromium: Any) -> None:
    text = (REPO / "README.md").read_text()
    assert readme_height(chromium, text) <= README_HEIGHT
    pictures = re.findall(r"<img [^>]+>", text)
    assert len(pictures) == 2
    unbounded = re.sub(r' (?:width|height)="\d+"', "", text)
    assert readme_height(chromium, unbounded) > README_HEIGHT + 500, "pictures have a size"
