#!/usr/bin/python3
# Installed as: /usr/local/sbin/corral-notify on the controller (roles/services/notify)
# Started by: slurmctld, as MailProg
# Runs as: slurm
# pyright: basic
# It runs under the node's own Python, 3.10 or later.
"""Puts what slurmctld wants mailed into a queue, and returns at once: ``notify/send.py`` sends it.

slurmctld runs up to 64 of these and kills one that takes too long (agent.c, MAX_MAIL_THREADS). It
calls ``MailProg -s SUBJECT TO`` with facts of the job in the environment (slurm.conf(5)).
"""

import json
import os
import sys
import time
from pathlib import Path

SPOOL = Path(os.environ.get("CORRAL_NOTIFY_SPOOL", "/var/spool/corral-notify"))
MOST = 1000
"""Messages that wait; what comes on top is dropped, such as those of 100,000 tasks of an array."""
LONGEST = 4096
NAMES = (
    *("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_NAME"),
    *("SLURM_JOB_USER", "SLURM_JOB_STATE", "SLURM_JOB_MAIL_TYPE", "SLURM_JOB_WORK_DIR"),
)


def main(argv, environment):
    """Queue one message."""
    match argv[1:]:
        case ["-s", subject, to]:
            pass
        case _:
            print("usage: corral-notify -s SUBJECT TO", file=sys.stderr)
            return 2
    queue = SPOOL / "queue"
    if sum(1 for _ in queue.iterdir()) >= MOST:
        print(f"{MOST} messages wait to be sent; this one is dropped", file=sys.stderr)
        return 1
    facts = {name: environment.get(name, "")[:LONGEST] for name in NAMES}
    message = {"subject": subject[:LONGEST], "to": to[:LONGEST], "facts": facts}
    name = f"{time.time_ns()}-{os.getpid()}"
    new = SPOOL / "new" / name
    new.write_text(json.dumps({**message, "at": time.time()}), encoding="utf-8")
    new.rename(queue / name)  # complete or not at all
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv, os.environ))
