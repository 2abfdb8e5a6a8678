"""Nothing is lost: every byte comes back, and corrections touch only lines of findings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.slurm.adopt.review import bytes_of, corrected, judge, source_of
from corral.slurm.adopt.source import NAMED, Edit, applied, physical
from corral.slurm.adopt.view import Existing
from corral.slurm.version import SlurmVersion
from tests.unit.slurm.adopt.files import GOOD, SEED, existing

NAMES = [*(kind.value for kind in NAMED), "setup.sh"]
PIECES = st.sampled_from(
    ["ClusterName=a", "NodeName=n[0-2]", "NodeName=DEFAULT", " CPUs=4", " Sockets=2",
     " Gres=gpu:2",
     "PartitionName=p Nodes=n[0-3]", "ControlMachine=x", "ControlAddr=y", "Procs=2",
     "TaskPlugin=none", "FastSchedule=2", "CacheGroups=0", "#", " # note", "\\", "\\\n",
     "\\  \n", "\n", "\n\n", "\r\n", "\t",
     " ", '"', '"a b"', "=", "Include x.conf", "include slurm.conf", "\\#", "\ufeff", "é",
     "\x0b", "\u2028", "\0", "Name=gpu", " File=/dev/nvidia[0-1]", " Count=9", "AutoDetect=nvml",
     "127.0.1.1 n0", "10.0.0.1 n1 n2", "::1", "/srv *(rw,no_root_squash)", "/srv a (rw)",
     "/srv 10.0.0.5/8(rw)", "/srv", "a:/b /b nfs defaults 0 0", "sudo mount -a", "Include /x",
     "Match user x", "PasswordAuthentication no", "mkdir -p /var/spool/slurm/d", "cat <<EOF", "EOF",
     "apt install slurm", "echo \u201cx\u201d", "'", "export A=\\$A", "// x", "ConstrainDevices=no",
     "SwitchName=s Nodes=n9", "required x", "StoragePass=x", "DbdHost=h", "n[0-", "[9-1]",
     "n[1-99999]"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=120), st.lists(PIECES, max_size=30).map("".join))


@given(st.binary(max_size=300), st.sampled_from(NAMES))
def test_every_byte_comes_back(data: bytes, name: str) -> None:
    assert bytes_of(source_of(name, data)) == data


@given(TEXTS)
def test_lines_are_cut_and_joined_without_loss(text: str) -> None:
    pieces = list(physical(text))
    assert "".join(line for _, line in pieces) == text
    assert all(text.startswith(line, at) for at, line in pieces)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), TEXTS, max_size=4), st.sampled_from(["", "24.11"]))
def test_any_text_is_judged_and_corrected(files: dict[str, str], version: str) -> None:
    release = SlurmVersion.parse(version) if version else None
    sources = tuple(source_of(n, t.encode("utf-8", "surrogatepass")) for n, t in files.items())
    view = Existing(sources, release)
    judgements = judge(view)
    for judgement in judgements:
        finding = judgement.finding()
        assert finding.message and finding.file in files
        spot = judgement.problem.spot
        assert -1 <= spot.start <= len(spot.source.text)
        untouched_lines_stay(view, judgement.problem.edits)
    untouched_lines_stay(
        view, tuple(edit for judgement in judgements for edit in judgement.problem.edits)
    )
    after = corrected(view)
    left = [judgement for judgement in judge(after) if judgement.fixable]
    assert corrected(after).sources == after.sources or left


def untouched_lines_stay(view: Existing, edits: tuple[Edit, ...]) -> None:
    """Lines no edit touches are in the result byte for byte, in order."""
    for source in view.sources:
        own = [edit for edit in edits if edit.file == source.name]
        after = applied(source.text, own)
        at = 0
        for start, line in physical(source.text):
            stop = start + len(line)
            if any(e.start < stop and (e.stop > start or e.start == e.stop >= start) for e in own):
                continue
            if any(e.start == e.stop == stop for e in own) and not line.endswith("\n"):
                continue
            where = after.find(line, at)
            assert where >= 0, (line, own)
            at = where + len(line)


def test_files_without_a_finding_are_not_touched() -> None:
    view = existing(GOOD, "24.11")
    assert corrected(view).sources == view.sources


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_correction_keeps_everything_around(ending: str) -> None:
    text = ending.join(
        [
            "# the lab's own",
            "clusterNAME = lab   # kept",
            "ControlMachine=node0\t# who",
            "NodeName=n0 \\",
            "  procs=4 \\  # this too",
            "  RealMemory=9",
            "",
            "PartitionName=P Nodes=n0 Default=yes   ",
            "Prolog=/x  # last, no line end",
        ]
    )
    (after,) = corrected(existing({"slurm.conf": text})).sources
    lines = after.text.split(ending)
    for line in text.split(ending):
        if "ControlMachine" not in line and "procs" not in line:
            assert line in lines
    assert "SlurmctldHost=node0\t# who" in lines
    assert "  CPUs=4 \\  # this too" in lines


def test_the_first_of_two_edits_wins() -> None:
    edits = [Edit("f", 1, 3, "X"), Edit("f", 2, 4, "Y"), Edit("f", 5, 5, "p"), Edit("f", 5, 5, "q")]
    assert applied("abcdefg", edits) == "aXdepqfg"


def test_what_is_no_utf8_stays(tmp_path: object) -> None:
    data = b"ClusterName=lab # caf\xe9\r\nControlMachine=a\xff\n"
    (after,) = corrected(
        Existing((source_of("slurm.conf", data),), None, {}, complete=False)
    ).sources
    assert b"# caf\xe9\r\n" in bytes_of(after) and b"SlurmctldHost=a\xff" in bytes_of(after)


def test_the_seed_comes_back() -> None:
    for file in SEED.iterdir():
        if file.is_file():
            assert bytes_of(source_of(file.name, file.read_bytes())) == file.read_bytes()
