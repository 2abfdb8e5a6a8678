"""``#SBATCH`` lines become fields of a job, go to sbatch, are reported, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.errors import Code, CorralError
from corral.jobs.directives import asked_of
from corral.jobs.limits import gpus_left_out
from corral.jobs.model import JobSpec
from corral.slurm.directives import directives, sbatch_options
from corral.spec.load import load_or_raise

LAPTOP = load_or_raise(Path(__file__).parents[3] / "examples" / "laptop.yaml")


def asked(*lines: str, **given: Any) -> dict[str, Any]:
    text = "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "true", ""])
    return asked_of(text, "job.sh", given).fields


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        (["-N2 --ntasks-per-node=4 -c 3"], {"nodes": 2, "ranks_per_node": 4, "cpus_per_rank": 3}),
        (["--ntasks=8", "--nodes=2"], {"nodes": 2, "ranks_per_node": 4}),
        (["--nodes=2-2 -n4 --ntasks-per-node=2"], {"nodes": 2, "ranks_per_node": 2}),
        (["--gres=gpu:2"], {"gpus_per_node": 2}),
        (["--gres=gpu"], {"gpus_per_node": 1}),
        (["--gres=gpu:a100:4"], {"gpus_per_node": 4, "gpu_type": "a100"}),
        (["--gpus-per-node=h100:8"], {"gpus_per_node": 8, "gpu_type": "h100"}),
        (["--gpus=8", "-N 2"], {"nodes": 2, "gpus_per_node": 4}),
        (["-n4 -N2 --gpus-per-task=1"], {"nodes": 2, "ranks_per_node": 2, "gpus_per_node": 2}),
        (["--gres=shard:1"], {"gpus_per_node": 0, "sbatch": ("--gres=shard:1",)}),
        (["--mem=16G"], {"mem": "16G"}),
        (["--mem=16000"], {"mem": "16000M"}),
        (["--mem=1500K"], {"mem": "2M"}),
        (["--mem-per-gpu=10G --gres=gpu:2"], {"gpus_per_node": 2, "mem": "20G"}),
        (["--mem-per-cpu=2G -c4 --ntasks-per-node=2"],
         {"cpus_per_rank": 4, "ranks_per_node": 2, "mem": "16G"}),
        (["-t 30"], {"time": "00:30:00"}),
        (["-t 90:30"], {"time": "01:30:30"}),
        (["--time=1-12"], {"time": "1-12:00:00"}),
        (["-J train -p gpu -D /shared/x"],
         {"name": "train", "partition": "gpu", "workdir": "/shared/x"}),
        (["--array=0-9%2"], {"array": "0-9", "at_once": 2}),
        (["--requeue"], {"requeue": True}),
        (["--requeue", "--no-requeue"], {}),
        (["--no-requeue", "--requeue"], {"requeue": True}),
        (["--export=ALL,LR=0.1"], {"env": {"LR": "0.1"}}),
        (["-A lab --qos=high --exclusive"], {"account": "lab", "qos": "high", "exclusive": True}),
        (["--exclusive=user --hold"], {"sbatch": ("--exclusive=user", "--hold")}),
        (["-w node[0-1] -x node7"], {"nodelist": "node[0-1]", "exclude": "node7"}),
        (["--nodelist=./hosts"], {"sbatch": ("--nodelist=./hosts",)}),
        (["-C a100&nvlink", "-L matlab:2,ansys@db"],
         {"constraint": "a100&nvlink", "licenses": "matlab:2,ansys@db"}),
        (["-L matlab|ansys"], {"sbatch": ("--licenses=matlab|ansys",)}),
        (["-d afterok:12:13_4,afterany:14"], {"after": ("12:ok", "13_4:ok", "14:any")}),
        (["-d singleton"], {"sbatch": ("--dependency=singleton",)}),
        (["-d afterok:12?afterany:13"], {"sbatch": ("--dependency=afterok:12?afterany:13",)}),
        (["-d afterok:12,afternotok:13"], {"sbatch": ("--dependency=afterok:12,afternotok:13",)}),
        (["-b now+2hours"], {"begin": "now+2hours"}),
        (["-b 010227"], {"sbatch": ("--begin=010227",)}),
        (["--mail-user=ada@x.org --mail-type=END,TIME_LIMIT_80"],
         {"mail": "ada@x.org:END,TIME_LIMIT_80"}),
        (["--mail-type=END"], {"sbatch": ("--mail-type=END",)}),
        (["--mail-type=NONE --mail-user=ada"],
         {"sbatch": ("--mail-type=NONE", "--mail-user=ada")}),
        (["--nodes=2", "--nodes=4"], {"nodes": 4}),
    ],
)  # fmt: skip
def test_fields(lines: list[str], fields: dict[str, Any]) -> None:
    assert asked(*lines) == fields
    api.job_spec({"script": "a.sh", **fields})


@pytest.mark.parametrize(
    ("line", "notes"),
    [("--export=ALL", "ALL"), ("--export=NONE", "NONE"), ("--export=ALL,LR=1", "ALL"),
     ("--export=NONE,LR=1", "NONE"), ("--export=LR=1", "")],
)  # fmt: skip
def test_the_submitters_environment_is_reported_to_stay(line: str, notes: str) -> None:
    reported = asked_of(f"#!/bin/sh\n#SBATCH {line}\n", "a.sh", {}).notes
    start = [f"a.sh:2: --export={notes} is not used"] if notes else []
    assert [note.rpartition(": ")[0] for note in reported] == start


def test_an_exclusive_job_gets_all_memory_and_that_is_reported() -> None:
    text = "#!/bin/sh\n#SBATCH --exclusive\n"
    (note,) = asked_of(text, "a.sh", {}).notes
    assert note.startswith("a.sh:2: --exclusive: the job gets all memory")
    assert asked_of(text, "a.sh", {"mem": "1G"}).notes == ()


def test_options_given_win() -> None:
    assert asked("-N2 --gpus=8 -t 10", nodes=4) == {"gpus_per_node": 2, "time": "00:10:00"}
    assert asked("--gpus-per-node=2", gpus_per_node=2) == {}


def test_an_option_given_by_name_or_raw_wins_over_its_line() -> None:
    lines = ("-A lab -q high", "--mail-user=ada --mail-type=END", "--reservation=a", "--hold")
    assert asked(*lines, account="mine", mail="bob", qos="low", sbatch=("--reservation=b",)) == {
        "sbatch": ("--hold", "--reservation=b")
    }
    assert asked(*lines, sbatch=("--account=mine",)) == {
        "qos": "high",
        "mail": "ada:END",
        "sbatch": ("--reservation=a", "--hold", "--account=mine"),
    }


def test_raw_options_do_not_drop_those_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n#SBATCH --hold\n#SBATCH --account=lab\ntrue\n")
    given = {"script": str(script), "sbatch": ("--reservation=b",)}
    fields, _ = api.script_fields(given)
    assert (fields["account"], fields["sbatch"]) == ("lab", ("--hold", "--reservation=b"))


def test_all_that_cannot_be_had_at_once_with_its_lines() -> None:
    with pytest.raises(CorralError) as caught:
        asked(
            "--nodes=2-4",
            "--gres=gpu:a100:1,gpu:h100:1",
            "-t 10",
            "--nodez",
            "hetjob",
            "--mem=0",
            '--comment="it\'s"',
            "--chdirr",
            "--time-min=5 --input=x",
        )
    error = caught.value
    assert error.code is Code.SPEC_INVALID
    lines = [line.split(":")[1] for line in error.tail.splitlines()]
    assert sorted(lines) == ["10", "2", "3", "5", "6", "7", "8", "9"]
    assert "job.sh:2: --nodes=2-4: " in error.tail


def test_what_is_done_otherwise_is_reported() -> None:
    text = "#!/bin/sh\n#SBATCH -o x.log -e y.log\n#SBATCH --parsable\ntrue\n"
    assert [note.split(" is not")[0] for note in asked_of(text, "a.sh", {}).notes] == [
        "a.sh:2: --output",
        "a.sh:2: --error",
        "a.sh:3: --parsable",
    ]


@pytest.mark.parametrize("name", sorted(sbatch_options()))
def test_no_option_of_sbatch_is_dropped(name: str) -> None:
    """Each is a field, is carried, is reported or is refused."""
    value = "1" if sbatch_options()[name].value == "required" else "ALL" if name == "export" else ""
    line = f"--{name}={value}" if value else f"--{name}"
    text = f"#!/bin/sh\n#SBATCH -N1 -n1 -c1 --gpus-per-node=1\n#SBATCH {line}\ntrue\n"
    try:
        request = asked_of(text, "a.sh", {})
    except CorralError as error:
        assert f"--{name}" in error.tail
        return
    before = asked_of(text.replace(f"#SBATCH {line}\n", ""), "a.sh", {}).fields
    same = {"nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "gpus",
            "no-requeue", "tasks-per-node"}  # fmt: skip
    assert request.notes or request.fields != before or name in same


def test_gpus_of_a_task_are_reported_to_be_seen_by_all_ranks_of_the_node() -> None:
    (note,) = asked_of("#!/bin/sh\n#SBATCH -n2 --gpus-per-task=1\n", "a.sh", {}).notes
    assert note.startswith("a.sh:2: --gpus-per-task: each rank sees all GPUs")


def test_carried_options_stand_in_the_batch_script_and_are_read_back() -> None:
    options = ("--comment=a b # c & $x", "--account=lab", "--exclusive")
    job = api.job_spec({"script": "/shared/a.sh", "in_place": True, "sbatch": options})
    script = api.job_script(LAPTOP, job)
    read = {option.name: option.value for option in directives(script)}
    assert (read["comment"], read["account"]) == ("a b # c & $x", "lab")
    assert "exclusive" in read


def test_a_part_of_a_shared_gpu_is_asked_for_as_the_guide_has_it() -> None:
    """``corral run small.py -G 0 --sbatch --gres=shard:1``; it wins over the script's own line."""
    given = {"script": "/shared/a.sh", "in_place": True, "gpus_per_node": 0}
    job = api.job_spec({**given, "sbatch": ("--gres=shard:1",)})
    read = [(o.name, o.value) for o in directives(api.job_script(LAPTOP, job))]
    assert [value for name, value in read if name == "gres"] == ["shard:1"]
    assert asked("--gres=gpu:2", sbatch=("--gres=shard:1",)) == {}
    with pytest.raises(CorralError, match="GPUs or a part of one"):
        api.job_spec({**given, "gpus_per_node": 1, "sbatch": ("--gres=shard:1",)})
    for other in ("--gres=gpu:1", "--gres=shard:0", "--gres=shard:1,gpu:1", "--gres=nic:1"):
        with pytest.raises(CorralError):
            api.job_spec({**given, "sbatch": (other,)})


def test_a_job_of_a_shared_gpu_gets_no_entire_one() -> None:
    """Where it leaves the number of GPUs out, a sweep has one each."""
    fields = {"script": "a.py", "sweep": {"lr": ["1", "2"]}}
    assert gpus_left_out(api.job_spec(fields), LAPTOP).gpus_per_node == 1
    shared = api.job_spec({**fields, "sbatch": ("--gres=shard:1",)})
    assert gpus_left_out(shared, LAPTOP).gpus_per_node == 0


@pytest.mark.parametrize(
    "option",
    ["--output=x", "--wrap=x", "account=lab", "--comment=it's", "--comment=a\nb", "--uid=0", "-A"],
)
def test_other_options_cannot_be_carried(option: str) -> None:
    with pytest.raises(CorralError):
        api.job_spec({"script": "a.sh", "sbatch": (option,)})


def test_a_script_of_this_machine_is_read_and_no_other(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --export=A=1,B=2\ntrue\n")
    fields, notes = api.script_fields({"script": str(script), "env": {"B": "3"}})
    assert (fields["nodes"], fields["env"], notes) == (2, {"A": "1", "B": "3"}, ())
    fields, notes = api.script_fields({"script": "/shared/none.sh"})
    assert (fields, len(notes)) == ({"script": "/shared/none.sh"}, 1)
    assert "sbatch" in JobSpec.model_fields
