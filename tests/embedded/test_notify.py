"""Messages about jobs: slurmctld calls MailProg, a real mail server and a webhook get them."""

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
from tests.embedded.running_cluster import summaries

from corral import api
from corral.hosts.quote import sh
from corral.roles.services.page import END_SOCKET
from corral.spec.models import ClusterSpec

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
        "prometheus": f"http://127.0.0.1:{HOOK}",
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


def test_an_idle_gpu_is_named(live: Live) -> None:
    """Accounting's record is made older: the job is one of ten minutes and more."""
    job = submitted(live, "--gres=gpu:2", "-N1", script="sleep 1")
    box(live, job)
    table = f"{live.spec.name}_job_table"
    text = f"update `{table}` set time_start=time_end-700 where id_job={job}"  # noqa: S608  # ours
    older = sh("mariadb slurm_acct_db -e {text} && python3 - {job}", text=text, job=job)
    program = PROGRAM.with_name("composed_message.py").read_bytes()
    done = live.run(live.controller, older, stdin=program)
    assert "1 of 2 GPUs idle: busy less than 5 % of the time." in done.stdout, done.tail


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


def test_without_the_field_all_of_it_goes(live: Live) -> None:
    services = live.spec.services.model_copy(update={"notify": None})
    asyncio.run(api.up(live.spec.model_copy(update={"services": services})))
    left = sh(
        "ls /usr/local/sbin/corral-notify /etc/corral/notify.json /etc/corral/secrets "
        "/etc/systemd/system/corral-notify.* 2>/dev/null; grep MailProg /etc/slurm/slurm.conf; true"
    )
    assert live.run(live.controller, left).stdout == ""
