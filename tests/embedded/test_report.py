"""Reports of a real cluster: self-contained pages, and a history in which a fault shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.embedded.conftest import Live

from corral.hosts.quote import sh


def corral(cluster: Live, *words: str, status: int = 0) -> str:
    argv = [sys.executable, "-m", "corral", *words, "-c", cluster.spec.name]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240)
    assert done.returncode == status, done.stderr
    return done.stdout


def test_a_proof_as_a_page_and_what_changed_since(cluster: Live, tmp_path: Path) -> None:
    good, bad, change = (tmp_path / f"{name}.html" for name in ("good", "bad", "change"))
    drain = sh("scontrol update nodename=node1 state=drain reason={r}", r="<b>loose</b> cable")
    corral(cluster, "prove", "--only", "smoke.nodes", "--html", str(good))
    try:
        assert cluster.run(cluster.controller, drain).ok
        corral(cluster, "prove", "--only", "smoke.nodes", "--html", str(bad), status=1)
    finally:
        cluster.run(cluster.controller, sh("scontrol update nodename=node1 state=resume"))
    words = ["prove", "--compare", "previous", "last", "--html", str(change)]
    output = corral(cluster, *words, status=1)
    assert re.search(r"worse +smoke.nodes", output)
    assert "1 worse" in output
    history = corral(cluster, "prove", "--history")
    assert "NOT proven" in history
    pages = [path.read_text() for path in (good, bad, change)]
    for page in pages:
        # One file that loads nothing; its policy runs no script but its own.
        assert not re.findall(r"<link|<img|<script[^>]*src|url\(", page)
        assert "default-src &#39;none&#39;" in page
        assert "<b>loose" not in page
    assert "NOT proven" not in pages[0]
    assert "&lt;b&gt;loose&lt;/b&gt; cable" in pages[1]
    assert all("Since 20" in page for page in pages[1:])


@pytest.mark.slow
def test_a_measurement_as_a_page(cluster: Live, tmp_path: Path) -> None:
    page = tmp_path / "bench.html"
    words = ("--collectives", "all_reduce", "--largest", "4M", "--reference", "0.000001")
    corral(cluster, "bench", "run", *words, "--html", str(page))
    text = page.read_text()
    assert text.count('<div class="plot"') >= 1
    assert "reference 1e-06 GB/s" in text
    # The reference is one that all pass; pairs of containers on a busy machine may stand out.
    assert re.search("as fast as it should be|slower than it should be", text)
    assert 'class="heat' in text  # each pair of the three nodes


def test_a_page_that_cannot_be_written_is_an_error_of_the_user(cluster: Live) -> None:
    argv = ("prove", "--only", "smoke.clocks", "--html", "/proc/no/such.html")
    corral(cluster, *argv, status=2)


@pytest.mark.parametrize("words", [("--history", "--only", "smoke"), ("--history", "--html", "x")])
def test_what_does_not_go_together(cluster: Live, words: tuple[str, ...]) -> None:
    corral(cluster, "prove", *words, status=2)
