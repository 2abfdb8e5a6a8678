"""Messages about jobs: slurmctld calls MailProg, a real mail server and a webhook get them.

The controller has the page and Prometheus too: what its people may do there, and a node's health.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.page_client import Page, use, values
from tests.embedded.running_cluster import summaries
from tests.embedded.test_health import FAULTS, RUN

from corral import api
from corral.hosts.quote import Script, sh
from corral.roles.services.page import END_SOCKET
from corral.spec.models import ClusterSpec

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "programs" / "mail_and_hook.py"
MAIL, HOOK = 2525, 2580
BOX = "/run/corral-test-box"
HUSH = f"http://127.0.0.1:{HOOK}/services/T0/B0/hush"
JOURNAL = sh("journalctl -q -u corral-notify -o cat -n 30 --no-pager")
HOSTILE = "x <!channel> @here\nBcc: all@example.org"


@pytest.fixture(scope="module")
def live(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Live]:
    secret = tmp_path_factory.mktemp("notify") / "hook"
    secret.write_text(f"{HUSH}\n")
    spec = named(f"notify-{os.getpid()}")
    fields = spec.model_dump(mode="json", exclude_defaults=True)
    fields["services"] = {
        "ui": True,  # Corral's environment is on the controller: messages have the doctor's cause
        "metrics": True,
        "notify": {
            **{"relay": "127.0.0.1", "port": MAIL, "tls": "off", "domain": "example.org"},
            **{"sender": "lab@example.org", "domains": ["example.org"]},
            "webhooks": [
                {"name": "lab-chat", "url": f"http://127.0.0.1:{HOOK}/plain"},
                {"name": "hush", "url_file": str(secret)},
            ],
        },
    }
    made = fresh_cluster(ClusterSpec.model_validate(fields))
    get = sh(
        "export DEBIAN_FRONTEND=noninteractive; get() {{ apt-get install -qy "
        "--no-install-recommends python3-aiosmtpd; }}; get || {{ apt-get update -q && get; }}"
    )
    assert (done := made.run(made.controller, get, timeout=300)).ok, done.tail
    serve = sh(
        "cat >{box}.py && systemd-run -q -u corral-test-box -p StandardOutput=append:{box} "
        "python3 {box}.py {mail} {hook}",
        **{"box": BOX, "mail": MAIL, "hook": HOOK},
    )
    assert (done := made.run(made.controller, serve, stdin=PROGRAM.read_bytes())).ok, done.tail
    yield made


def submitted(live: Live, *words: str, script: str = "true", to: str = "ada") -> str:
    """The number of a job of the user corral's, with mail about its end and failure."""
    options = ("--mail-type=END,FAIL", f"--mail-user={to}", "-o", "/dev/null", *words)
    command = sh(
        "cd /tmp && runuser -u corral -- sbatch --parsable {o} --wrap {s}",
        o=list(options),
        s=script,
    )
    done = live.run(live.controller, command)
    assert done.ok, done.tail
    return done.stdout.strip()


def box(live: Live, job: str) -> list[dict[str, Any]]:
    """What has come about a job, once something has."""
    until = time.monotonic() + 120
    while True:
        text = live.run(live.controller, sh("cat {box}", box=BOX)).stdout
        entries: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
        about = [entry for entry in entries if f"job {job} " in json.dumps(entry)]
        if about:
            return about
        if time.monotonic() > until:
            logs = sh(
                "journalctl -q -u corral-notify -o cat -n 30 --no-pager; "
                "tail -n 20 /var/log/slurm/slurmctld.log"
            )
            pytest.fail(live.run(live.controller, logs).stdout)
        time.sleep(1)


def test_a_second_plan_is_empty_and_the_secret_is_nowhere(live: Live) -> None:
    assert summaries(asyncio.run(api.plan(live.spec))) == []
    seen = sh(
        "scontrol show config | grep MailProg; cd /etc/corral; "
        "stat -c '%U:%G %a' secrets/webhook-hush; "
        "grep -rl B0/hush /etc/corral /etc/systemd/system /usr/local | sort"
    )
    lines = live.run(live.controller, seen).stdout.splitlines()
    assert lines[0].endswith("/usr/local/sbin/corral-notify")
    assert lines[1] == "root:slurm 640"
    assert lines[2:] == ["/etc/corral/secrets/webhook-hush"]
    assert "B0/hush" not in json.dumps(asyncio.run(api.plan(live.spec)).as_dict())


def test_an_end_with_what_it_used(live: Live) -> None:
    job = submitted(live, "--mem=64", "-n1", f"--job-name={HOSTILE}", script="sleep 3")
    (entry,) = box(live, job)
    assert entry["mail"] == ["ada@example.org"]
    headers = entry["headers"]
    assert headers["Subject"].startswith(f"{live.spec.name}: job {job} x <!channel> @here Bcc: all")
    assert headers["Subject"].endswith(": COMPLETED")
    assert "Bcc" not in headers
    assert "of 64 MiB of memory" in entry["text"]
    assert "run time: 0:00:0" in entry["text"]


def test_a_failure_to_a_webhook_by_name_and_by_secret(live: Live) -> None:
    job = submitted(live, f"--job-name={HOSTILE}", script="exit 3", to="lab-chat,hush")
    entries = box(live, job)
    until = time.monotonic() + 30
    while len(entries) < 2 and time.monotonic() < until:
        entries = box(live, job)
    hooks = sorted(entry["hook"] for entry in entries)
    assert hooks == ["/plain", "/services/T0/B0/hush"], live.run(live.controller, JOURNAL).stdout
    body = entries[0]["body"]
    assert (body["job"], body["state"], body["exit_code"]) == (job, "FAILED", "3:0")
    assert "It ended with exit status 3." in body["text"]
    assert "<" not in body["text"]
    assert "@here" not in body["text"]


def test_a_failure_has_the_doctors_cause_by_its_output(live: Live) -> None:
    """The output is in a folder that its user alone may open: it is read as that user."""
    own = sh("install -d -m 700 -o corral ~corral/own && cd ~corral/own && pwd")
    folder = live.run(live.controller, own).stdout.strip()
    script = "python3 -c 'import nosuchmodule'"
    job = submitted(live, "-o", f"{folder}/%j.log", script=script)
    (entry,) = box(live, job)
    journal = live.run(live.controller, sh("journalctl -q -u 'corral-job-end@*' -n 20 --no-pager"))
    assert "Why: " in entry["text"], entry["text"] + journal.stdout
    assert "nosuchmodule" in entry["text"]
    assert "Fix: " in entry["text"]
    assert "unknown" not in entry["text"]


def test_nobody_but_slurms_user_asks_why_a_job_failed(live: Live) -> None:
    ask = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({END_SOCKET!r})"
    done = live.run(live.controller, sh("runuser -u corral -- python3 -c {ask}", ask=ask))
    assert "PermissionError" in done.stderr
    other = f'{ask}; s.sendall(b\'{{"job": 1, "user": "root"}}\\n\'); print(s.recv(4096).decode())'
    done = live.run(live.controller, sh("runuser -u slurm -- python3 -c {ask}", ask=other))
    assert "is not a person's account" in done.stdout


def test_out_of_memory_has_asked_and_the_way_out(live: Live) -> None:
    job = submitted(live, "--mem=40", script="head -c 200m /dev/zero | tail -c 190m | wc -c")
    (entry,) = box(live, job)
    state = live.run(live.controller, sh("sacct -nPX -j {j} -o State", j=job)).stdout.strip()
    assert entry["headers"]["Subject"].endswith(state)
    if state == "OUT_OF_MEMORY":  # this host's kernel limits memory in containers
        text = entry["text"].replace("\r\n", "\n")
        assert "Why: the job used more memory than it asked for\nCause: " in text
        assert "\nFix: ask for more by --mem, " in text
        # Its output is /dev/null.
        assert "\nWithout its output: not a file: what is written there is not kept\n" in text
        assert re.search(r"\nMemory: 40 MiB asked for, \d+ MiB used\n", text)


# Two GPUs of a node, the first with the processes of its first job, the second with its second's:
# of the job GPU_JOB one GPU alone has processes. The first works, the second does nothing.
SMI = """\
#!/bin/sh
jobs=$(ls -d /sys/fs/cgroup/system.slice/*slurmstepd.scope/job_* \
  /sys/fs/cgroup/freezer/slurm*/uid_*/job_* 2>/dev/null | sed 's/.*job_//' | sort -un)
case $1 in
*compute-apps*) n=0
  for job in $jobs; do
    n=$((n + 1))
    find /sys/fs/cgroup -path "*/job_$job/*" -name cgroup.procs -exec cat {} + | sort -u |
      sed "s/^/GPU-$n, /"
  done ;;
*) echo '0, GPU-1, 93, 40000, 81559, 61, 402.5'; echo '1, GPU-2, 0, 4000, 81559, 31, 60.5' ;;
esac
"""
UNTIL = "until [ -e /shared/gpus-end ]; do sleep 0.5; done"
SERIES = ("corral_gpu_job", "corral_gpu_utilization_ratio", "corral_job_memory_bytes")
OLDER_S = 900


def wait_for(value: Callable[[], Any], what: str, seconds: float = 240) -> Any:
    """What a function returns, once that is true."""
    until = time.monotonic() + seconds
    while not (answer := value()):
        assert time.monotonic() < until, what
        time.sleep(2)
    return answer


@pytest.fixture
def with_gpus(live: Live) -> Iterator[Live]:
    put = sh("printf %s {t} >{f}; chmod 755 {f}", t=SMI, f="/usr/local/bin/nvidia-smi")
    for node in ("node0", "node1"):
        assert live.run(node, put).ok
    yield live
    live.run(live.controller, sh("touch /shared/gpus-end; sleep 1; rm /shared/gpus-end"))
    for node in ("node0", "node1"):
        live.run(node, sh("rm /usr/local/bin/nvidia-smi"))


WRITE = Script("systemctl start corral-figures.service")
"""What the timer does each 15 s."""


def made_older(live: Live, jobs: list[str]) -> None:
    """What accounting and Prometheus have of jobs that run begins a quarter of an hour earlier.

    Prometheus' own series, which it scraped of these jobs, are continued into the past.
    """

    def scraped() -> Any:
        asked = values(live, *(f'{{__name__=~"{"|".join(SERIES)}",node=~"node[01]"}}',))[0]
        of = {sample["metric"].get("jobid") for sample in asked}
        known = [s for s in asked if s["metric"]["__name__"] == SERIES[0]]
        return asked if {*jobs} <= of and len(known) >= len(jobs) else None

    for node in ("node0", "node1"):
        assert live.run(node, WRITE).ok
    samples = wait_for(scraped, "Prometheus has scraped the jobs' GPUs")
    now = int(float(samples[0]["value"][0]))
    lines = list[str]()
    for name in SERIES:
        lines.append(f"# TYPE {name} gauge")
        for sample in (s for s in samples if s["metric"]["__name__"] == name):
            labels = ",".join(
                f"{label}={json.dumps(value)}"
                for label, value in sample["metric"].items()
                if label != "__name__"
            )
            times = range(now - OLDER_S - 60, now - 30, 15)
            lines += [f"{name}{{{labels}}} {sample['value'][1]} {at}" for at in times]
    text = "\n".join([*lines, "# EOF", ""])
    table = f"{live.spec.name}_job_table"
    update = (
        f"update `{table}` set time_start=time_start-{OLDER_S} "  # noqa: S608  # ours
        f"where id_job in ({', '.join(jobs)})"
    )
    older = sh(
        "cat >/tmp/older && promtool tsdb create-blocks-from openmetrics /tmp/older {data} && "
        "chown -R prometheus: {data} && systemctl restart prometheus && "
        "mariadb slurm_acct_db -e {update}",
        data="/var/lib/prometheus/metrics2",
        update=update,
    )
    done = live.run(live.controller, older, stdin=text.encode())
    assert done.ok, done.tail


def test_a_sweep_of_the_page_reports_its_use_and_idle_gpus(with_gpus: Live) -> None:
    """Two points with a GPU each, of which one does nothing; by mail, and by webhook of a job."""
    live = with_gpus
    array = ""

    def submit(page: Page, code: str) -> None:
        nonlocal array
        page.log_in(code)
        names = [each["name"] for each in page.ask("jobs/form")["recipients"]]
        assert names == ["lab-chat", "hush", "corral"]
        fields = {
            "command": ["sh", "-c", f"echo {{lr}}; {UNTIL}"],
            "sweep": {"lr": ["0.1", "0.2"]},
            "gpus_per_node": 1,
            "nodelist": "node0",
            "mail": "corral",
        }
        assert page.ask("jobs/preview", fields)["jobs"] == 2
        array = str(page.ask("jobs/spec", fields)["id"])

    use(live.spec, submit)
    single = submitted(live, "--gres=gpu:2", "-N1", "-w", "node1", script=UNTIL, to="lab-chat")
    listed = sh("squeue -h -r -t R -o %A")

    def running() -> list[str]:
        numbers = live.run(live.controller, listed).stdout.split()
        return numbers if len(numbers) == 3 else []

    jobs = wait_for(running, "three jobs run")
    # The second GPU is that of the later of the sweep's two numbers: its last point has the first.
    names = live.run(live.controller, sh("squeue -h -r -w node0 -o '%A %F_%K' | sort -n")).stdout
    _, idle = (line.split()[1] for line in names.splitlines())
    made_older(live, jobs)
    assert live.run(live.controller, sh("touch /shared/gpus-end")).ok
    (mail,) = box(live, f"{array}_*")
    text = mail["text"]
    assert mail["mail"] == ["corral@example.org"]
    assert mail["headers"]["Subject"].startswith(f"{live.spec.name}: job {array}_* ")
    assert "tasks: 2 COMPLETED" in text
    assert re.search(r"used: 0\.\d\d of 0\.\d\d CPU hours \(\d+ %\), at most \d+ MiB of ", text)
    assert re.search(r"2 of 2 GPUs measured, (4[6-9]|50) % busy", text), text
    assert f"1 of 2 GPUs idle: busy less than 5 % of the time ({idle})" in text
    (hook,) = box(live, single)
    assert hook["hook"] == "/plain"
    assert (hook["body"]["gpus"], hook["body"]["idle_gpus"]) == (2, 1)
    assert hook["body"]["gpu_share"] == pytest.approx(0.465, abs=0.03)
    assert "1 of 2 GPUs idle: busy less than 5 % of the time." in hook["body"]["text"]


def test_what_the_administrator_did_not_name_is_reached_by_nobody(live: Live) -> None:
    before = live.run(live.controller, sh("wc -l <{box}", box=BOX)).stdout
    for to in (f"http://127.0.0.1:{HOOK}/evil", "all@example.com", "-oQ/tmp"):
        submitted(live, to=to)
    log = sh("journalctl -q -u corral-notify -o cat --no-pager")
    until = time.monotonic() + 120
    while (text := live.run(live.controller, log).stdout).count("dropped") < 3:
        assert time.monotonic() < until, text
        time.sleep(1)
    assert "hush" not in text.replace(" to hush:", "")
    assert live.run(live.controller, sh("wc -l <{box}", box=BOX)).stdout == before


# Slurm's levels, with what Slurm lets each do on a node: a user's limit, an account's, a QOS's
# priority, a reservation, a node, another's level; and others' jobs.
PEOPLE = {
    "pat": ("None", "user", ""),
    "cora": ("None", "user", "user job"),  # coordinates the account
    "oli": ("Operator", "operator", "user account reservation job"),
    "amy": ("Administrator", "administrator", "user account qos reservation node level job"),
}
COMMANDS = {
    "user": "sacctmgr -i modify user pat set GrpTRES=gres/gpu=4",
    "account": "sacctmgr -i modify account corral set GrpTRES=gres/gpu=40",
    "qos": "sacctmgr -i modify qos nightly set Priority=10",
    "reservation": "scontrol update reservationname=upkeep duration=4:00:00",
    "node": "scontrol update nodename=node2 state=drain reason=fan",
    "level": "sacctmgr -i modify user pat set adminlevel=operator",
}
BACK = sh(
    "sacctmgr -i -Q modify user pat set GrpTRES=gres/gpu=-1 adminlevel=none; "
    "sacctmgr -i -Q modify account corral set GrpTRES=gres/gpu=-1; "
    "sacctmgr -i -Q modify qos nightly set Priority=0; "
    "scontrol update reservationname=upkeep duration=2:00:00; "
    "scontrol update nodename=node2 state=resume; true"
)
RECORDS = sh(
    "sacctmgr -nP show assoc format=account,user,grptres,qos; sacctmgr -nP show qos; "
    "sacctmgr -nP show user format=user,admin withcoord; scontrol -o show reservation"
)


@pytest.fixture(scope="module")
def people(live: Live) -> Iterator[Live]:
    for user, (level, _, _) in PEOPLE.items():
        add = sh(
            "useradd -M {u} && sacctmgr -i -Q add user {u} account=corral adminlevel={l}",
            u=user,
            l=level,
        )
        assert (done := live.run(live.controller, add)).ok, done.tail
    make = sh(
        "sacctmgr -i -Q add coordinator account=corral names=cora; "
        "sacctmgr -i -Q add qos nightly; scontrol create reservationname=upkeep "
        "starttime=2036-01-31T08:00:00 duration=2:00:00 nodes=node2 users=root"
    )
    assert (done := live.run(live.controller, make)).ok, done.tail
    yield live
    live.run(live.controller, BACK)
    end = sh(
        "scontrol delete reservationname=upkeep; sacctmgr -i -Q delete qos nightly; "
        "sacctmgr -i -Q delete user {u}; for u in {u}; do userdel $u; done",
        u=list(PEOPLE),
    )
    live.run(live.controller, end)


def test_what_slurms_levels_may_change_on_a_node(people: Live) -> None:
    """The page names these commands for who may use them (docs/guide/ui.md)."""
    allowed = dict[str, set[str]]()
    for user in PEOPLE:
        job = submitted(people, script="sleep 300", to="nobody@example.com")
        commands = {**COMMANDS, "job": f"scancel {job}"}
        run = "cd /tmp; runuser -u {u} -- {w}"
        tries = (sh(run, u=user, w=words.split()) for words in commands.values())
        every = [script for tried in tries for script in (tried, BACK)]
        answers = people.each((people.controller, script) for script in every)[::2]
        people.run(people.controller, sh("scancel {j}", j=job))
        allowed[user] = {what for what, answer in zip(commands, answers, strict=True) if answer.ok}
    assert allowed == {user: {*may.split()} for user, (_, _, may) in PEOPLE.items()}


@pytest.mark.parametrize("user", PEOPLE)
def test_what_they_may_change_on_the_controllers_page(user: str, people: Live) -> None:
    """Accounts, QOS, reservations and licences are read by all, and changed there by nobody."""
    _, role, may = PEOPLE[user]
    before = people.run(people.controller, RECORDS).stdout
    job = submitted(people, script="sleep 300", to="nobody@example.com")
    text = (Path(__file__).parents[2] / "examples" / "laptop.yaml").read_text()
    edit = {"section": "qos", "name": "nightly", "fields": {"priority": "10"}, "digest": "x"}
    closed = {
        "policy/declared": None,
        "corral/file": None,
        "policy/edit": edit,
        "corral/plan": {"text": text, "digest": "x"},
        "corral/apply": {"plan": "x", "code": "x"},
    }

    def work(page: Page, code: str) -> None:
        me = page.log_in(code)
        assert (me["user"], me["role"], me["owner"]) == (user, role, False)
        for tab in ("accounts", "qos", "reservations", "licenses", "scheduler"):
            assert page.ask(f"policy/{tab}")["known"], tab
        limits = {e["user"] for e in page.ask("policy/accounts")["accounts"]}
        assert {*PEOPLE} <= limits
        for path, body in closed.items():
            status, error = page.status(path, body)
            assert status == 403, path
            assert "does not run here" in error["message"]
            assert "corral ui FILE" in error["hint"]
        drains = page.status("nodes/node2", {"do": "drain", "reason": "fan"})
        together = page.status("bulk/nodes", {"do": "drain", "names": ["node2"], "reason": "fan"})
        assert [drains[0], together[0]] == ([200] * 2 if "node" in may else [403] * 2), drains
        if "node" in may:
            assert page.status("nodes/node2", {"do": "resume"})[0] == 200
        ended = page.status(f"jobs/{job}", {"do": "cancel"})
        assert ended[0] == (200 if role != "user" else 403), ended

    try:
        use(people.spec, work, user)
    finally:
        people.run(people.controller, sh("scancel {j}", j=job))
    assert people.run(people.controller, RECORDS).stdout == before


def test_a_node_shows_which_health_check_failed_and_when(live: Live) -> None:
    """By the node's metrics, to a user who is not an administrator."""
    fault, node = FAULTS[0], "node1"

    def work(page: Page, code: str) -> None:
        assert page.log_in(code)["role"] == "user"

        def checked(word: str) -> Any:
            detail = page.ask(f"nodes/{node}")
            checks = {c["check"]: c for c in detail["health"]["checks"]}
            at = detail["health"]["at"] or 0
            known = at >= begun and checks.get(fault.id, {}).get("word") == word
            return (detail, checks) if known else None

        def listed() -> dict[str, Any]:
            table = page.ask("nodes")
            rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
            return next(row for row in rows if row["name"] == node)

        begun = int(time.time())
        assert live.run(node, fault.do).ok
        try:
            assert all(live.run(node, script).ok for script in (RUN, WRITE))
            detail, checks = wait_for(lambda: checked("fail"), "the check is seen to fail")
            shown = listed()
        finally:
            assert live.run(node, fault.undo).ok
        assert re.search(fault.words, checks[fault.id]["text"])
        assert detail["health"]["why"] == ""
        assert time.time() - detail["health"]["at"] < 240
        assert {c["word"] for name, c in checks.items() if name != fault.id} <= {"ok", "none"}
        assert shown["reason"].startswith(f"{fault.id}: "), shown
        drained = next(e for e in detail["events"] if e["what"] == "drained")
        assert re.search(fault.words, drained["why"])
        assert drained["by"] == "root"
        begun = int(time.time())
        assert all(live.run(node, script).ok for script in (RUN, WRITE))
        detail, _ = wait_for(lambda: checked("ok"), "the check is seen to pass")
        assert wait_for(lambda: not listed()["reason"], "the node takes jobs again")
        assert any(e["what"] == "resumed" for e in page.ask(f"nodes/{node}")["events"])

    try:
        use(live.spec, work)
    finally:
        live.run(node, RUN)


def test_without_the_field_all_of_it_goes(live: Live) -> None:
    services = live.spec.services.model_copy(update={"notify": None})
    asyncio.run(api.up(live.spec.model_copy(update={"services": services})))
    left = sh(
        "ls /usr/local/sbin/corral-notify /etc/corral/notify.json /etc/corral/secrets "
        "/etc/systemd/system/corral-notify.* 2>/dev/null; grep MailProg /etc/slurm/slurm.conf; true"
    )
    assert live.run(live.controller, left).stdout == ""
