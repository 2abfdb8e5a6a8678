"""Tables of every layout are read as they are, and nothing else is read as one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.prove.fabric.model import Collective, Timing
from corral.prove.fabric.nccl_tests_text import read_text
from tests.unit.prove.fabric.printer import COLUMNS, GENERATIONS, Generation, measured, table

RECORDED = Path(__file__).parents[3] / "recorded/nccl"
DGX1 = (RECORDED / "dgx1-all-reduce.txt").read_text()
MEGA = (RECORDED / "a3-mega-all-gather.txt").read_text()


def refused(text: str) -> CorralError:
    with pytest.raises(CorralError) as caught:
        read_text(text)
    assert caught.value.code is Code.PARSE_FAILED
    return caught.value


def test_table_of_seed_002() -> None:
    (parsed,) = read_text(DGX1)
    assert parsed.collective is Collective.ALL_REDUCE
    assert (parsed.ranks, len(parsed.rows)) == (16, 10)
    assert [r.size for r in parsed.rows] == [1048576 << i for i in range(10)]
    assert {(r.type, r.redop, r.root) for r in parsed.rows} == {("float", "sum", -1)}
    last = parsed.rows[-1]
    assert last.count == 134217728
    assert last.out_of_place == Timing(18620, 28.83, 54.06, delta=5e-07)
    assert last.in_place == Timing(18732, 28.66, 53.74, delta=5e-07)
    assert (parsed.out_of_bounds, parsed.average, parsed.complete) == (0, 35.3542, True)
    assert parsed.checked
    assert parsed.wrong == 0


def test_table_of_seed_003() -> None:
    (parsed,) = read_text(MEGA)
    assert parsed.collective is Collective.ALL_GATHER
    assert not parsed.certain
    assert (parsed.ranks, len(parsed.rows)) == (16, 11)
    assert [r.size for r in parsed.rows] == [8388608 << i for i in range(11)]
    assert {(r.type, r.redop, r.root) for r in parsed.rows} == {("float", "none", -1)}
    last = parsed.rows[-1]
    assert last.size // last.count == 64
    assert last.out_of_place == Timing(42783, 200.78, 188.23)
    assert last.in_place == Timing(42777, 200.81, 188.26)
    large = [r.out_of_place.busbw for r in parsed.rows[-3:] if r.out_of_place]
    assert sum(large) / 3 == pytest.approx(186.92, abs=0.005)
    assert parsed.average == 126.358
    assert not parsed.checked


# 16 GiB over 1 GbE take 147 s, which the narrow columns print as 1.5e+08.
times = st.floats(min_value=5, max_value=3e8)
sizes = st.lists(st.integers(10, 34), min_size=1, max_size=6, unique=True).map(sorted)


@given(
    generation=st.sampled_from(GENERATIONS),
    collective=st.sampled_from(sorted(COLUMNS)),
    ranks=st.integers(2, 64),
    powers=sizes,
    data=st.data(),
)
def test_what_was_printed_is_read(
    generation: Generation,
    collective: Collective,
    ranks: int,
    powers: list[int],
    data: st.DataObject,
) -> None:
    rows = []
    for power in powers:
        size = 2**power // ranks * ranks
        # No fabric there is carries more than 5,000 GB/s.
        us = [max(data.draw(times), size / 5e6) for _ in range(2)]
        pair = [measured(generation, collective, ranks, size, t) for t in us]
        rows.append((size, *pair))
    text = table(generation, collective, rows, ranks=ranks)
    (parsed,) = read_text(text)
    assert parsed.collective is collective
    assert [r.size for r in parsed.rows] == [size for size, *_ in rows]
    for row, (_, first, second) in zip(parsed.rows, rows, strict=True):
        for seen, real in ((row.out_of_place, first), (row.in_place, second)):
            assert seen is not None
            lost = 0.051 if real.time_us > 9_999_999 and generation.narrow else 2e-3
            assert seen.time_us == pytest.approx(real.time_us, rel=lost, abs=0.06)
            assert seen.algbw == pytest.approx(real.algbw, rel=1e-2, abs=0.0051)
            assert seen.busbw == pytest.approx(real.busbw, rel=1e-2, abs=0.0051)
    if max(t.algbw for _, *pair in rows for t in pair) > 50 and ranks < 32:
        assert parsed.ranks in (ranks, 0)
        if collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER):
            assert parsed.ranks == ranks


@pytest.mark.parametrize("text", [DGX1, MEGA], ids=["002", "003"])
def test_any_digit_that_counts_changed_is_seen(text: str) -> None:
    """Each digit of each time and bandwidth, one at a time, replaced by each other digit."""
    lines = text.splitlines()
    tried = missed = 0
    for index, line in enumerate(lines):
        if not re.match(r"\s*\d+\s+\d+\s+float", line):
            continue
        start = re.search(r"(sum|-1)\s", line)
        assert start
        for spot in range(start.end(), len(line)):
            if not line[spot].isdigit() or "e-" in line[spot - 3 : spot + 3]:
                continue
            for digit in "0123456789":
                if digit == line[spot]:
                    continue
                changed = [
                    *lines[:index],
                    line[:spot] + digit + line[spot + 1 :],
                    *lines[index + 1 :],
                ]
                before, after = _cell(line, spot), _cell(changed[index], spot)
                if abs(before - after) < 0.003 * max(before, after) + 0.011:
                    continue  # as much as rounding leaves open
                tried += 1
                try:
                    read_text("\n".join(changed))
                    missed += 1
                except CorralError:
                    pass
    assert tried > 1000
    assert missed == 0


def _cell(line: str, spot: int) -> float:
    start = line.rfind(" ", 0, spot) + 1
    word = line[start:].split(maxsplit=1)[0]
    return float(word) if word != "N/A" else 0.0


def test_a_row_that_is_missing_is_seen() -> None:
    lines = DGX1.splitlines()
    for index, line in enumerate(lines):
        if "float" in line:
            error = refused("\n".join([*lines[:index], *lines[index + 1 :]]))
            assert "rows are missing" in error.message


@pytest.mark.parametrize("text", [DGX1, MEGA], ids=["002", "003"])
def test_cut_anywhere_within_a_row(text: str) -> None:
    rows = [m for m in re.finditer(r"^ *\d+ +\d+ +float.*$", text, re.MULTILINE)]
    for row in rows:
        for end in range(row.start() + 36, row.end() - 2):
            cut = text[:end]
            try:
                (parsed,) = read_text(cut)
            except CorralError:
                continue
            # Lost decimals of the last cell are the only fault that cannot be detected.
            assert not parsed.complete
            assert len(cut.splitlines()[-1].split()) == len(row.group().split())


CONSTANT = [
    *("0: ", " 3: ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "worker-0: ", "\x1b[32m", "   "),
    *("[prterun-node1-1234@1,0]<stdout>:", "[pod/launcher-abc/nccl] ", "nccl-1  | ", "> ", ">> "),
    *("slurm-12.out:", "node1: 0: ", "\ufeff", "\u00a0"),
]


@pytest.mark.parametrize("prefix", CONSTANT)
def test_a_prefix_before_each_line(prefix: str) -> None:
    text = "".join(prefix + line for line in DGX1.splitlines(keepends=True))
    (parsed,) = read_text(text)
    assert parsed.rows[0].out_of_place == Timing(192.4, 5.45, 10.22, delta=5e-07)
    assert (parsed.ranks, parsed.average) == (16, 35.3542)


@pytest.mark.parametrize(
    "prefix",
    [
        *("2026-03-01T10:20:{0:02}.{0:03}Z ", "2026-03-01T10:20:{0:02}.1234567Z "),
        *("2026-03-01 10:20:{0:02},123 ", "2026-03-01T10:20:{0:02}.123456+02:00 "),
        *("[2026-03-01 10:20:{0:02}] ", "[2026-03-01 10:20:{0:02} UTC] ", "10:20:{0:02} "),
        *("[10:20:{0:02}.123] ", "Mar  1 10:20:{0:02} node1 nccl[123]: ", "[  {0}.123456] "),
        *("Sun Mar  1 10:20:{0:02} 2026[1,0]<stdout>:", "slurm-12.out:{0}:"),
        *("[pod/launcher/nccl] 2026-03-01T10:20:{0:02}Z ", "2026/03/01 10:20:{0:02} 3: "),
    ],
)
def test_what_differs_from_line_to_line(prefix: str) -> None:
    """Each line has its own time: it must not keep a header from its rows."""
    lines = enumerate(DGX1.splitlines(keepends=True), 10)
    (parsed,) = read_text("".join(prefix.format(number) + line for number, line in lines))
    assert [r.size for r in parsed.rows] == [1048576 << i for i in range(10)]
    assert (parsed.ranks, parsed.average, parsed.complete) == (16, 35.3542, True)


def test_times_do_not_mix_ranks() -> None:
    mixed = [
        f"10:20:{i:02} {rank}: {line}"
        for i, line in enumerate(DGX1.splitlines(), 10)
        for rank in (0, 1)
    ]
    tables = read_text("\n".join(mixed))
    assert [(t.label, len(t.rows)) for t in tables] == [("0:", 10), ("1:", 10)]


def test_number_signs_that_a_page_took_for_headings() -> None:
    (parsed,) = read_text(re.sub("^#", "", DGX1, flags=re.MULTILINE))
    assert (parsed.ranks, len(parsed.rows), parsed.complete) == (16, 10, True)


def test_columns_of_rccl_tests() -> None:
    """AMD's fork adds algorithm, protocol and channels: three words at the end of each row."""
    lines = [
        f"{line}  algo  proto  nchannels"
        if "busbw" in line
        else f"{line}  RING  SIMPLE  32"
        if "float" in line
        else line
        for line in DGX1.splitlines()
    ]
    (parsed,) = read_text("\n".join(lines))
    assert parsed.rows[-1].in_place == Timing(18732, 28.66, 53.74, delta=5e-07)
    assert "words" in refused("\n".join(lines).replace("  RING  SIMPLE", "  RING", 1)).message


def test_lines_of_others_between_rows() -> None:
    noise = "node0:1234:1234 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    text = noise.join(["", *DGX1.splitlines(keepends=True)]) + "srun: job 3 has finished\n"
    (parsed,) = read_text(text)
    assert len(parsed.rows) == 10


def test_a_line_of_others_within_a_row_is_an_error() -> None:
    text = DGX1.replace("  5.42   10.16", "  5.42 node0:1:2 [0] NCCL INFO x\n   10.16")
    assert refused(text).message.startswith("line 4: this row has 15 words")


def test_two_tables_of_one_log() -> None:
    tables = read_text(DGX1 + "\n$ srun ...\n" + MEGA)
    assert [t.collective for t in tables] == [Collective.ALL_REDUCE, Collective.ALL_GATHER]
    assert [len(t.rows) for t in tables] == [10, 11]


def test_ranks_that_each_print_a_table_are_kept_apart() -> None:
    """nccl-tests built without MPI: each rank runs alone, and srun --label mixes their lines."""
    first = [f"0: {line}" for line in DGX1.splitlines()]
    second = [f"1: {line}" for line in DGX1.splitlines()]
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    tables = read_text("\n".join(mixed))
    assert [t.label for t in tables] == ["0:", "1:"]
    assert [len(t.rows) for t in tables] == [10, 10]


def test_wrong_results_and_failed_bounds() -> None:
    generation = GENERATIONS[2]
    timing = measured(generation, Collective.ALL_REDUCE, 8, 1 << 20, 100.0)
    bad = Timing(timing.time_us, timing.algbw, timing.busbw, wrong=1)
    text = table(generation, Collective.ALL_REDUCE, [(1 << 20, timing, bad)])
    (parsed,) = read_text(text.replace("values : 0 OK", "values : 3 FAILED"))
    assert parsed.wrong == 3
    assert parsed.rows[0].in_place == Timing(100.0, 10.49, 18.35, wrong=1)


def test_in_place_only() -> None:
    generation = GENERATIONS[2]
    timing = measured(generation, Collective.ALL_REDUCE, 8, 1 << 20, 100.0)
    (parsed,) = read_text(table(generation, Collective.ALL_REDUCE, [(1 << 20, None, timing)]))
    assert parsed.rows[0].out_of_place is None
    assert parsed.rows[0].in_place == Timing(100.0, 10.49, 18.35, wrong=0)


@pytest.mark.parametrize("element", ["half", "bfloat16", "int8", "uint64", "f8e4m3", "double"])
def test_other_types(element: str) -> None:
    (parsed,) = read_text(DGX1.replace(" float ", f" {element} "))
    assert {r.type for r in parsed.rows} == {element}


def test_a_decimal_comma() -> None:
    (parsed,) = read_text(
        re.sub(r"(\d)\.(\d)", r"\1,\2", DGX1.replace("35.3542", "X")).replace("X", "35.3542")
    )
    assert parsed.rows[0].out_of_place == Timing(192.4, 5.45, 10.22, delta=5e-07)


def test_a_comma_that_can_be_read_in_two_ways() -> None:
    assert "'1,535' is not a number" in refused(DGX1.replace("1535.5", "1,535")).message


def test_ranks_and_devices() -> None:
    head = (
        "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 536870912 step: 2(factor) warmup iters: 5\n"
        "# Using devices\n"
    )
    ranks = "".join(
        f"#  Rank {r:2d} Group  0 Pid  {4000 + r} on      dgx0{1 + r // 8} device  {r % 8} "
        f"[0000:{r:02x}:00] Tesla V100-SXM3-32GB\n"
        for r in range(16)
    )
    (parsed,) = read_text(head + ranks + DGX1)
    assert (parsed.ranks, parsed.nodes) == (16, 2)
    assert parsed.members[9].host == "dgx02"
    assert parsed.members[0].device == "Tesla V100-SXM3-32GB"
    few = "\n".join((head + ranks).splitlines()[:10]) + "\n"
    assert "over 8 ranks" in refused(few + DGX1).message


def test_a_list_of_ranks_that_was_pasted_in_part_counts_nobody() -> None:
    ranks = "".join(f"#  Rank {r} Group  0 Pid 1 on n device 0 [01:00] V100\n" for r in (0, 7, 15))
    (parsed,) = read_text(ranks + DGX1)
    assert (parsed.ranks, parsed.nodes, parsed.members) == (16, 0, ())


@pytest.mark.parametrize("average", ["35.3542GB/s", "35.3542 GB/s", "35.3542"])
def test_an_average_with_its_unit(average: str) -> None:
    (parsed,) = read_text(DGX1.replace("35.3542", average))
    assert (parsed.average, parsed.complete) == (35.3542, True)


def test_an_average_that_is_no_number() -> None:
    assert "average bus bandwidth" in refused(DGX1.replace("35.3542", "n/a")).message


def test_tags_of_a_launcher_within_rows() -> None:
    """Open MPI 4 tags each piece that a process writes; nccl-tests writes a row in several."""
    tag = "[1,0]<stdout>:"
    lines = [tag + re.sub(r"(sum)( +)", rf"\1{tag}\2", line, count=1) for line in DGX1.splitlines()]
    assert lines[4].count(tag) == 2
    (parsed,) = read_text("\n".join(lines))
    assert [r.size for r in parsed.rows] == [1048576 << i for i in range(10)]


@pytest.mark.parametrize("tag", ["[0]", "[prterun-host-4711@1,0]<stdout>: ", "[1,0][n1]<stdout>:"])
def test_tags_of_other_launchers_at_the_start_and_within_rows(tag: str) -> None:
    """MPICH's -prepend-rank puts ``[0]`` before each piece, without a blank (nccl issue 1453)."""
    lines = [tag + re.sub(r"(sum)( +)", rf"\1{tag}\2", line, count=1) for line in DGX1.splitlines()]
    assert lines[4].count(tag) == 2
    (parsed,) = read_text("\n".join(lines))
    assert [r.size for r in parsed.rows] == [1048576 << i for i in range(10)]
    assert parsed.complete


def test_the_version_of_rccl_tests() -> None:
    line = "# rccl-tests version 2.18.3-HEAD:418cd5f rccl-headers=23004 rccl-library=23004\n"
    assert read_text(line + DGX1)[0].version == "2.18.3-HEAD:418cd5f"


def test_a_header_that_lost_a_sign() -> None:
    text = (RECORDED / "h200x2/all-reduce.txt").read_text()
    assert read_text(text.replace("#wrong", "wrong"))[0].rows == read_text(text)[0].rows


def test_the_last_line_ends_a_run() -> None:
    text = (RECORDED / "h200x2/all-reduce.txt").read_text()
    lines = [x for x in text.splitlines() if "Out of bounds" not in x and "Avg bus" not in x]
    (parsed,) = read_text("\n".join(lines))
    assert parsed.complete
    (cut,) = read_text("\n".join(x for x in lines if "concluded" not in x))
    assert not cut.complete


@pytest.mark.parametrize("size", ["9" * 20, "9" * 300, "9" * 5000])
def test_a_size_that_is_no_size(size: str) -> None:
    refused(DGX1.replace("1048576 ", f"{size} ", 1))


def test_numbers_that_lost_their_digits() -> None:
    """More than 10 s and 1,000,000 GB/s do not fit the columns of 2.17.7 and later."""
    text = """
#       size         count      type   redop    root     time   algbw   busbw  #wrong
  8589934592    2147483648     float     sum      -1  7310000    1.18    1.18       0
 17179869184    4294967296     float     sum      -1  1.5e+07    1.17    1.17       0
"""
    (parsed,) = read_text(text)
    assert parsed.rows[-1].out_of_place == Timing(1.5e7, 1.17, 1.17, wrong=0)
    assert "and the row has" in refused(text.replace("1.5e+07", "1.6e+07")).message
    assert "and the row has" in refused(text.replace("7310000", "7410000")).message


def test_a_run_that_ended_before_its_last_size() -> None:
    head = "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 8589934592 step: 2(factor)\n"
    cut = DGX1[: DGX1.index("# Out of bounds")]
    assert "the table is cut" in refused(head + cut).message
    (parsed,) = read_text(cut)
    assert not parsed.complete
    assert any("closing lines are missing" in note for note in parsed.notes)
    reduced = head + "#\n# Reducing maxBytes to 536870912 due to memory limitation\n"
    assert len(read_text(reduced + cut)[0].rows) == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no table"),
        ("hello\nworld\n", "no table"),
        (
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 2(factor)\n#\n# Using devices\n",
            "hung",
        ),
        (DGX1.splitlines()[1], "without any row"),
        ("\n".join(DGX1.splitlines()[3:]), "before any header"),
        (DGX1.replace("busbw", "bandw"), "no known layout"),
        (DGX1.replace("  192.4", " -192.4"), "negative"),
        (DGX1.replace("  192.4", "   fast"), "'fast' is not a number"),
        ("#  bytes  N  type  op  time  algbw  busbw  res\n", "nccl-tests 1"),
    ],
)
def test_what_is_no_table_is_refused(text: str, message: str) -> None:
    assert message in refused(text).message


@given(st.text(alphabet=st.sampled_from("#0123456789 .-,:sizecountypefloatmbw\n\t"), max_size=400))
def test_any_text_is_read_or_refused(text: str) -> None:
    header = DGX1.splitlines()[1]
    try:
        read_text(f"{header}\n{text}")
    except CorralError as error:
        assert error.code is Code.PARSE_FAILED
