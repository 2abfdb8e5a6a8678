"""Prints the message about the end of a job, as the controller's program composes it now."""

from __future__ import annotations

import importlib.util
import sys

origin = importlib.util.spec_from_file_location("send", "/usr/local/lib/corral/notify-send.py")
send = importlib.util.module_from_spec(origin)  # pyright: ignore[reportArgumentType]
origin.loader.exec_module(send)  # pyright: ignore[reportOptionalMemberAccess]
facts = dict.fromkeys(("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_NAME"), "")
facts |= dict.fromkeys(("SLURM_JOB_USER", "SLURM_JOB_STATE", "SLURM_JOB_WORK_DIR"), "")
facts |= {"SLURM_JOB_ID": sys.argv[1], "SLURM_JOB_MAIL_TYPE": "Ended"}
conf = send.json.loads(send.CONF.read_text())
print("\n".join(send.composed(conf, {"subject": "", "facts": facts, "at": 0})[1]))
