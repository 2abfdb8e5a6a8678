#!/usr/bin/python3
# Installed as: /usr/local/lib/corral/notify-send.py on the controller (roles/services/notify)
# Started by: corral-notify.path, while something is in the queue
# Runs as: slurm
# pyright: basic, reportOptionalMemberAccess=false
# It runs under the node's own Python, 3.10 or later.
"""Sends what ``notify/mail_prog.py`` has queued: mail by a relay, or JSON to a webhook.

``/etc/corral/notify.json`` has the relay and the webhooks by name, ``/etc/corral/secrets`` what is
secret of them. Where a user's text goes: the name of a job into a header
without control characters, and into JSON, where it is code in chats' markup and mentions nobody. An
address of a webhook is the administrator's alone, and no redirection is followed.

A message is tried five times within 20 minutes for each of its recipients, then it is dropped for
that one with a line in the journal. One process sends all messages: who answers too slowly is not
asked again in the same round. A message that waits for the next round for that reason was not
tried; it waits at most four hours.
"""

import http.client
import json
import os
import re
import signal
import smtplib
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode, urlsplit

CONF = Path(os.environ.get("CORRAL_NOTIFY_CONF", "/etc/corral/notify.json"))
SPOOL = Path(os.environ.get("CORRAL_NOTIFY_SPOOL", "/var/spool/corral-notify"))
SECRETS = Path(os.environ.get("CORRAL_NOTIFY_SECRETS", "/etc/corral/secrets"))
DELAYS_S = (10, 40, 150, 900)
KNOWN_S = 20
"""So long after a job's end accounting is asked again where it does not have the end yet."""
TIMEOUT_S = 20
"""For each read of an answer."""
WITHIN_S = 40
"""For a complete one: whoever sends single bytes would hold up all other messages."""
MOST_TO = 8
"""Recipients of a message."""
IDLE = 0.05
SETTLED_S = 600
"""As on the page: a GPU that was busy for less than 5 % is idle, of a job of 10 minutes or more."""
STEP_S = 60
LEAST_STEPS = 5
MEASURED_SHARE = 0.9
ENOUGH = 10
"""From so many GiB on no decimals are shown."""
SHOWN = 200
TEXT = 2000
FOR_GOOD = 500
"""A relay's answers from this one on are for good (RFC 5321)."""
MAIL = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?"
)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
FORMAT = (
    *("JobIDRaw", "JobID", "User", "State", "ExitCode", "ElapsedRaw", "TimelimitRaw", "AllocCPUS"),
    *("AllocTRES", "NodeList", "TotalCPU", "TRESUsageInTot", "End"),
)
"""Nothing in it that a user writes: the name and the folder are in the environment."""
MIB_IN_GIB = 1024.0
ROUND_S = 60
"""Seconds that the doctor may take in one round of the queue: all messages wait for it."""
USER_S = 40
"""Of them for one user's jobs, whose output may be a FIFO or on a server that hangs; reading it and
matching take up to 30 s (docs/guide/notify.md)."""
LEAST_S = 1
"""With less time left the doctor is not asked."""
NO_TIME = {"error": "there was no time to look for it, other failed jobs took it"}
QUERY_S = 20
MANY = 50
"""With more messages than these waiting the doctor is not asked: each answer takes seconds."""
MOST_MEASURED = 40
"""Tasks of an array whose GPUs are measured, those with the most GPU hours, as on the page."""
ARRAY_S = 30
"""Seconds that this may take: all messages wait for it."""
MOST_NAMED = 5
"""Tasks that a message names."""
MOST_FINDINGS = 3
LONGEST_ANSWER = 1 << 20
SKIPPED_S = 4 * 3600
"""So long a message waits for those who are too slow: the queue has a limit, for all together."""


class DroppedError(Exception):
    """Why a message is not sent, and will not be."""


class LaterError(Exception):
    """Why a message could not be sent now."""


class UnknownEndError(LaterError):
    """Accounting does not know the job's end yet; it does not count as a try."""


class SkippedError(LaterError):
    """They were too slow in this round and are not asked again; it does not count as a try."""


def plain(text, most=SHOWN):
    """A text of somebody else's as one line: no control characters, no invisible ones."""
    line = "".join(c if c.isprintable() else " " for c in str(text))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def seconds(text):
    """Slurm's ``[DD-]HH:MM:SS[.mmm]`` in seconds."""
    days, dash, rest = text.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part or 0)
    return total + (int(days) * 86400 if dash else 0)


def clock(total):
    """Seconds as ``H:MM:SS``."""
    return f"{int(total) // 3600}:{int(total) // 60 % 60:02}:{int(total) % 60:02}"


def tres(text):
    """``cpu=4,mem=8G`` as texts by name."""
    return dict(part.partition("=")[::2] for part in text.split(",") if "=" in part)


def mib(text):
    """``8192M``, as ``--units=M`` prints it, in MiB; None for none."""
    try:
        return float(text.removesuffix("M"))
    except ValueError:
        return None


def gib(amount):
    """MiB for people."""
    if amount < MIB_IN_GIB:
        return f"{amount:.0f} MiB"
    amount /= MIB_IN_GIB
    return f"{amount:.1f} GiB" if amount < ENOUGH else f"{amount:.0f} GiB"


def plural(count, word):
    """A number with its noun."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def asked(*argv):
    """What a command prints; "" where it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def rows_of(job):
    """Accounting's rows of a job and its steps, by column."""
    text = asked("sacct", "-n", "-P", "--units=M", "-j", job, f"--format={','.join(FORMAT)}")
    rows = (line.split("|") for line in text.splitlines())
    return [dict(zip(FORMAT, row, strict=True)) for row in rows if len(row) == len(FORMAT)]


def ended_job(rows):
    """What a job used of what it was given, by name; its row is the first without a step."""
    row = next(row for row in rows if "." not in row["JobIDRaw"])
    given = tres(row["AllocTRES"])
    gpus = given.get("gres/gpu", "")
    used = [mib(tres(r["TRESUsageInTot"]).get("mem", "")) for r in rows if "." in r["JobIDRaw"]]
    memory = max((amount for amount in used if amount), default=None)
    cpu_s = seconds(row["TotalCPU"] or "0")
    known = {
        "user": row["User"],
        "state": row["State"].split()[0],
        "exit_code": row["ExitCode"],
        "elapsed_s": int(row["ElapsedRaw"] or 0),
        "limit_s": int(row["TimelimitRaw"]) * 60 if row["TimelimitRaw"].isdigit() else None,
        "nodes": row["NodeList"],
        "end": row["End"],
        "cpus": int(row["AllocCPUS"] or 0),
        "cpu_s": cpu_s or None,
        "memory_mib": mib(given.get("mem", "")),
        "memory_used_mib": memory,
        "gpus": int(gpus) if gpus.isdigit() else 0,
        "gpu_share": None,
        "idle_gpus": None,
    }
    return known


SLOW = set()
"""Whoever took longer than ``TIMEOUT_S`` in this round of the queue."""


@contextmanager
def within(whom, limit=None):
    """End what takes longer, by TimeoutError; in the main thread.

    Raises:
        TimeoutError: also at once, where they were too slow in this round already.
    """
    limit = WITHIN_S if limit is None else limit
    if whom in SLOW:
        raise TimeoutError("it was too slow a moment ago")

    def late(*_):
        raise TimeoutError(f"its answer is not complete after {limit:g} s")

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, late)
    # Once more each second: smtplib sends QUIT after an error and waits for that answer too.
    signal.setitimer(signal.ITIMER_REAL, limit, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if time.monotonic() - began >= min(TIMEOUT_S, limit):
            SLOW.add(whom)


def query(conf, text, at):
    """Prometheus' samples; none where it does not answer."""
    try:
        words = urlencode({"query": text, "time": at})
        url = f"{conf['prometheus'].rstrip('/')}/api/v1/query?{words}"
        with within("Prometheus", QUERY_S):
            return json.loads(request("GET", url, None)[1])["data"]["result"]
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return []


def measure_gpus(conf, job, number):
    """Add how busy the job's GPUs were, and how many were idle, where Prometheus knows it."""
    length = job["elapsed_s"]
    if not conf.get("prometheus") or not job["gpus"] or length < LEAST_STEPS * STEP_S:
        return
    nodes = asked("scontrol", "show", "hostnames", job["nodes"]).split()
    names = "|".join(re.escape(node).replace("\\", "\\\\") for node in nodes)
    words = {"nodes": names, "jobs": number, "cluster": conf["cluster"]}
    span = {"span": length + STEP_S, "step": STEP_S}
    at = time.time() if job["end"] in ("", "Unknown") else end_time(job["end"])
    figures = {"busy": 0.0, "measured": 0.0}
    for sample in query(conf, conf["busy"].format(**words, **span), at):
        figures[sample["metric"]["of"]] = float(sample["value"][1])
    if figures["measured"] < MEASURED_SHARE * length * len(nodes):
        return
    job["gpu_share"] = min(1.0, figures["busy"] / (job["gpus"] * length))
    each = query(conf, conf["each"].format(**words, **span), at)
    busy = sum(float(sample["value"][1]) >= IDLE * length for sample in each)
    if length >= SETTLED_S:
        job["idle_gpus"] = max(0, job["gpus"] - busy)


def end_time(text):
    """Accounting's local time in unix seconds."""
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def use_words(job):
    """``3.8 of 4 CPUs (95 %), 1.2 GiB of 8.0 GiB of memory (15 %), 2 GPUs 41 % busy``."""
    words = ["CPU time not measured", "memory not measured"]
    length, cpus = job["elapsed_s"], job["cpus"]
    if job["cpu_s"] is not None and length and cpus:
        share = job["cpu_s"] / (cpus * length)
        words[0] = f"{share * cpus:.1f} of {plural(cpus, 'CPU')} ({share:.0%})"
    if job["memory_used_mib"] is not None and job["memory_mib"]:
        share = job["memory_used_mib"] / job["memory_mib"]
        given = gib(job["memory_mib"])
        words[1] = f"{gib(job['memory_used_mib'])} of {given} of memory ({share:.0%})"
    if job["gpus"]:
        share = job["gpu_share"]
        gpus = "GPUs not measured"
        words.append(gpus if share is None else f"{plural(job['gpus'], 'GPU')} {share:.0%} busy")
    return ", ".join(words).replace("%", " %")


def why_words(conf, job):
    """Why it ended otherwise than it should, and what to change; "" for nothing."""
    status, _, signal = job["exit_code"].partition(":")
    words = {
        "memory": gib(job["memory_mib"]) if job["memory_mib"] else "what it was given",
        "limit": clock(job["limit_s"]) if job["limit_s"] else "unlimited",
        "nodes": job["nodes"],
        "exit": f"signal {signal}" if signal not in ("", "0") else f"exit status {status}",
    }
    return conf["ends"].get(job["state"], "").format(**words)


SPENT = {}
"""Seconds that the doctor took in this round, by the job's user."""


def doctor_of(conf, number, user):
    """Why a job failed, as its page has it; ``error`` where that cannot be found out now."""
    if not conf.get("doctor"):
        return {"error": "the page does not run on the controller (services: {ui: true})"}
    if sum(1 for _ in (SPOOL / "queue").iterdir()) > MANY:
        return {"error": f"more than {MANY} messages wait"}
    left = min(ROUND_S - sum(SPENT.values()), USER_S - SPENT.get(user, 0))
    if left < LEAST_S:
        return NO_TIME
    began = time.monotonic()
    try:
        reply = json.loads(doctor_answer(conf["doctor"], number, user, began + left))
        known = isinstance(reply, dict) and reply.keys() & {"error", "findings"}
        return reply if known else {"error": "it gave no answer"}
    except (OSError, ValueError) as error:
        if isinstance(error, TimeoutError) and left < USER_S:
            return NO_TIME
        return {"error": f"it does not answer: {type(error).__name__}"}
    finally:
        SPENT[user] = SPENT.get(user, 0) + time.monotonic() - began


def doctor_answer(path, number, user, ends):
    """What the doctor's socket answers until then.

    Raises:
        OSError: it does not answer; TimeoutError, in time.
    """
    answer = b""
    with socket.socket(socket.AF_UNIX) as doctor:
        doctor.settimeout(ends - time.monotonic())
        doctor.connect(path)
        doctor.sendall(json.dumps({"job": int(number), "user": user}).encode() + b"\n")
        while (part := doctor.recv(1 << 16)) and len(answer) < LONGEST_ANSWER:
            answer += part
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError
            doctor.settimeout(left)
    return answer


def asked_words(job, about):
    """What was asked for against what was used, of what the end is about; "" for nothing."""
    if about == "memory":
        used = job["memory_used_mib"]
        given = gib(job["memory_mib"]) if job["memory_mib"] else "no memory"
        measured = "its use was not measured" if used is None else f"{gib(used)} used"
        return f"Memory: {given} asked for, {measured}"
    if about == "time":
        limit = clock(job["limit_s"]) if job["limit_s"] else "no limit"
        return f"Time: {limit} asked for, ran {clock(job['elapsed_s'])}"
    return f"Nodes: {job['nodes']}" if about == "nodes" else ""


def output_words(end):
    """How many lines of its output report an error; "" where it was not read."""
    number = end["lines"]
    if end["no_output"]:
        return ""
    if not number:
        return " No line of its output reports an error."
    verb = "report" if number > 1 else "reports"
    return f" {plural(number, 'line')} of its output {verb} an error; see its page."


def cause_lines(conf, job, end):
    """Why it failed, in lines: by the doctor, else by Slurm's record and what is unknown."""
    by_record = [why_words(conf, job)]
    if "error" in end:
        return [*by_record, f"The cause is unknown: {end['error']}."]
    lines = []
    for finding in end["findings"][:MOST_FINDINGS]:
        detail = f": {finding['detail']}" if finding["detail"] else ""
        lines.append(f"Why: {finding['title']}{detail}")
        lines += [
            f"{word}: {finding[word.lower()]}" for word in ("Cause", "Fix") if finding[word.lower()]
        ]
    if not lines:
        lines = [*by_record, f"The doctor knows no cause.{output_words(end)}"]
    if end["no_output"]:
        lines.append(f"Without its output: {end['no_output']}")
    return [*lines, asked_words(job, end["about"])]


def causes(end):
    """The first causes for a program, with what the message has of each; None: unknown."""
    if "error" in end:
        return None
    fields = ("title", "detail", "cause", "fix")
    first = end["findings"][:MOST_FINDINGS]
    return [{name: plain(finding[name], TEXT) for name in fields} for finding in first]


def idle_words(job):
    """Which of its GPUs did nothing; "" for none, or where that is unknown."""
    idle = job["idle_gpus"]
    if not idle:
        return ""
    return f"{idle} of {plural(job['gpus'], 'GPU')} idle: busy less than 5 % of the time."


ANSWERS = {}
"""The doctor's, by the job's number and end: a message has many recipients and tries."""


def ended_so(conf, job, number):
    """The doctor's answer about a job's end; it is asked once."""
    key = number, job["state"], job["end"]
    if key not in ANSWERS:
        if len(ANSWERS) >= MANY:
            ANSWERS.clear()
        answer = doctor_of(conf, number, job["user"])
        if answer is NO_TIME:  # a later try may have some
            return answer
        ANSWERS[key] = answer
    return ANSWERS[key]


def array_tasks(rows):
    """Accounting's rows by the task that has run, by its number; without tasks that never ran."""
    tasks = {}
    for row in rows:
        tasks.setdefault(row["JobIDRaw"].split(".")[0], []).append(row)
    return {
        number: each
        for number, each in tasks.items()
        if any("." not in row["JobIDRaw"] and "[" not in row["JobID"] for row in each)
    }


def array_use(conf, tasks):
    """What an array's tasks used of what they were given, all together.

    Of memory it is the task that came nearest to what it asked for. GPUs are those of the tasks
    that were measured: ``gpu_share`` and ``idle_gpus`` are None where none was.
    """
    jobs = {number: ended_job(rows) for number, rows in tasks.items()}
    states = [job["state"] for job in jobs.values()]
    ends = time.monotonic() + ARRAY_S
    by_gpu_hours = sorted(jobs, key=lambda n: -jobs[n]["gpus"] * jobs[n]["elapsed_s"])
    for number in by_gpu_hours[:MOST_MEASURED]:
        if time.monotonic() < ends:
            measure_gpus(conf, jobs[number], number)
    timed = [job for job in jobs.values() if job["cpu_s"] is not None]
    of_memory = [j for j in jobs.values() if j["memory_used_mib"] is not None and j["memory_mib"]]
    fullest = max(of_memory, key=lambda j: j["memory_used_mib"] / j["memory_mib"], default={})
    measured = [job for job in jobs.values() if job["gpu_share"] is not None]
    idle = [job for job in jobs.values() if job["idle_gpus"] is not None]
    gpu_s = sum(job["gpus"] * job["elapsed_s"] for job in measured)
    busy_s = sum(job["gpu_share"] * job["gpus"] * job["elapsed_s"] for job in measured)
    return {
        "tasks": {state: states.count(state) for state in sorted(set(states))},
        "cpu_s": sum(job["cpu_s"] for job in timed) if timed else None,
        "cpu_given_s": sum(job["cpus"] * job["elapsed_s"] for job in timed) or None,
        "memory_mib": fullest.get("memory_mib"),
        "memory_used_mib": fullest.get("memory_used_mib"),
        "gpus": sum(job["gpus"] for job in jobs.values()),
        "gpus_measured": sum(job["gpus"] for job in measured),
        "gpu_share": busy_s / gpu_s if gpu_s else None,
        "idle_gpus": sum(job["idle_gpus"] for job in idle) if idle else None,
        "idle_tasks": [r[0]["JobID"] for number, r in tasks.items() if jobs[number]["idle_gpus"]],
    }


USES = {}
"""What arrays used, by number and message: a message has many recipients and tries."""


def array_used_so(conf, rows, message, number):
    """What an array used; it is measured once."""
    key = number, message["at"]
    if key not in USES:
        if len(USES) >= MANY:
            USES.clear()
        USES[key] = array_use(conf, array_tasks(rows))
    return USES[key]


def array_lines(use):
    """An array's tasks by state, what all of them used, and which of their GPUs did nothing."""
    counts = ", ".join(f"{count} {state}" for state, count in use["tasks"].items())
    words = ["CPU time not measured", "memory not measured"]
    if use["cpu_s"] is not None and use["cpu_given_s"]:
        used, given = use["cpu_s"] / 3600, use["cpu_given_s"] / 3600
        words[0] = f"{used:.2f} of {given:.2f} CPU hours ({used / given:.0%})"
    if use["memory_mib"]:
        share = use["memory_used_mib"] / use["memory_mib"]
        given = gib(use["memory_mib"])
        words[1] = f"at most {gib(use['memory_used_mib'])} of {given} of memory ({share:.0%})"
    if use["gpus"]:
        gpus, measured = plural(use["gpus"], "GPU"), use["gpus_measured"]
        busy = f"{measured} of {gpus} measured, {use['gpu_share'] or 0:.0%} busy"
        words.append(busy if measured else "GPUs not measured")
    lines = [f"tasks: {counts}", f"used: {', '.join(words)}".replace("%", " %")]
    if use["idle_gpus"]:
        names = use["idle_tasks"]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        which = f"{', '.join(names[:MOST_NAMED])}{more}"
        gpus = plural(use["gpus"], "GPU")
        lines.append(f"{use['idle_gpus']} of {gpus} idle: busy less than 5 % of the time ({which})")
    return lines


def composed(conf, message):
    """The subject, the lines of the body, and the facts of a message.

    Raises:
        UnknownEndError: accounting does not know the job's end yet.
        DroppedError: it names no job.
    """
    facts, subject = message["facts"], message["subject"]
    array, task = facts["SLURM_ARRAY_JOB_ID"], facts["SLURM_ARRAY_TASK_ID"]
    every = subject.startswith("Slurm Array Summary")
    number = facts["SLURM_JOB_ID"] or (re.findall(r"Job_id=([0-9]+)", subject) or [""])[0]
    if not re.fullmatch(r"[0-9]+", number):
        raise DroppedError("it names no job")
    label = f"{array}_*" if every and array else f"{array}_{task}" if array and task else number
    about = facts["SLURM_JOB_MAIL_TYPE"] or "changed"
    shown = {"cluster": conf["cluster"], "job": label, "name": plain(facts["SLURM_JOB_NAME"])}
    shown |= {"event": plain(about), "user": facts["SLURM_JOB_USER"]}
    shown["state"] = facts["SLURM_JOB_STATE"]
    lines, job = [], None
    if conf["accounting"] and about in ("Ended", "Failed"):
        rows = rows_of(array if every and array else number)
        if not every:  # an array's number is that of its last task too, and names them all
            rows = [row for row in rows if row["JobIDRaw"].split(".")[0] == number]
        open_ = not rows or any(row["State"] in conf["going_on"] for row in rows)
        if open_ and time.time() - message["at"] < KNOWN_S:
            raise UnknownEndError("accounting does not know the end yet")
        if every:
            shown |= array_used_so(conf, rows, message, number)
            lines += array_lines(shown) if shown["tasks"] else []
        elif rows:
            job = ended_job(rows)
            measure_gpus(conf, job, number)
            shown |= job
            limit = clock(job["limit_s"]) if job["limit_s"] else "unlimited"
            lines += [f"run time: {clock(job['elapsed_s'])} of {limit}", f"nodes: {job['nodes']}"]
            lines += [f"used: {use_words(job)}"]
            if job["state"] in conf["ends"]:
                end = ended_so(conf, job, number)
                shown["why"] = causes(end)
                lines += filter(None, cause_lines(conf, job, end))
            lines += filter(None, (idle_words(job),))
    lines.append(f"folder: {plain(facts['SLURM_JOB_WORK_DIR'])}")
    if conf.get("page"):
        lines.append(f"page: {conf['page']}/#job/{number}")
    head = f"{conf['cluster']}: job {label} {shown['name']}: {shown['state'] if job else about}"
    return head, lines, shown


def secret(name):
    """A secret of the administrator's.

    Raises:
        LaterError: it cannot be read.
    """
    try:
        return (SECRETS / name).read_text(encoding="utf-8").partition("\n")[0]
    except OSError as error:
        raise LaterError(f"the secret {name} cannot be read: {error.strerror}") from error


def connected(relay, context):
    """A connection to the relay."""
    place = relay["host"], relay["port"]
    if relay["tls"] == "on":
        return smtplib.SMTP_SSL(*place, timeout=TIMEOUT_S, context=context)
    return smtplib.SMTP(*place, timeout=TIMEOUT_S)


def send_mail(conf, to, head, lines):
    """By the relay.

    Raises:
        LaterError: it does not answer or refuses for now.
        DroppedError: it refuses for good.
    """
    relay = conf["relay"]
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = relay["sender"], to, plain(head)
    mail["Date"], mail["Message-ID"] = (
        formatdate(),
        make_msgid(domain=relay["sender"].partition("@")[2]),
    )
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join((plain(head), "", *(plain(line, TEXT) for line in lines), "")))
    context = ssl.create_default_context()
    try:
        with within("the relay"), connected(relay, context) as smtp:
            if relay["tls"] == "starttls":
                smtp.starttls(context=context)
            if relay["user"]:
                smtp.login(relay["user"], secret("relay"))
            smtp.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        code = min((code for code, _ in error.recipients.values()), default=FOR_GOOD)
        kind = LaterError if code < FOR_GOOD else DroppedError
        raise kind(f"the relay refuses it: {code}") from error
    except smtplib.SMTPAuthenticationError as error:
        raise LaterError(f"the relay refuses the password: {error.smtp_code}") from error
    except smtplib.SMTPResponseException as error:
        kind = LaterError if error.smtp_code < FOR_GOOD else DroppedError
        raise kind(f"the relay refuses it: {error.smtp_code}") from error
    except (OSError, smtplib.SMTPException) as error:
        raise LaterError(f"the relay: {plain(error)}") from error


def request(method, url, body):
    """Status and content of an answer; of a redirection it is that answer: none is followed."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Content-Type": "application/json", "User-Agent": "corral-notify"}
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read(1 << 20)
    finally:
        connection.close()


def marked(text):
    """A text for chats: their markup does nothing in it, and nobody is mentioned."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("`", "'").replace("@", "@\N{ZERO WIDTH SPACE}")


def send_hook(conf, name, head, lines, facts):
    """To a webhook of the administrator's.

    Raises:
        LaterError: it does not answer or asks to try later.
        DroppedError: it refuses.
    """
    url = conf["webhooks"][name] or secret(f"webhook-{name}")
    text = "\n".join((f"`{marked(plain(head))}`", *(marked(plain(line, TEXT)) for line in lines)))
    body = json.dumps({"text": text, **facts}).encode()
    try:
        with within(f"webhook {name}"):
            status, _ = request("POST", url, body)
    except (OSError, ValueError, http.client.HTTPException) as error:
        # The address may be the secret: of the error its kind alone is shown.
        raise LaterError(f"webhook {name}: {type(error).__name__}") from error
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise LaterError(f"webhook {name} answers {status}")
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        raise DroppedError(f"webhook {name} answers {status}")


def deliver(conf, message, to):
    """One message to one of its recipients: the name of a webhook, an address, or a login.

    Raises:
        SkippedError: they were too slow in this round; accounting and the doctor are not asked.
    """
    if (whom := f"webhook {to}" if to in conf["webhooks"] else "the relay") in SLOW:
        raise SkippedError(f"{whom} was too slow a moment ago")
    head, lines, facts = composed(conf, message)
    if to in conf["webhooks"]:
        send_hook(conf, to, head, lines, facts)
        return
    if not conf["relay"]:
        raise DroppedError("no webhook has that name, and the cluster has no mail relay")
    if NAME.fullmatch(to) and conf["relay"]["domain"]:
        to = f"{to}@{conf['relay']['domain']}"
    if not MAIL.fullmatch(to):
        raise DroppedError("it is neither a webhook nor an address of mail")
    domains = conf["relay"]["domains"]
    if domains and to.rpartition("@")[2].lower() not in domains:
        raise DroppedError("mail goes to other domains alone (services.notify.domains)")
    send_mail(conf, to, head, lines)


class Turns:
    """When a message is sent again, and how often that was tried: of each recipient alone."""

    def __init__(self):
        self.next_at, self.tries, self.skipped = {}, {}, {}

    def ready(self, key):
        """Whether it is the turn of a recipient: the path of the message, and who."""
        return self.next_at.get(key, 0) <= time.monotonic()

    def again(self, key, problem):
        """Whether it is tried again; False: it is dropped."""
        wait = self.wait_of(key, problem)
        if wait is not None:
            self.next_at[key] = time.monotonic() + wait
        return wait is not None

    def wait_of(self, key, problem):
        """Seconds until it is tried again; None: it is dropped."""
        if isinstance(problem, UnknownEndError):
            return 1
        if isinstance(problem, SkippedError):
            now = time.monotonic()
            if now - self.skipped.setdefault(key, now) < SKIPPED_S:
                return 1
            print(f"{problem}: dropped after {SKIPPED_S / 3600:g} hours", flush=True)
            return None
        number = self.tries[key] = self.tries.get(key, 0) + 1
        if number > len(DELAYS_S):
            print(f"{problem}: dropped after {number} tries", flush=True)
            return None
        print(f"{problem}: tried again in {DELAYS_S[number - 1]} s", flush=True)
        return DELAYS_S[number - 1]


def handle(conf, path, turns):
    """Send one message of the queue to those whose turn it is; those left are written back.

    Returns:
        when the first of those left is due; None: the message is done with.
    """
    try:
        message = json.loads(path.read_text(encoding="utf-8"))
        recipients = [to.strip() for to in message["to"].split(",") if to.strip()][:MOST_TO]
    except (OSError, ValueError, KeyError, AttributeError):
        path.unlink(missing_ok=True)
        return None
    left = []
    for to in recipients:
        if not turns.ready((path, to)):
            left.append(to)
            continue
        line = f"job {plain(message['facts'].get('SLURM_JOB_ID', '?'), 20)} to {plain(to, 80)}"
        try:
            deliver(conf, message, to)
            print(f"{line}: sent", flush=True)
        except LaterError as error:
            if turns.again((path, to), type(error)(f"{line}: {error}")):
                left.append(to)
        except DroppedError as error:
            print(f"{line}: dropped: {error}", flush=True)
        except Exception as error:  # one message never holds up the others
            print(f"{line}: dropped: {type(error).__name__}", flush=True)
    if not left:
        path.unlink(missing_ok=True)
        return None
    if left != recipients:
        new = SPOOL / "new" / path.name
        new.write_text(json.dumps({**message, "to": ",".join(left)}), encoding="utf-8")
        new.rename(path)
    return min(turns.next_at[path, to] for to in left)


def main():
    """Send until the queue is empty."""
    conf = json.loads(CONF.read_text(encoding="utf-8"))
    next_turn, turns = {}, Turns()
    while paths := sorted((SPOOL / "queue").iterdir()):
        SPENT.clear()
        SLOW.clear()
        for path in paths:
            if next_turn.get(path, 0) <= time.monotonic():
                next_turn[path] = handle(conf, path, turns) or 0
        time.sleep(0.5)
    return 0


if __name__ == "__main__":
    sys.exit(main())
