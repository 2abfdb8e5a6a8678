"""Messages about jobs: what they have in them, where they go, and what a hostile job cannot do."""

from __future__ import annotations

import importlib.util
import json
import signal
import smtplib
import socket
import subprocess
import sys
import threading
import time
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from corral.agents import FOLDER
from corral.inspect.jobs import BUSY, BUSY_OF_EACH
from corral.jobs.usage import EndedUse
from corral.slurm.job_use import JobUse
from corral.slurm.records import Job
from corral.slurm.states.jobs import going_on_states, job_states
from tests.dripping import HEAD, dripping

RELAY = {
    "host": "mail",
    "port": 25,
    "tls": "starttls",
    "user": "",
    "sender": "cluster@example.org",
    "domain": "example.org",
    "domains": [],
}
CONF: dict[str, Any] = {
    "cluster": "lab",
    "accounting": True,
    "page": "",
    "prometheus": "",
    "busy": BUSY,
    "each": BUSY_OF_EACH,
    "going_on": going_on_states(),
    "ends": {word: row.ends for word, row in job_states().items() if row.ends},
    "relay": RELAY,
    "webhooks": {"lab-chat": "https://hooks.example.org/x", "secret": ""},
}
FACTS = {
    "SLURM_JOB_ID": "12",
    "SLURM_ARRAY_JOB_ID": "",
    "SLURM_ARRAY_TASK_ID": "",
    "SLURM_JOB_NAME": "train",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_STATE": "COMPLETED",
    "SLURM_JOB_MAIL_TYPE": "Ended",
    "SLURM_JOB_WORK_DIR": "/home/ada",
}
ROW = (
    "12|12|ada|{state}|{code}|1000|60|4|cpu=4,gres/gpu=2,mem=8192M,node=1|n[0-1]|01:03:20||Unknown"
)
STEP = "12.batch|12.batch||COMPLETED|0:0|1000||4|mem=8192M|n0|01:03:20|cpu=3,mem=1228.80M|Unknown"


def rows(state: str = "COMPLETED", code: str = "0:0") -> str:
    return f"{ROW.format(state=state, code=code)}\n{STEP}\n"


@pytest.fixture
def real_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program as a module."""
    secrets = tmp_path / "secrets"
    for folder in ("secrets", "queue", "new"):
        (tmp_path / folder).mkdir()
    (secrets / "webhook-secret").write_text("https://hooks.example.org/services/T0/B0/hush\n")
    (secrets / "relay").write_text("of-the-relay\n")
    monkeypatch.setenv("CORRAL_NOTIFY_SPOOL", str(tmp_path))
    monkeypatch.setenv("CORRAL_NOTIFY_CONF", str(tmp_path / "notify.json"))
    monkeypatch.setenv("CORRAL_NOTIFY_SECRETS", str(secrets))
    origin = importlib.util.spec_from_file_location("notify_send", FOLDER / "notify/send.py")
    assert origin is not None
    assert origin.loader is not None
    module: Any = importlib.util.module_from_spec(origin)
    origin.loader.exec_module(module)
    return module


@pytest.fixture
def send(real_send: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program, which asks no Slurm and sends into ``sent``."""
    module = real_send
    module.sent = sent = list[Any]()
    module.answer = rows()
    module.status = 200

    class Smtp:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def starttls(self, context: object) -> None:
            sent.append("tls")

        def login(self, user: str, password: str) -> None:
            sent.append((user, password))

        def send_message(self, mail: EmailMessage) -> None:
            sent.append(mail)

    def request(method: str, url: str, body: Any) -> tuple[int, bytes]:
        sent.append((method, url, json.loads(body) if body else None))
        return module.status, b"{}"

    monkeypatch.setattr(
        module, "asked", lambda *argv: "n0\nn1\n" if "hostnames" in argv else module.answer
    )
    monkeypatch.setattr(module, "connected", lambda relay, context: Smtp())
    monkeypatch.setattr(module, "request", request)
    return module


def message(
    to: str = "ada", subject: str = "Slurm Job_id=12 Name=train Ended", **facts: str
) -> dict[str, Any]:
    return {"subject": subject, "to": to, "at": time.time(), "facts": {**FACTS, **facts}}


def body_of(mail: EmailMessage) -> str:
    return mail.get_content()


def test_the_summary_is_the_one_that_corral_run_prints(send: Any) -> None:
    for gpu_share in (None, 0.41):
        job = send.ended_job(send.rows_of("12"))
        job["gpu_share"] = gpu_share
        of = Job(12, cpus=4, memory=8192, gpus=2, gpus_exact=True, elapsed=1000, nodes="n[0-1]")
        use = JobUse(3800.0, 1228.8)
        busy = None if gpu_share is None else gpu_share * 2000
        assert send.use_words(job) == EndedUse(of, use, busy).words
    assert "3.8 of 4 CPUs (95 %), 1.2 GiB of 8.0 GiB of memory (15 %)" in send.use_words(job)


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ("OUT_OF_MEMORY", "0:125", "It was out of memory: it had 8.0 GiB. Ask for more (--mem)"),
        ("TIMEOUT", "0:0", "It reached its time limit of 1:00:00."),
        ("FAILED", "3:0", "It ended with exit status 3."),
        ("FAILED", "0:9", "It ended with signal 9."),
        ("NODE_FAIL", "1:0", "A node failed, one of n[0-1]."),
        ("CANCELLED by 1000", "0:15", "lab: job 12 train: CANCELLED"),
    ],
)
def test_an_end_and_why(send: Any, state: str, code: str, words: str) -> None:
    send.answer = rows(state, code)
    send.deliver(CONF, message(), "ada")
    tls, mail = send.sent
    assert tls == "tls"
    assert (mail["To"], mail["From"]) == ("ada@example.org", "cluster@example.org")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert words in body_of(mail)
    assert "run time: 0:16:40 of 1:00:00" in body_of(mail)


FINDING = {
    "title": "the job's own program failed",
    "detail": "ValueError: <!channel> @here\nBcc: x at /shared/t.py line 3",
    "cause": "Its program raised an error.",
    "fix": "Correct `t.py`.",
}
END: dict[str, Any] = {"findings": [FINDING], "lines": 0, "no_output": "", "about": ""}


class Doctor:
    """The socket that explains ends: it keeps what it is asked and answers ``end``."""

    def __init__(self, path: Path, end: Any) -> None:
        self.asked: list[Any] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = self._listening.accept()
                except OSError:
                    return
                with connection, connection.makefile("rb") as lines:
                    self.asked.append(json.loads(lines.readline()))
                    connection.sendall(end if isinstance(end, bytes) else json.dumps(end).encode())

        threading.Thread(target=serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()


def explained(send: Any, tmp_path: Path, end: Any, state: str = "FAILED", code: str = "1:0") -> Any:
    """Text and facts of a message, and what the doctor was asked."""
    doctor = Doctor(tmp_path / "end.sock", end)
    send.answer = rows(state, code)
    try:
        conf = {**CONF, "doctor": str(tmp_path / "end.sock")}
        for to in ("ada", "lab-chat"):
            send.deliver(conf, message(to), to)
    finally:
        doctor.close()
    mail = next(each for each in send.sent if isinstance(each, EmailMessage))
    return body_of(mail), send.sent[-1][2], doctor.asked


def test_why_it_failed_is_the_doctors_and_asked_once(send: Any, tmp_path: Path) -> None:
    text, hook, asked = explained(send, tmp_path, END)
    assert asked == [{"job": 12, "user": "ada"}]  # for two recipients
    assert "Why: the job's own program failed: ValueError: <!channel> @here Bcc: x at" in text
    assert "Cause: Its program raised an error." in text
    assert "Fix: Correct `t.py`." in text
    assert "It ended with exit status 1" not in text  # one judge
    detail = "ValueError: <!channel> @here Bcc: x at /shared/t.py line 3"  # one line
    assert hook["why"] == [{**FINDING, "detail": detail}]
    assert "<!channel>" not in hook["text"]
    assert "@here" not in hook["text"]


@pytest.mark.parametrize(
    ("state", "about", "words"),
    [
        ("OUT_OF_MEMORY", "memory", "Memory: 8.0 GiB asked for, 1.2 GiB used"),
        ("TIMEOUT", "time", "Time: 1:00:00 asked for, ran 0:16:40"),
        ("NODE_FAIL", "nodes", "Nodes: n[0-1]"),
    ],
)
def test_asked_against_used(send: Any, tmp_path: Path, state: str, about: str, words: str) -> None:
    text, *_ = explained(send, tmp_path, {**END, "about": about}, state, "0:0")
    assert words in text


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({**END, "findings": []}, "The doctor knows no cause. No line of its output reports an"),
        ({**END, "findings": [], "lines": 2}, "2 lines of its output report an error; see its"),
        ({**END, "no_output": "it is gone"}, "Without its output: it is gone"),
        (
            {**END, "findings": [], "no_output": "Permission denied"},
            "The doctor knows no cause.\nWithout its output: Permission denied",
        ),
        ({"error": "slurmctld is down"}, "The cause is unknown: slurmctld is down."),
        (b"not JSON", "The cause is unknown: it does not answer: JSONDecodeError."),
        (b"[1]", "The cause is unknown: it gave no answer."),
        (b"{}", "The cause is unknown: it gave no answer."),
    ],
)
def test_what_the_doctor_does_not_know_is_unknown(
    send: Any, tmp_path: Path, end: Any, words: str
) -> None:
    text, *_ = explained(send, tmp_path, end)
    assert words in text
    if not (isinstance(end, dict) and end.get("findings")):
        assert "It ended with exit status 1." in text  # Slurm's record stays


def test_a_webhook_gets_the_first_causes_as_bounded_lines(send: Any, tmp_path: Path) -> None:
    long = {**FINDING, "detail": "x\u202e\n" * 5000, "job": "its own"}
    _, hook, _ = explained(send, tmp_path, {**END, "findings": [long] * 5})
    assert len(hook["why"]) == send.MOST_FINDINGS
    for finding in hook["why"]:
        assert finding.keys() == FINDING.keys()
        assert all(len(value) <= send.TEXT and value.isprintable() for value in finding.values())


class SlowDoctor:
    """A doctor that hangs for ``takes`` seconds of a clock that nothing waits for."""

    def __init__(self, send: Any, monkeypatch: pytest.MonkeyPatch, takes: float) -> None:
        self.now, self.takes = 0.0, takes
        self.patience: list[float] = []
        monkeypatch.setattr(send.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(send.time, "sleep", self._sleep)
        monkeypatch.setattr(send.socket, "socket", lambda _: self)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def settimeout(self, seconds: float) -> None:
        self._patience = seconds

    def connect(self, path: str) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        self.patience.append(self._patience)
        self._left = [json.dumps(END).encode(), b""]

    def recv(self, most: int) -> bytes:
        if len(self._left) == 2 and self.takes > self._patience:
            self.now += self._patience
            raise TimeoutError
        self.now += self.takes if len(self._left) == 2 else 0
        return self._left.pop(0)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def failed_jobs(send: Any, tmp_path: Path, *users: str, first: int = 100) -> None:
    """A failed job of each in the queue, numbered from ``first`` on."""
    conf = {**CONF, "doctor": str(tmp_path / "end.sock")}
    (tmp_path / "notify.json").write_text(json.dumps(conf))
    owners = {str(number): user for number, user in enumerate(users, first)}
    for number, user in owners.items():
        about = message(user, SLURM_JOB_ID=number, SLURM_JOB_USER=user)
        (tmp_path / "queue" / number).write_text(json.dumps(about))

    def asked(*argv: str) -> str:
        number = argv[argv.index("-j") + 1]
        return rows("FAILED", "1:0").replace("12|12|ada", f"{number}|{number}|{owners[number]}")

    send.asked = asked


def test_hung_outputs_of_one_user_hold_nobodys_messages(
    send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor = SlowDoctor(send, monkeypatch, takes=1000)
    failed_jobs(send, tmp_path, *["eve"] * 40)
    assert send.main() == 0
    mails = [each for each in send.sent if isinstance(each, EmailMessage)]
    assert len(mails) == 40
    assert doctor.now <= send.USER_S + 1, "not 40 times the limit of one answer"
    assert "it does not answer: TimeoutError" in body_of(mails[0])
    last = body_of(mails[-1])
    assert "The cause is unknown: there was no time" in last
    assert "It ended with exit status 1." in last


def test_one_users_share_leaves_time_for_others(
    send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor = SlowDoctor(send, monkeypatch, takes=15)
    failed_jobs(send, tmp_path, *["eve"] * 10, "kim", "ada")
    assert send.main() == 0
    mails = [each for each in send.sent if isinstance(each, EmailMessage)]
    why = [each["To"].partition("@")[0] for each in mails if "Why: " in body_of(each)]
    assert why == ["eve", "eve", "kim"]
    assert "The cause is unknown: there was no time" in body_of(mails[-1])
    assert len(mails) == 12
    assert doctor.now <= send.ROUND_S + 1


def test_the_next_round_has_time_again(
    send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor = SlowDoctor(send, monkeypatch, takes=1000)
    sleep = send.time.sleep

    def rested(seconds: float) -> None:
        sleep(seconds)
        if doctor.takes == 1000:
            doctor.takes = 1
            failed_jobs(send, tmp_path, "kim", "eve", first=200)

    monkeypatch.setattr(send.time, "sleep", rested)
    failed_jobs(send, tmp_path, "eve", "eve")
    assert send.main() == 0
    mails = [body_of(each) for each in send.sent if isinstance(each, EmailMessage)]
    assert ["Why: " in each for each in mails] == [False, False, True, True]
    assert len(doctor.patience) == 3


def test_a_doctor_that_is_not_there_delays_no_message(
    send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send.answer = rows("FAILED", "1:0")
    send.deliver({**CONF, "doctor": str(tmp_path / "none.sock")}, message(), "ada")
    assert "The cause is unknown: it does not answer" in body_of(send.sent[-1])
    send.ANSWERS.clear()
    send.deliver(CONF, message(), "ada")
    assert "unknown: the page does not run on the controller" in body_of(send.sent[-1])
    send.ANSWERS.clear()
    monkeypatch.setattr(send, "MANY", 0)
    (tmp_path / "queue" / "1").write_text("{}")
    send.deliver({**CONF, "doctor": str(tmp_path / "none.sock")}, message(), "ada")
    assert "The cause is unknown: more than 0 messages wait." in body_of(send.sent[-1])
    send.ANSWERS.clear()
    send.answer = rows()
    send.deliver(CONF, message(), "ada")
    assert "unknown" not in body_of(send.sent[-1])  # it did not fail


def test_idle_gpus_are_counted_with_those_that_no_process_had(send: Any) -> None:
    def query(conf: object, text: str, at: float) -> list[Any]:
        assert 'cluster="lab"' in text
        if text.startswith("sum by"):
            return [{"metric": {"node": "n0", "gpu": "0"}, "value": [1, "900"]}]
        return [
            {"metric": {"of": "busy", "jobid": "12"}, "value": [1, "900"]},
            {"metric": {"of": "measured", "jobid": "12"}, "value": [1, "2000"]},
        ]

    send.query = query
    head, lines, facts = send.composed({**CONF, "prometheus": "http://x"}, message())
    assert head == "lab: job 12 train: COMPLETED"
    assert "1 of 2 GPUs idle: busy less than 5 % of the time." in lines
    assert facts["idle_gpus"] == 1
    assert facts["gpu_share"] == pytest.approx(0.45)
    assert "2 GPUs 45 % busy" in "\n".join(lines)


def test_a_name_stays_a_name(send: Any) -> None:
    name = "x\r\nBcc: all@example.org\r\n\r\n<b>hi</b> `a` @here <!channel> \x1b[31m \u202eevil"
    send.deliver(CONF, message(SLURM_JOB_NAME=name), "ada")
    mail = send.sent[-1]
    assert mail["Bcc"] is None
    assert "\n" not in mail["Subject"]
    raw = bytes(mail.as_bytes()).decode()
    assert "\r\nBcc" not in raw
    assert "\nBcc" not in raw
    assert not any(c in raw for c in "\x1b\u202e")
    assert mail.get_content_type() == "text/plain"
    send.deliver(CONF, message(SLURM_JOB_NAME=name), "lab-chat")
    _, url, body = send.sent[-1]
    assert url == "https://hooks.example.org/x"
    text = body["text"]
    assert "<" not in text
    assert text.count("`") == 2, "the head is code, and the name does not end it"
    assert "@here" not in text
    assert {"job", "name", "state", "elapsed_s", "cpus", "gpus"} <= set(body)


def test_only_what_the_administrator_named_is_reached(send: Any) -> None:
    for to in (
        "http://169.254.169.254/",
        "https://evil/x",
        "a@b\nBcc: c",
        "-oQ/tmp@x",
        "ada@",
        "a b",
    ):
        with pytest.raises(send.DroppedError):
            send.deliver(CONF, message(), to)
    near = {**CONF, "relay": {**RELAY, "domains": ["example.org"]}}
    with pytest.raises(send.DroppedError, match="other domains"):
        send.deliver(near, message(), "ada@example.com")
    with pytest.raises(send.DroppedError, match="no mail relay"):
        send.deliver({**CONF, "relay": None}, message(), "ada")
    assert send.sent == []
    send.deliver(CONF, message(), "secret")
    assert send.sent[-1][1].endswith("/hush")
    send.status = 302
    with pytest.raises(send.DroppedError, match="answers 302"):
        send.deliver(CONF, message(), "lab-chat")


def test_a_login_at_the_relay(send: Any) -> None:
    send.deliver({**CONF, "relay": {**RELAY, "user": "cluster"}}, message(), "eve@example.com")
    assert send.sent[:2] == ["tls", ("cluster", "of-the-relay")]
    assert send.sent[2]["To"] == "eve@example.com"


def array_rows(*tasks: tuple[str, str]) -> str:
    """Accounting's rows of an array's tasks: state, and the processor time of its step."""
    lines = list[str]()
    for number, (state, cpu) in enumerate(tasks, 12):
        row = ROW.replace("12|12|", f"{number}|12_{number}|", 1).replace("01:03:20", cpu)
        lines.append(row.format(state=state, code="0:0"))
        lines.append(STEP.replace("12.batch|12.batch", f"{number}.batch|12_{number}.batch"))
    return "\n".join([*lines, ""])


ARRAY = {"subject": "Slurm Array Summary Job_id=12_* (12) Name=a Ended", "SLURM_ARRAY_JOB_ID": "12"}


def test_an_array_has_its_tasks_by_state_and_what_they_used(send: Any) -> None:
    never = ROW.replace("12|12|", "15|12_[15-20]|", 1).format(state="CANCELLED", code="0:0")
    tasks = [("COMPLETED", "00:30:00"), ("FAILED", "00:15:00"), ("COMPLETED", "")]
    send.answer = f"{array_rows(*tasks)}{never}\n"
    head, lines, facts = send.composed(CONF, message(**ARRAY))
    assert head == "lab: job 12_* train: Ended"
    assert lines[:2] == [
        "tasks: 2 COMPLETED, 1 FAILED",
        "used: 0.75 of 2.22 CPU hours (34 %), at most 1.2 GiB of 8.0 GiB of memory (15 %), "
        "GPUs not measured",
    ]
    assert facts["tasks"] == {"COMPLETED": 2, "FAILED": 1}
    assert (facts["cpu_s"], facts["cpu_given_s"]) == (2700, 8000)  # of those that were measured
    assert (facts["gpus"], facts["gpu_share"], facts["idle_gpus"]) == (6, None, None)
    assert "idle" not in "\n".join(lines)


def test_an_array_without_a_task_that_ran(send: Any) -> None:
    send.answer = ROW.replace("12|12|", "12|12_[0-9]|", 1).format(state="CANCELLED", code="0:0")
    _, lines, facts = send.composed(CONF, message(**ARRAY))
    assert facts["tasks"] == {}
    assert not any(line.startswith(("tasks", "used")) for line in lines)


def test_idle_gpus_of_an_array_are_those_of_the_tasks_that_were_measured(
    send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def query(conf: object, text: str, at: float) -> list[Any]:
        asked.append(text)
        if 'jobid=~"14"' in text:  # Prometheus has too little of it
            return []
        if text.startswith("sum by (node"):
            return [{"metric": {"node": "n0", "gpu": "0"}, "value": [1, "900"]}]
        return [
            {"metric": {"of": "busy"}, "value": [1, "900"]},
            {"metric": {"of": "measured"}, "value": [1, "2000"]},
        ]

    send.query = query
    send.answer = array_rows(*[("COMPLETED", "00:30:00")] * 3)
    conf = {**CONF, "prometheus": "http://x"}
    array = message(**ARRAY)
    _, lines, facts = send.composed(conf, array)
    assert "4 of 6 GPUs measured, 45 % busy" in lines[1]
    assert lines[2] == "2 of 6 GPUs idle: busy less than 5 % of the time (12_12, 12_13)"
    assert (facts["idle_gpus"], facts["gpu_share"]) == (2, pytest.approx(0.45))
    count = len(asked)
    send.composed(conf, array)
    assert len(asked) == count, "once for all recipients and tries"
    send.USES.clear()
    asked.clear()
    monkeypatch.setattr(send, "MOST_MEASURED", 1)
    assert send.composed(conf, message(**ARRAY))[2]["gpus_measured"] == 2
    send.USES.clear()
    asked.clear()
    monkeypatch.setattr(send, "ARRAY_S", 0)
    assert send.composed(conf, message(**ARRAY))[2]["gpus_measured"] == 0
    assert asked == []


def queued(send: Any, tmp_path: Path, *to: str) -> None:
    (tmp_path / "notify.json").write_text(json.dumps(CONF))
    for number, name in enumerate(to):
        (tmp_path / "queue" / str(number)).write_text(json.dumps(message(name)))


def test_what_fails_is_tried_again_and_then_dropped(
    send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(send.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(send.time, "sleep", lambda s: now.__setitem__(0, now[0] + 10))
    send.status = 503
    queued(send, tmp_path, "ada,secret", "eve")
    assert send.main() == 0
    output = capsys.readouterr().out
    assert "hush" not in output, "an address may be the secret"
    assert output.count("sent") == 2, "who has got it is not sent it again"
    posts = [entry for entry in send.sent if isinstance(entry, tuple)]
    assert len(posts) == 5
    assert "dropped after 5 tries" in output
    assert not list((tmp_path / "queue").iterdir())
    assert now[0] < 1300


def test_the_end_is_awaited_in_accounting(
    send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            send.answer = rows()

    send.answer = rows("RUNNING")
    monkeypatch.setattr(send.time, "sleep", sleep)
    ticks = iter(range(0, 1000, 2))
    monkeypatch.setattr(send.time, "monotonic", lambda: next(ticks))
    queued(send, tmp_path, "ada")
    assert send.main() == 0
    assert "COMPLETED" in send.sent[-1]["Subject"]


def test_a_refusal_for_good_is_not_repeated(send: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def connected(*_: object) -> Any:
        raise smtplib.SMTPResponseException(550, b"no such user")

    monkeypatch.setattr(send, "connected", connected)
    with pytest.raises(send.DroppedError, match="550"):
        send.deliver(CONF, message(), "ada")


WEBHOOK = {**CONF, "accounting": False, "relay": None}


def by_hook(send: Any, port: int) -> None:
    conf = {**WEBHOOK, "webhooks": {"chat": f"http://127.0.0.1:{port}/x"}}
    send.deliver(conf, message("chat"), "chat")


def by_mail(send: Any, port: int) -> None:
    relay = {**RELAY, "host": "127.0.0.1", "port": port, "tls": "off"}
    send.deliver({**CONF, "accounting": False, "relay": relay}, message(), "ada@example.org")


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("deliver", "first"),
    [
        (by_hook, HEAD),
        (by_hook, b"HTTP/1.1 200 OK\r\nX: "),
        (by_mail, b"220-"),
        (by_mail, b"220 mail\r\n250-"),
        (by_mail, b"220 mail\r\n250 a\r\n250 b\r\n250 c\r\n354 d\r\n250-"),
    ],
)
def test_who_answers_in_single_bytes_holds_up_one_message_of_a_round(
    real_send: Any, deliver: Any, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_send, "WITHIN_S", 0.4)
    before = signal.getsignal(signal.SIGALRM)
    with dripping(first) as port:
        with pytest.raises(real_send.LaterError):
            deliver(real_send, port)
        with pytest.raises(real_send.SkippedError):
            deliver(real_send, port)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.enable_socket
def test_prometheus_in_single_bytes_leaves_gpus_unmeasured(
    real_send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_send, "QUERY_S", 0.4)
    with dripping() as port:
        conf = {**CONF, "prometheus": f"http://127.0.0.1:{port}"}
        assert [real_send.query(conf, "up", 0) for _ in range(5)] == [[]] * 5


def test_the_next_round_asks_again_who_was_slow(
    send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notify.json").write_text(json.dumps(WEBHOOK))
    (tmp_path / "queue/1").write_text(json.dumps(message("lab-chat")))
    send.SLOW.add("webhook lab-chat")
    assert send.main() == 0
    assert [each[1] for each in send.sent] == ["https://hooks.example.org/x"]


@pytest.fixture
def clock(send: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The program's clock, which its sleep moves."""
    now = [0.0]
    monkeypatch.setattr(send.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(send.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    return now


def hook(send: Any, monkeypatch: pytest.MonkeyPatch, clock: list[float], takes: float) -> list[Any]:
    """A webhook that takes so long for each message; the times at which it was asked."""
    asked = list[Any]()

    def request(*_: object) -> tuple[int, bytes]:
        asked.append(clock[0])
        clock[0] += takes
        if takes >= send.WITHIN_S:
            raise TimeoutError
        return 200, b""

    monkeypatch.setattr(send, "request", request)
    return asked


def test_who_is_slow_and_accepts_gets_all_messages(
    send: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    clock: list[float],
) -> None:
    """Each message that was left for the next round was counted as tried, and dropped."""
    asked = hook(send, monkeypatch, clock, 25)
    queued(send, tmp_path, *["lab-chat"] * 20, "ada", "lab-chat,eve")
    accounting = list[Any]()
    monkeypatch.setattr(send, "rows_of", lambda job: accounting.append(job) or [])
    (tmp_path / "notify.json").write_text(json.dumps({**CONF, "accounting": False}))
    assert send.main() == 0
    output = capsys.readouterr().out
    assert "dropped" not in output
    assert "tried again" not in output
    assert len(asked) == 21
    assert output.count("sent") == 23
    mails = [at for at, line in enumerate(output.splitlines()) if "chat" not in line]
    assert max(mails) < 4, "others' messages go out in the first round"


def test_who_never_answers_holds_no_message_for_ever(
    send: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    clock: list[float],
) -> None:
    asked = hook(send, monkeypatch, clock, 40)
    queued(send, tmp_path, *["lab-chat"] * 300)
    assert send.main() == 0
    output = capsys.readouterr().out
    assert "dropped after 5 tries" in output
    assert "was too slow a moment ago: dropped after 4 hours" in output
    assert output.count(": dropped") == 300
    assert max(asked) < send.SKIPPED_S + 1300


def test_each_recipient_has_its_own_tries(send: Any, tmp_path: Path) -> None:
    """One count for all: who was skipped for a while was dropped at the first own try."""
    send.status = 503
    queued(send, tmp_path, "secret,ada")
    send.SLOW.add("the relay")
    path, turns = tmp_path / "queue/0", send.Turns()
    for _ in range(5):
        turns.next_at.clear()
        assert send.handle({**CONF, "accounting": False}, path, turns) is not None
    assert turns.tries == {(path, "secret"): 5}
    assert json.loads(path.read_text())["to"] == "ada"
    send.SLOW.clear()
    turns.next_at.clear()
    assert send.handle({**CONF, "accounting": False}, path, turns) is None
    assert not path.exists()


def test_mail_prog_queues_and_returns(tmp_path: Path) -> None:
    for folder in ("queue", "new"):
        (tmp_path / folder).mkdir()
    environment = {"CORRAL_NOTIFY_SPOOL": str(tmp_path), **FACTS, "SLURM_JOB_NAME": "x" * 9999}

    def called(*argv: str) -> subprocess.CompletedProcess[str]:
        program = str(FOLDER / "notify/mail_prog.py")
        return subprocess.run(
            [sys.executable, program, *argv],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert called("-s", "Slurm Job_id=12 Ended", "ada").returncode == 0
    (path,) = (tmp_path / "queue").iterdir()
    kept = json.loads(path.read_text())
    assert kept["to"] == "ada"
    assert kept["facts"]["SLURM_JOB_USER"] == "ada"
    assert len(kept["facts"]["SLURM_JOB_NAME"]) == 4096
    assert not list((tmp_path / "new").iterdir())
    assert called("ada").returncode == 2
    for number in range(1000):
        (tmp_path / "queue" / f"x{number}").touch()
    assert "dropped" in called("-s", "a", "b").stderr


def test_the_last_task_of_an_array_is_that_task(send: Any) -> None:
    """Its number is the array's too, and accounting then names all tasks."""
    other = (
        rows("FAILED", "1:0")
        .replace("12|12|", "12_1|11|")
        .replace("12.batch|12.batch", "12_1.batch|11.batch")
    )
    send.answer = f"{other}{rows()}"
    facts = {**FACTS, "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}
    _, _, shown = send.composed(CONF, {"subject": "s", "to": "ada", "facts": facts, "at": 0})
    assert (shown["job"], shown["state"], shown["exit_code"]) == ("12_3", "COMPLETED", "0:0")
