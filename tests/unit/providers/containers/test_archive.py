"""The host's apt sources in both forms, and the archive that follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.providers.containers import archive
from corral.providers.containers.archive import Source

DEB822 = """\
# the base system
Types: deb deb-src
# http://old.example/debian
URIs: http://archive.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://archive.example/debian-security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
Enabled: no
URIs: http://off.example/
Suites: bookworm
Components: main

Types: deb-src
URIs: http://src.example/
Suites: bookworm
Components: main
"""
ONE_LINE = """\
# deb http://old.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://archive.example/debian bookworm main contrib # why not
deb-src http://archive.example/debian bookworm main
deb [trusted=yes] http://archive.example/security bookworm-security main

deb http://flat.example/ ./
deb https://other.example/apt nodistro main
"""
POCKETS = {"": ("main",), "security": ("main",), "updates": ("main",)}


def test_deb822() -> None:
    sources = archive.parse_deb822(DEB822)
    assert [(s.uri, s.suite) for s in sources] == [
        ("http://archive.example/debian", "bookworm"),
        ("http://archive.example/debian", "bookworm-updates"),
        ("http://archive.example/debian-security", "bookworm-security"),
    ]
    assert sources[0].components == ("main", "contrib")
    assert sources[0].signed_by == "/usr/share/keyrings/archive.gpg"
    assert sources[2].signed_by.splitlines()[:3] == [
        "-----BEGIN PGP PUBLIC KEY BLOCK-----",
        "",
        "mQINBF",
    ]


@pytest.mark.parametrize("word", ["no", "No", "false", "off", "without", "disable", "0"])
def test_a_source_that_is_off_is_left_out(word: str) -> None:
    assert archive.parse_deb822(DEB822.replace("Enabled: no", f"Enabled: {word}")) == (
        archive.parse_deb822(DEB822)
    )


def test_one_line() -> None:
    assert archive.parse_one_line(ONE_LINE) == (
        Source("http://archive.example/debian", "bookworm", ("main", "contrib"), "/k.gpg"),
        Source("http://archive.example/security", "bookworm-security", ("main",), trusted=True),
        Source("https://other.example/apt", "nodistro", ("main",)),
    )


def test_wanted_release_takes_the_place_of_the_hosts() -> None:
    sources = archive.for_suite(archive.parse_deb822(DEB822), "bookworm", "trixie", POCKETS)
    assert [(s.uri, s.suite, s.components) for s in sources] == [
        ("http://archive.example/debian", "trixie", ("main",)),
        ("http://archive.example/debian-security", "trixie-security", ("main",)),
        ("http://archive.example/debian", "trixie-updates", ("main",)),
    ]
    assert sources[0].line() == "deb http://archive.example/debian trixie main"


def test_trusted_stays_trusted() -> None:
    sources = archive.for_suite(archive.parse_one_line(ONE_LINE), "bookworm", "trixie", POCKETS)
    assert (
        sources[1].line()
        == "deb [trusted=yes] http://archive.example/security trixie-security main"
    )


@pytest.mark.parametrize("codename", ["", "book", "sid", "trixie"])
def test_host_without_its_own_release_gets_a_hint(codename: str) -> None:
    with pytest.raises(CorralError) as caught:
        archive.for_suite(archive.parse_deb822(DEB822), codename, "trixie", POCKETS)
    assert caught.value.code is Code.IMAGE_FAILED
    assert "image:" in caught.value.hint


def test_sources_a_node_cannot_use_are_left_out() -> None:
    disc = (Source("cdrom:[Debian]/", "bookworm", ("main",)),)
    with pytest.raises(CorralError):
        archive.for_suite(disc, "bookworm", "trixie", POCKETS)


def test_files_of_a_host_and_its_mirror_list(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    mirrors = tmp_path / "mirrors.list"
    mirrors.write_text("# first\nhttp://archive.example/debian/\tpriority:1\nhttp://b.example/\n")
    (tmp_path / "sources.list").write_text(f"deb mirror+file:{mirrors} bookworm main\n")
    (tmp_path / "sources.list.d" / "x.sources").write_text(DEB822)
    (tmp_path / "sources.list.d" / "x.sources.save").write_text("deb http://no.example/ a main")
    sources = archive.host_sources(tmp_path)
    assert sources[0].uri == "http://archive.example/debian/"
    assert len(sources) == 4
    assert archive.host_sources(tmp_path / "nowhere") == ()


def test_proxies() -> None:
    dump = (
        'Acquire "";\nAcquire::http "";\nAcquire::http::Proxy "http://proxy.example:3142";\n'
        'Acquire::https::Proxy "DIRECT";\nAcquire::http::Proxy::archive.example "DIRECT";\n'
    )
    assert archive.parse_proxies(dump) == {"http_proxy": "http://proxy.example:3142"}
    assert archive.parse_proxies("") == {}


@given(st.text(max_size=300))
def test_parsers_take_any_text(text: str) -> None:
    for source in (*archive.parse_one_line(text), *archive.parse_deb822(text)):
        assert source.uri
        assert not source.suite.endswith("/")
    archive.parse_proxies(text)


@given(
    st.lists(st.sampled_from(["main", "universe"]), min_size=1, max_size=2, unique=True),
    st.sampled_from(["noble", "noble-updates"]),
    st.sampled_from(["http://archive.example/u", "https://archive.example/u"]),
)
def test_both_forms_mean_the_same(components: list[str], suite: str, uri: str) -> None:
    line = f"deb {uri} {suite} {' '.join(components)}"
    stanza = f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: {' '.join(components)}\n"
    assert archive.parse_one_line(line) == archive.parse_deb822(stanza)
