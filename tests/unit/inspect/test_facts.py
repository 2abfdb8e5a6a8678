from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.inspect.facts import (
    QUESTIONS,
    Facts,
    Gpu,
    Nic,
    facts_inquiry,
    facts_of,
    parse_facts,
)
from corral.inspect.question import shells
from tests.fakes import recorded

RECORDED = Path(__file__).parents[2] / "recorded" / "facts"
FILES = sorted(RECORDED.glob("*/*.txt"))
Answers = dict[str, str]
ALL = {f"{f.parent.name}/{f.stem}": recorded(f.read_text()) for f in FILES}
H200, NODE = ALL["ubuntu-24.04-h200/two-gpus"], ALL["debian-13-container/node"]
HOST = ALL["debian-12-host/plain"]


def section(answers: Answers, name: str, text: str) -> Answers:
    """Recorded answers with another one to this question."""
    assert name in answers
    return answers | {name: text}


def layout(facts: Facts) -> tuple[int, int, int, int]:
    return facts.cpus, facts.sockets, facts.cores_per_socket, facts.threads_per_core


def test_an_embedded_node() -> None:
    facts = parse_facts("node0", NODE)
    assert facts.node == "node0"
    assert (facts.os_id, facts.os_version) == ("debian", "13")
    assert (facts.cpus, facts.sockets, facts.cores_per_socket, facts.threads_per_core) == (
        2,
        1,
        2,
        1,
    )
    assert facts.memory_mib == 24105
    assert facts.cgroup == "hybrid"
    assert facts.systemd
    assert facts.nics == (Nic("eth0", (facts.address,), 10000, 1500),)
    assert facts.gpus == (Gpu("/dev/nvidia0", ""), Gpu("/dev/nvidia1", ""))
    assert (facts.slurm, facts.slurm_candidate) == ("24.11.5", "")
    assert {"auth_slurm", "auth_munge", "gpu_nvidia", "cgroup_v1", "cgroup_v2"} <= facts.plugins


def test_a_gpu_server_without_iproute2_and_systemd() -> None:
    facts = parse_facts("gpu0", H200)
    assert (facts.os_id, facts.os_version) == ("ubuntu", "24.04")
    assert layout(facts) == (32, 1, 32, 1)
    assert facts.memory_mib == 263998500 // 1024
    assert facts.cgroup == "v2"
    assert not facts.systemd
    assert facts.address == "192.0.2.2"
    assert facts.nics == (Nic("eth0", ("192.0.2.2",), 0, 1400),)
    assert facts.gpus == (
        Gpu("/dev/nvidia0", "NVIDIA H200", 143771),
        Gpu("/dev/nvidia1", "NVIDIA H200", 143771),
    )
    assert facts.slurm == facts.slurm_candidate == ""
    assert facts.plugins == frozenset()


def test_a_host_without_slurm() -> None:
    facts = parse_facts("node0", HOST)
    assert (facts.slurm, facts.slurm_candidate) == ("", "22.05.8")
    assert facts.memory_mib == 24105


def test_few_tools_report_the_same_as_many() -> None:
    """Without ip, lscpu and apt, and with busybox's, the kernel's tables give the same answer."""
    full = parse_facts("n", HOST).as_dict()
    for name in ("few-tools", "busybox"):
        bare = parse_facts("n", ALL[f"debian-12-host/{name}"]).as_dict()
        assert bare | {"slurm_candidate": "22.05.8"} == full


@pytest.mark.parametrize("name", ALL)
def test_json_round_trip(name: str) -> None:
    facts = parse_facts("n", ALL[name])
    text = json.dumps(facts.as_dict())
    assert Facts.from_dict(json.loads(text)) == facts
    assert json.dumps(parse_facts("n", ALL[name]).as_dict()) == text
    assert hash(facts) == hash(Facts.from_dict(facts.as_dict()))


@pytest.mark.parametrize(
    ("slurmd", "expected"),
    [
        ("NodeName=a CPUs=256 Boards=1 SocketsPerBoard=2 CoresPerSocket=64 ThreadsPerCore=2 "
         "RealMemory=2063000\nUpTime=1-02:03:04", (256, 2, 64, 2, 2063000)),
        ("NodeName=a CPUs=8 Boards=2 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=1 "
         "RealMemory=100 Gres=gpu:2", (8, 4, 2, 1, 100)),
    ],
)  # fmt: skip
def test_slurmds_own_view_counts(slurmd: str, expected: tuple[int, ...]) -> None:
    facts = parse_facts("n", section(HOST, "slurmd", f"{slurmd}\n"))
    assert (*layout(facts), facts.memory_mib) == expected


@pytest.mark.parametrize(
    ("lscpu", "expected"),
    [
        ("# CPU,Core,Socket\n0,0,0\n1,1,0\n2,0,0\n3,1,0\n", (4, 1, 2, 2)),
        ("0,0,0\n1,1,0\n2,2,1\n3,3,1\n", (4, 2, 2, 1)),
        ("0,0,\n1,1,\n", (2, 1, 2, 1)),  # ARM in a virtual machine: no sockets reported
        ("0,0,0\n1,0,0\n2,1,0\n", (3, 1, 3, 1)),  # cores with and without a second thread
        ("", (2, 1, 2, 1)),  # no lscpu, no topology: /proc/cpuinfo's count
    ],
)
def test_cpu_layout_of_the_kernel(lscpu: str, expected: tuple[int, ...]) -> None:
    facts = parse_facts("n", section(HOST, "lscpu", lscpu))
    counts = layout(facts)
    assert counts == expected
    assert counts[0] == counts[1] * counts[2] * counts[3]


V1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
UNIFIED = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
OTHER = "cgroup2 /run/other cgroup2 rw 0 0\n"


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [(V1, "v1"), (V2, "v2"), (V1 + UNIFIED, "hybrid"), ("", "none"), (V1 + OTHER, "v1")],
)
def test_cgroup_modes(mounts: str, expected: str) -> None:
    assert parse_facts("n", section(HOST, "mounts", mounts)).cgroup == expected


@pytest.mark.parametrize(
    ("pid1", "expected"),
    [("systemd\nbooted\n", True), ("init\nbooted\n", True), ("systemd\n", False),
     ("bash\nbooted\n", False), ("", False)],
)  # fmt: skip
def test_systemd(pid1: str, expected: bool) -> None:
    assert parse_facts("n", section(HOST, "pid1", pid1)).systemd is expected


TWO = (
    "2: eth0    inet 192.0.2.2/24 brd 192.0.2.255 scope global eth0\\  valid_lft forever\n"
    "3: ib0    inet 10.0.0.7/16 scope global ib0\n"
)


@pytest.mark.parametrize(
    ("connection", "default", "expected"),
    [
        ("", "default via 192.0.2.1 dev eth0 \n", "192.0.2.2"),
        ("", "default via 10.0.0.1 dev ib0 src 10.0.0.7\n", "10.0.0.7"),
        ("10.0.0.9 4711 10.0.0.7 22\n", "default via 192.0.2.1 dev eth0 \n", "10.0.0.7"),
        ("10.0.0.9 4711 203.0.113.5 22\n", "default dev eth0\n", "192.0.2.2"),  # behind NAT
        ("", "", "192.0.2.2"),
    ],
)
def test_address(connection: str, default: str, expected: str) -> None:
    text = section(HOST, "addresses", TWO)
    text = section(text, "nics", "eth0 device 1000 1500\nib0 device 200000 2044\n")
    text = section(text, "connection", connection)
    text = section(text, "default", default)
    facts = parse_facts("n", text)
    assert facts.address == expected
    assert facts.nics[1] == Nic("ib0", ("10.0.0.7",), 200000, 2044)


def test_interfaces_that_are_nobodys_are_left_out() -> None:
    nics = "lo virtual 0 65536\nveth1 virtual 10000 1500\neth1 device -1 1500\n"
    facts = parse_facts("n", section(section(HOST, "addresses", ""), "nics", nics))
    assert facts.nics == (Nic("eth1", (), 0, 1500),)
    assert facts.address == ""


def test_gpus_by_their_minor_number_and_not_by_their_order() -> None:
    swapped = H200 | {
        "minors": H200["minors"].replace("Device Minor: \t 0", "Device Minor: \t 9"),
        "smi": H200["smi"].replace("NVIDIA H200, 143771", "A, 1", 1),
        "devices": H200["devices"].replace("/dev/nvidia0\n", "/dev/nvidia9\n"),
    }
    assert parse_facts("n", swapped).gpus == (
        Gpu("/dev/nvidia1", "NVIDIA H200", 143771),
        Gpu("/dev/nvidia9", "A", 1),
    )


@pytest.mark.parametrize(
    "smi", ["", "Failed to initialize NVML: Driver/library version mismatch\n"]
)
def test_gpus_without_an_nvidia_smi_that_works(smi: str) -> None:
    gpus = parse_facts("n", section(H200, "smi", smi)).gpus
    assert gpus == (Gpu("/dev/nvidia0", ""), Gpu("/dev/nvidia1", ""))


@pytest.mark.parametrize(
    ("version", "candidate", "expected"),
    [
        ("slurm 26.05.4\n", "", ("26.05.4", "")),
        ("slurm-wlm 24.11.5\n", "  Candidate: 24.11.5-4\n", ("24.11.5", "24.11.5")),
        ("", "  Candidate: (none)\n  Candidate: 25.11.8-1\n", ("", "25.11.8")),
        ("", "  Candidate: 9.11.1-1\n  Candidate: 24.5.0-1\n", ("", "24.5.0")),
        ("slurmd: error: no such thing\n", "  Candidate: 1:24.11.5-4\n", ("", "24.11.5")),
    ],
)
def test_versions(version: str, candidate: str, expected: tuple[str, str]) -> None:
    text = section(section(HOST, "version", version), "candidate", candidate)
    facts = parse_facts("n", text)
    assert (facts.slurm, facts.slurm_candidate) == expected


@pytest.mark.parametrize("name", ["memory", "os", "nics", "kernel", "mounts"])
def test_a_missing_section_is_nonsense(name: str) -> None:
    with pytest.raises(CorralError) as caught:
        parse_facts("node7", {n: t for n, t in NODE.items() if n not in (name, "slurmd")})
    error = caught.value
    assert (error.code, error.node) == (Code.PARSE_FAILED, "node7")
    assert error.hint
    assert error.tail


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("slurmd", "CPUs=0 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=9\n"),
        ("slurmd", "NodeName=a CPUs=2\n"),
        ("memory", "MemTotal: many kB\n"),
        ("nics", "eth0 fast\n"),
        ("addresses", "2: eth0 inet 999.1.1.1/24 scope\n"),
        ("os", "NAME=x\n"),
        ("os", "ID='x\n"),
    ],
)  # fmt: skip
def test_wrong_sections_are_nonsense(name: str, body: str) -> None:
    text = section(HOST, name, body)
    with pytest.raises(CorralError) as caught:
        parse_facts("n", text)
    assert caught.value.code is Code.PARSE_FAILED


def test_an_answer_cut_off_is_nonsense() -> None:
    asked = facts_inquiry()
    printed = subprocess.run(["/bin/sh", "-c", asked.script], capture_output=True, text=True).stdout
    assert facts_of("n", asked, printed).cpus > 0
    for cut in range(0, len(printed) - len(asked.word), 97):
        with pytest.raises(CorralError, match="incomplete response"):
            facts_of("n", asked, printed[:cut])


LINES = sorted({line for f in FILES for line in f.read_text().splitlines()})
MIXED = st.dictionaries(
    st.sampled_from(sorted(NODE)),
    st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=40)), max_size=9).map("\n".join),
)


@given(MIXED)
def test_any_answers_give_facts_or_an_error_of_ours(changes: Answers) -> None:
    try:
        facts = parse_facts("n", NODE | changes)
    except CorralError as error:
        assert error.code is Code.PARSE_FAILED
    else:
        assert Facts.from_dict(json.loads(json.dumps(facts.as_dict()))) == facts


@given(st.data())
def test_a_recorded_answer_with_lines_changed(data: st.DataObject) -> None:
    answers = data.draw(st.sampled_from([NODE, H200, HOST]))
    name = data.draw(st.sampled_from([n for n, text in answers.items() if text]))
    lines = answers[name].splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(lines) - 1))
        old = lines[place]
        lines[place] = data.draw(
            st.one_of(
                st.sampled_from(LINES),
                st.text(max_size=30),
                st.just(old[: len(old) // 2]),
                st.just(old.replace("0", "99999")),
                st.just(old + old),
            )
        )
    try:
        facts = parse_facts("n", answers | {name: "\n".join(lines)})
    except CorralError as error:
        assert error.code is Code.PARSE_FAILED
    else:
        assert min(facts.cpus, facts.sockets, facts.memory_mib) >= 1
        assert facts.cgroup in {"v1", "hybrid", "v2", "none"}


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner)),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*parse_facts("n", NODE).as_dict(), "other"]), JSON))
def test_any_dict_gives_facts_or_an_error_of_ours(changes: dict[str, object]) -> None:
    try:
        Facts.from_dict(parse_facts("n", NODE).as_dict() | changes)
        Facts.from_dict(changes)
    except CorralError as error:
        assert error.code is Code.PARSE_FAILED


def test_the_script_only_reads() -> None:
    for word in (" rm ", " mv ", " mkdir", " >/", "> /", "install", "systemctl", "python", "sudo"):
        assert all(
            word not in script.replace(">/dev/null", "") for script in shells(QUESTIONS).values()
        )
