# Installed as: lib/corral/lines.py in the job's folder (jobs/submit)
# Started by: corral.torchrun, for each rank
# Runs as: the job's user
# pyright: basic, reportAttributeAccessIssue=false
# It runs under the node's own Python.
"""Runs a Python script as it is, with each line it prints in one write.

    python3 lines.py SCRIPT [ARGS...]

The ranks of a torchrun share one output. Unbuffered (``python -u``, which torchrun takes, or
PYTHONUNBUFFERED), ``print("a", "b")`` is four writes, and two ranks that print at once gave
``of of 44  rankrank  23`` (seen). A line in one write is not mixed: up to PIPE_BUF (4096 bytes) a
pipe takes it at once (man 7 pipe).
"""

import runpy
import sys
from pathlib import Path


def main():
    """Run the script; its ending is this program's."""
    for stream in (sys.stdout, sys.stderr):
        # flush() still writes what has no end yet: a progress bar shows.
        stream.reconfigure(line_buffering=True, write_through=False)
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
