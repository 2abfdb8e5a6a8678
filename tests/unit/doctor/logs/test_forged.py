"""Job users write into logs: no cause may rest on what they write.

Lines as Slurm 24.11.5 and Linux print them, with the places that users fill. On a real cluster
slurmctld prints partitions, features, reservations, licences, nodes and users of refused requests
as they came, line ends in them too (tests/embedded/test_doctor_forged.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from re._parser import parse  # pyright: ignore
from typing import Any

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.cluster_diagnosis import diagnose
from corral.doctor.logs.diagnosis import read
from corral.doctor.model import LIVE, Pattern, Source
from tests.unit.doctor.logs.test_field import FIELD
from tests.unit.doctor.logs.test_messages import CASES
from tests.unit.doctor.scenes import scene

STAMP = "[2026-11-23T03:45:16.756] "
CTLD = (
    "_slurm_rpc_update_node for {user}: Invalid user id",
    "_slurm_rpc_update_partition partition={user}: Invalid user id",
    "_job_create: account '{user}' has no association for user 2000 using default account 'corral'",
    "_get_job_parts: invalid partition specified: {user}",
    "Job specs invalid constraint: {user}",
    "Reservation name not found ({user})",
    "Job's requested licenses are invalid: {user}",
    "error: _slurm_rpc_auth_token: attempt to retrieve a token for another user={user} by UID=2",
)
SLURMD = (
    "[8.batch] error: Could not open stdout file {user}: No such file or directory",
    "[8.0] error: execve(): {user}: No such file or directory",
    "error: _rpc_file_bcast: uid:2000 can't open `{user}': Permission denied",
)
KERNEL = (
    "{name}[4242]: segfault at 0 ip 00007f0e2c1133c1 sp 00007ffd7a5b1a90 error 4 in {user}[7f0e+1]",
    "traps: {name}[4242] general protection fault ip:7f0e sp:7ffd error:0 in {user}[7f0e+1000]",
    "Memory cgroup out of memory: Killed process 42 ({name}) total-vm:4kB, anon-rss:4kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:2000 pgtables:4kB oom_score_adj:0",
    "Out of memory: Killed process 42 ({name}) total-vm:4kB, anon-rss:4kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:2000 pgtables:4kB oom_score_adj:0",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task={name},pid=42,uid=2000",
    "INFO: task {name}:4242 blocked for more than 120 seconds.",
)
NAME = 15
"""Characters of a process's name."""
OWN_NAMES = (
    *("slurmd", "slurmctld", "mariadbd", "slurmd) UID:0 ", "NVRM: Xid (PCI:", "NVRM: x"),
    *("LNetError: x", "mount.ceph: x", "rados.error", "NFS4ERR_EXPIRED"),
)
TEXTS = tuple(
    dict.fromkeys(
        [
            *(example for failure in catalog().values() for example in failure.examples),
            *(text for _, _, text in CASES),
            *(text for _, _, text, _ in FIELD),
        ]
    )
)


BATCH = 12
BATCHES = [TEXTS[at : at + BATCH] for at in range(0, len(TEXTS), BATCH)]
EACH = pytest.mark.parametrize(
    "batches",
    [
        *([batch] for batch in BATCHES),
        pytest.param([(text,) for text in TEXTS], marks=pytest.mark.slow),
    ],
    ids=[*map(str, range(len(BATCHES))), "each alone"],
)
"""Several texts at once, which takes a sixth of the time; the slow test takes each alone."""


def forged(template: str, text: str) -> str:
    """The line with a user's text in it, and again with a line end before each line of the text."""
    lines = [f"x\n{STAMP}{line}" for line in text.split("\n")]
    once = template.format(user=text.replace("\n", " "), name=text[:NAME])
    return f"{once}\n{template.format(user=''.join(lines), name=text[:NAME])}"


def ids(changes: dict[str, dict[str, str]]) -> list[str]:
    return [f.failure.id for f in diagnose(scene(changes)).findings]


def logs(unit: str, templates: tuple[str, ...], texts: Sequence[str]) -> dict[str, str]:
    """A daemon's journal and file, full of what a user wrote."""
    lines = "\n".join(STAMP + forged(part, text) for text in texts for part in templates)
    return {f"log{unit}": lines, f"file{unit}": lines}


@EACH
def test_no_text_of_a_user_changes_what_the_doctor_finds(batches: list[Sequence[str]]) -> None:
    """On a healthy cluster, and where slurmctld was killed or failed on its own after it served."""
    for texts in batches:
        ctld, slurmd = logs("slurmctld", CTLD, texts), logs("slurmd", SLURMD, texts)
        assert ids({"node0": ctld, "node1": slurmd}) == [], texts
        killed = {"units": "slurmd active\nslurmctld failed", "ping": "is DOWN", "nodes": ""}
        before = ids({"node0": killed})
        assert before == ["F73"]
        assert ids({"node0": {**killed, **ctld}, "node1": slurmd}) == before, texts
        served = (
            f"slurmctld: Running as primary controller\n{ctld['logslurmctld']}\nslurmctld: last"
        )
        assert ids({"node0": {**killed, "trustedslurmctld": served}}) == before, texts
        served = f"slurmd: slurmd started on Mon\n{slurmd['logslurmd']}\nslurmd: last"
        failed = {"units": "slurmd failed", "trustedslurmd": served}
        assert ids({"node1": failed}) == ids({"node1": {"units": "slurmd failed"}}), texts


@EACH
def test_no_text_of_a_user_in_a_line_is_a_daemons_message(batches: list[Sequence[str]]) -> None:
    """Each place in each line, for each source that is read on a cluster, without line ends."""
    plain = [STAMP + template.format(user="x") for template in (*CTLD, *SLURMD)]
    for texts in batches:
        flats = [text.replace("\n", " ") for text in texts]
        lines = [STAMP + part.format(user=flat) for flat in flats for part in (*CTLD, *SLURMD)]
        for source in LIVE:
            assert set(findings_of(lines, source)) <= set(findings_of(plain, source)), (
                source,
                texts,
            )


@EACH
def test_no_name_of_a_process_or_library_is_the_kernels_message(
    batches: list[Sequence[str]],
) -> None:
    for texts in batches:
        flats = [text.replace("\n", " ") for text in texts]
        lines = [
            template.format(user=user, name=name)
            for flat in flats
            for template in KERNEL
            for name in (flat[:NAME], *(own[:NAME] for own in OWN_NAMES))
            for user in (flat, flat[NAME:])
        ]
        assert findings_of(lines, Source.KERNEL) == [], texts


# Further lines that begin with a process's name (Linux 6.8: mm, fs/drop_caches.c, kernel/exit.c).
NAMED = (
    "{name}[42]: segfault at 0 ip 00007f0e sp 00007ffd error 4 in x[7f0e+1]",
    "traps: {name}[42] trap invalid opcode ip:7f0e sp:7ffd error:0 in x[7f0e+1000]",
    "{name}[42] bad frame in rt_sigreturn frame:7ffd ip:7f0e sp:7ffd orax:f in x[7f0e+1]",
    "{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "{name}: page allocation failure: order:5, mode:0x40cc0(GFP_KERNEL|__GFP_COMP)",
    "{name} (42): drop_caches: 3",
    "{name} (42) used greatest stack depth: 12345 bytes left",
    "{name}/42: potentially unexpected fatal signal 11.",
    "warning: `{name}' uses wireless extensions which will stop working for Wi-Fi 7 hardware",
)
KERNELS = [
    (failure.id, pattern)
    for failure in catalog().values()
    for pattern in failure.patterns
    if failure.shown_by(Source.KERNEL) and pattern.live and pattern.expression.unbroken
]


def shortest(parsed: Iterable[tuple[object, Any]], repeat: int = 0) -> str:
    """A text that a parsed expression matches, with as few repetitions as it allows."""
    made = ""
    for kind, value in parsed:
        match str(kind):
            case "LITERAL":
                made += chr(value)
            case "IN":
                made += next(iter(shortest([part]) for part in value if str(part[0]) != "NEGATE"))
            case "RANGE":
                made += chr(value[0])
            case "CATEGORY":
                made += {"CATEGORY_DIGIT": "7", "CATEGORY_SPACE": " "}.get(str(value), "x")
            case "BRANCH":
                made += shortest(value[1][0])
            case "SUBPATTERN":
                made += shortest(value[3])
            case "MAX_REPEAT":
                made += shortest(value[2]) * max(value[0], repeat)
            case "ANY":
                made += "x"
            case _:
                pass
    return made


@pytest.mark.parametrize("repeat", [0, 1])
def test_no_process_can_have_the_name_of_a_kernels_message(repeat: int) -> None:
    """F77 was shown by a process called "gpu is lost" that crashed, F197 by "I/O error, dev "."""
    kinds = [shortest(parse(part.expression.parts[0].pattern), repeat) for _, part in KERNELS]
    names = {kind[at : at + NAME] for kind in kinds for at in (0, kind.find(": ") + 2)}
    lines = [line.format(name=name) for line in (*KERNEL[2:], *NAMED) for name in sorted(names)]
    lines = [line.replace("{user}", "x") for line in lines]
    assert len(names) > 100
    assert findings_of(lines, Source.KERNEL) == []


@pytest.mark.parametrize(
    ("failure", "pattern"), KERNELS, ids=lambda part: getattr(part, "text", part)
)
def test_each_message_of_the_kernel_is_longer_than_a_name(failure: str, pattern: Pattern) -> None:
    """Otherwise it is never found on a cluster; then it is ``live: false``."""
    longest = parse(pattern.expression.parts[0].pattern).getwidth()[1]
    assert int(longest) > NAME, failure


def findings_of(lines: list[str], source: Source) -> list[str]:
    return [part.failure.id for part in read("\n".join(lines), source, "node1")]


def test_a_user_who_asks_slurmctld_to_stop_makes_no_identity_fault() -> None:
    """`scontrol shutdown` of a user, as slurmctld 24.11.5 logs it, then slurmctld dies."""
    line = "error: Security violation, SHUTDOWN RPC from uid=2000"
    sections = {"logslurmctld": line, "fileslurmctld": STAMP + line, "trustedslurmctld": line}
    dead = {"units": "slurmd active\nslurmctld failed", "ping": "is DOWN", "nodes": "", **sections}
    assert ids({"node0": dead}) == ["F73"]
    assert [f.failure.id for f in read(line)] == ["F1021"], "a log that somebody gives shows it"


def test_the_examples_are_messages_of_the_catalogue() -> None:
    """Otherwise their silence above would mean nothing."""
    known = [text for text in TEXTS if read(text)]
    assert len(known) > 0.95 * len(TEXTS) > 200
