"""Golden lint cases: the defects of the seed documents that can be seen in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.api.config.adoption import adopt, lint_existing, machine_from_file
from corral.slurm.adopt.review import corrected, judge
from corral.spec.load import load_text
from tests.unit.slurm.adopt.files import SEED, existing, machines, rule_ids

# Part 2 of the failure catalogue: case, rule, file, line, column.
CASES = [
    ("S004-1", "cluster-name-missing", "slurm.conf", 1, 1),
    ("S004-2", "own-name-loopback", "hosts", 9, 15),
    ("S004-3", "cpus-wrong", "slurm.conf", 13, 20),
    ("S004-4", "real-memory-missing", "slurm.conf", 13, 1),
    ("S004-5", "gres-types-missing", "slurm.conf", 13, 1),
    ("S004-5", "gres-not-on-node", "slurm.conf", 13, 1),
    ("S004-6", "task-plugin", "slurm.conf", 12, 1),
    ("S004-6", "devices-open", "slurm.conf", 12, 1),
    ("S004-7", "setup-folders", "setup.sh", 27, 26),
    ("S004-8", "setup-munge-key", "setup.sh", 35, 1),
    ("S004-9", "setup-driver", "setup.sh", 8, 18),
    ("S004-9", "setup-driver", "setup.sh", 19, 18),
    ("S004-10", "controller-spelling", "slurm.conf", 1, 1),
    ("S004-11", "slurm-user-root", "slurm.conf", 1, 1),
    ("S004-12", "setup-uid", "setup.sh", 25, 18),
    ("S004-12", "setup-uid", "setup.sh", 26, 17),
    ("S004-14", "setup-services", "setup.sh", 31, 1),
    ("S004-14", "setup-one-copy", "setup.sh", 38, 1),
    ("S004-15", "setup-two-sources", "setup.sh", 16, 1),
    ("S004-16", "sshd-overridden", "sshd_config", 3, 1),
    ("S004-17", "key-without-passphrase", "slurm.conf", 13, 1),
    ("S004-18", "slow-link", "slurm.conf", 13, 1),
    ("S004-19", "ports", "slurm.conf", 1, 1),
    ("S004-20", "auth-slurm-possible", "slurm.conf", 2, 1),
]
# Next to them: old spelling of CPUs, addresses, and what every such file lacks.
MORE = {
    *("procs-old-name", "node-addr-missing", "accounting", "memlock", "return-to-service"),
    "memory-default-missing",
}
LEVELS = {"S004-10": "warning", "S004-11": "warning", "S004-12": "warning", "S004-15": "warning",
          "S004-16": "warning", "S004-17": "info", "S004-18": "warning", "S004-19": "info",
          "S004-20": "info"}  # fmt: skip


def seed() -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted(SEED.iterdir()) if file.is_file()}


@pytest.mark.parametrize(("case", "rule", "file", "line", "column"), CASES)
def test_seed_004(case: str, rule: str, file: str, line: int, column: int) -> None:
    findings = [judgement.finding() for judgement in judge(existing(seed(), "23.11", machines()))]
    matching = [
        f for f in findings if (f.rule, f.file, f.line, f.column) == (rule, file, line, column)
    ]
    assert len(matching) == 1, [str(f) for f in findings if f.rule == rule]
    assert matching[0].level.value == LEVELS.get(case, "error")
    assert matching[0].hint


def test_seed_004_has_no_error_that_is_not_listed() -> None:
    judged = judge(existing(seed(), "23.11", machines()))
    assert {judgement.rule.id for judgement in judged} == {rule for _, rule, *_ in CASES} | MORE
    errors = {judgement.rule.id for judgement in judged if judgement.level.value == "error"}
    assert errors == {rule for case, rule, *_ in CASES if LEVELS.get(case, "error") == "error"}


def test_without_facts_the_file_alone_is_judged() -> None:
    ids = rule_ids(existing(seed(), "23.11"))
    assert "cpus-wrong" not in ids and "real-memory-missing" in ids


def test_what_is_left_of_seed_004_is_for_people() -> None:
    view = corrected(existing(seed(), "23.11", machines()))
    assert rule_ids(view) == {
        *("setup-driver", "setup-two-sources", "setup-uid", "setup-services", "setup-munge-key"),
        *("setup-one-copy", "accounting", "auth-slurm-possible", "sshd-overridden"),
        *("slow-link", "key-without-passphrase", "memory-default-missing"),
    }


def test_corrected_seed_004(golden: Callable[[str, str], None]) -> None:
    facts = {
        n: machine_from_file(n, SEED / "facts" / f"{n}.json") for n in ("node0", "node1", "node2")
    }
    opinion = lint_existing([SEED], version="23.11", machines=facts)
    text = "".join(correction.diff() for correction in opinion.corrections)
    golden("adopt/004.diff", text.replace(f"{SEED}/", ""))


def test_seed_004_becomes_a_cluster_file(golden: Callable[[str, str], None]) -> None:
    text, findings = adopt([SEED])
    assert not findings
    assert load_text(text, "lab.yaml").spec is not None
    golden("adopt/004.yaml", text.replace(f"{SEED}/", ""))


@pytest.mark.parametrize(
    ("case", "name", "text", "rule", "place"),
    [
        ("S000-2", "exports", "/home 100.101.102.103/10(rw,sync,no_subtree_check,no_root_squash)\n",
         "exports-root", (1, 7)),
        ("S000-2", "exports", "/home 100.101.102.103/10(rw,sync,no_subtree_check,no_root_squash)\n",
         "exports-wide", (1, 7)),
        ("S000-2", "exports", "/h <TAILSCALE_IP0>/10(rw,no_root_squash)\n", "exports-wide", (1, 4)),
        ("S000-3", "exports", "/h 100.64.0.1/10(rw)\n/h 100.64.0.2/10(rw)\n",
         "exports-wide", (2, 4)),
        ("S000-7", "fstab", "100.64.0.1:/h /h nfs defaults,_netdev,nofail 0 0\nsudo mount -a\n",
         "fstab-entry", (2, 1)),
        ("S000-8", "fstab", "100.64.0.1:/h /h nfs defaults 0 0\n", "fstab-nfs", (1, 22)),
        ("S002-3", "a.sh", "ansible all -a \u201cuptime; hostname\u201d\n", "setup-quotes",
         (1, 16)),
        ("S002-4", "a.sh", 'ansible-playbook playbooks/nfs.yml"\n', "setup-quotes", (1, 1)),
        ("S003-5", "a.sh", "export LD_LIBRARY_PATH=/usr/lib:\\$LD_LIBRARY_PATH;\n",
         "job-environment", (1, 33)),
        ("S003-6", "a.sh", "export NCCL_DEBUG=INFO\nsrun --container-image=a python b\n",
         "job-environment", (2, 1)),
        ("S003-7", "a.sh", "// a comment\n", "job-environment", (1, 1)),
    ],
)  # fmt: skip
def test_other_seeds(case: str, name: str, text: str, rule: str, place: tuple[int, int]) -> None:
    findings = [judgement.finding() for judgement in judge(existing({name: text}))]
    assert place in [(f.line, f.column) for f in findings if f.rule == rule], (case, findings)


def test_facts_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(json.dumps({"cpus": 1}))
    with pytest.raises(Exception, match="not the facts of a machine"):
        machine_from_file("n", tmp_path / "f.json")
