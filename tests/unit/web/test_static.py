"""The front end: small, calls no other host, parses no text as markup, accessible."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import random
import re
from pathlib import Path
from typing import Any

import pytest

from corral.slurm.records import Node
from corral.slurm.states.nodes import NodeState
from corral.web import app as app_module
from tests.unit.web.fake import FakeRest, Page

STATIC = Path(app_module.__file__).parent / "static"

# Of npm's packages, as they are: files of dist, and LICENSE. package.json names the same versions,
# for their types and to be compared in ./test lint; preact.d.mts is ours and names those types.
VENDORED = {
    # preact 11.2.0
    "preact.mjs": "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
    "preact.LICENSE": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    "preact.d.mts": "16a26faec4b81c8b6d9e0729353c4308984ab094fbdb1feb0b0d24ac22ece5d1",
    # uplot 1.6.32
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def contrast(text: str, ground: str) -> float:
    """WCAG 2.2, relative luminance and contrast ratio."""

    def light(colour: str) -> float:
        short = colour.lstrip("#")
        full = "".join(c * 2 for c in short) if len(short) == 3 else short
        parts = [int(full[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        red, green, blue = (
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((light(text), light(ground)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [":root", ':root[data-theme="dark"]'])
def test_colours_can_be_read(theme: str) -> None:
    css = (STATIC / "app.css").read_text()
    block = css.split(f"{theme} {{", 1)[1].split("}", 1)[0]
    colours = dict(re.findall(r"--([\w-]+): (#\w{3,6})", block))
    kinds = ("good", "busy", "mix", "warn", "bad", "off")
    pairs = [(kind, f"{kind}-bg") for kind in kinds]
    pairs += [
        (text, ground)
        for text in ("text", "dim", "accent", "warn", "bad", "good")
        for ground in ("bg", "card")
    ]
    pairs += [("accent-text", "accent"), ("text", "code"), ("text", "hover"), ("dim", "code")]
    ratios = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert not {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5}
    for kind in kinds:  # the heat map's squares and the cards' edges
        assert contrast(colours[kind], colours["card"]) >= 3
    for ground in ("bg", "card", "code"):  # of what can be typed into (WCAG 2.2, 1.4.11)
        assert contrast(colours["edge"], colours[ground]) >= 3, ground


def test_front_end_is_small_and_calls_nobody() -> None:
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    loaded = [path for path in files if not path.name.endswith((".d.ts", ".d.mts"))]
    # What all views together are: racks and the list of nodes come when they are chosen.
    assert sum(path.stat().st_size for path in loaded) < 621_000
    for path in files:
        if path.parent.name == "vendor":
            continue
        text = path.read_text()
        addresses = re.findall(r"https?://[^\s\"'`)]+", text)
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, path
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (path, word)
        assert not re.search(r"<script(?![^>]*src=)|style=\"|onclick=\"", text), path


def many_nodes(count: int) -> list[Node]:
    """Nodes of which each figure is another one: as much as there can be to transfer."""
    draw = random.Random(8)
    return [
        Node(
            name=f"gpu{n:05}",
            state=NodeState.parse(draw.choice(["IDLE", "MIXED", "ALLOCATED"])),
            cpus=192,
            cpus_used=draw.randrange(193),
            load=draw.randrange(19200) / 100,
            memory=2_000_000,
            memory_used=draw.randrange(2_000_000),
            memory_free=draw.randrange(2_000_000),
            gres="gpu:h200:8(S:0-1)",
            gres_used=f"gpu:h200:{draw.randrange(9)}",
            partitions=("main", "long"),
            active_features=("island-a", "ib"),
            address=f"10.0.{n // 250}.{n % 250}",
            version="24.11.5",
            boot_at=1_790_000_000 + draw.randrange(1_000_000),
        )
        for n in range(count)
    ]


def test_the_first_view_of_10000_nodes_weighs_under_300_kb() -> None:
    """All that a browser fetches for it, as it is transferred."""
    page = (STATIC / "index.html").read_text()
    needs = ["", *dict.fromkeys(re.findall(r'(?:href|src)="([\w./]+)"', page))]
    assert len(needs) > 8
    weights = dict[str, int]()

    async def fetched() -> None:
        async with Page(FakeRest()) as opened:
            await opened.login()
            state = opened.app.state.corral
            poller = state.pollers.of("kim")
            await poller.fresh()
            poller.now = poller.now.with_nodes(many_nodes(10_000))
            asked = ("me", "cluster", "nodes?layout=columns", "figures", "login")
            for path in (*needs, *(f"api/{what}" for what in asked)):
                headers = {"x-csrf-token": opened.csrf, "accept-encoding": "gzip"}
                reply = await opened.http.get(f"/{path}", headers=headers)
                weights[path] = reply.raise_for_status().num_bytes_downloaded

    asyncio.run(fetched())
    assert weights["api/nodes?layout=columns"] > 100_000, weights
    assert sum(weights.values()) < 300_000, weights


# Upwards: a folder's modules import from those before it, and app.js from all.
FOLDERS = ["lib", "logs", "jobs", "nodes", "cluster", "operations"]
STATIC_IMPORT = re.compile(r'^(?:import|\} from|export) [^;]*?"(\.[^"]+)";$', re.M)
ANY_IMPORT = re.compile(r'(?:from |import\()"(\.[^"]+)"')


def test_folders_of_the_page_import_each_other_one_way() -> None:
    """Types too: lib knows no view."""
    modules = STATIC / "js"
    assert {path.name for path in modules.iterdir() if path.is_dir()} == set(FOLDERS)
    for path in modules.glob("*/*.js"):
        for name in ANY_IMPORT.findall(path.read_text()):
            folder = (path.parent / name).resolve().parent.name
            if folder not in {"js", "vendor"}:
                assert FOLDERS.index(folder) <= FOLDERS.index(path.parent.name), (path.name, name)


def test_the_first_view_is_fetched_at_once() -> None:
    """Each module that it imports is in index.html: else a browser finds them one by one."""
    needed = {STATIC / "js/app.js"}
    fresh = set(needed)
    while fresh:
        names = {
            (path.parent / name).resolve()
            for path in fresh
            for name in STATIC_IMPORT.findall(path.read_text())
            if path.suffix == ".js"
        }
        fresh = names - needed
        needed |= fresh
    page = (STATIC / "index.html").read_text()
    preloads = set(re.findall(r'rel="modulepreload" href="([^"]+)"', page))
    assert preloads == {str(path.relative_to(STATIC)) for path in needed}


def test_what_is_vendored_is_what_its_makers_published() -> None:
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (STATIC / "vendor").iterdir()
    }
    assert digests == VENDORED


def test_files_are_compressed_once_and_answered_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packs: list[int] = []
    compress = gzip.compress

    def counted(data: bytes, *rest: Any, **options: Any) -> bytes:
        packs.append(len(data))
        return compress(data, *rest, **options)

    async def work() -> None:
        async with Page(FakeRest()) as opened:
            get = opened.http.get
            plain = (STATIC / "js/app.js").read_bytes()
            packed = {"accept-encoding": "gzip"}
            for _ in range(2):
                reply = await get("/js/app.js", headers=packed)
                assert (reply.headers["content-encoding"], reply.content) == ("gzip", plain)
                assert reply.num_bytes_downloaded < len(plain) / 3
                assert "javascript" in reply.headers["content-type"]
                assert "Accept-Encoding" in reply.headers["vary"]
            known = {**packed, "if-none-match": reply.headers["etag"]}
            assert (await get("/js/app.js", headers=known)).status_code == 304
            reply = await get("/js/app.js", headers={"accept-encoding": "identity"})
            assert ("content-encoding" in reply.headers, reply.content) == (False, plain)
            part = await get("/js/app.js", headers={**packed, "range": "bytes=0-9"})
            assert (part.status_code, part.content) == (206, plain[:10])
            head = await opened.http.head("/js/app.js", headers=packed)
            assert (head.status_code, head.content) == (200, b"")
            assert (await get("/js/none.js", headers=packed)).status_code == 404
            assert packs == [len(plain)]

    monkeypatch.setattr(gzip, "compress", counted)
    asyncio.run(work())


def test_the_head_of_a_card_is_made_in_one_place() -> None:
    """``card`` of lib/view.js; by hand each was a little different."""
    head = re.compile(
        r'el\(\s*"(?:div|section)",\s*\{[^{}]*class: "card"[^{}]*\},\s*'
        r'(?:el\("h2", null, (?!\[)|el\(\s*"div",\s*\{ class: "row between" \},\s*el\("h2")'
    )
    by_hand = {
        path.name: len(head.findall(path.read_text()))
        for path in (STATIC / "js").rglob("*.js")
        if path.name != "view.js"
    }
    left = {name: count for name, count in by_hand.items() if count}
    assert left == {}, left
