# Installed as: lib/corral/function.py in the job's folder (jobs/function/call)
# Started by: each rank of a job of Cluster.submit or Cluster.map
# Runs as: the job's user
# pyright: basic
# It runs under the node's own Python.
"""Calls the function that was sent with a job; its result and its exception are files.

    python3 -m corral.function

``returned`` is the result of rank 0, ``raised`` the first exception of any rank, in the folder of
the job or of its part: a line of JSON, then a pickle. No other Python than the sender's reads its
bytecode, so this file has to be one that every Python 3 reads.
"""

import contextlib
import json
import os
import pickle
import sys
import traceback
from pathlib import Path

JOB = Path(__file__).resolve().parents[2]
LONGEST = 100000
"""Characters of a traceback and of a message."""
PROTOCOL = 5
"""Of pickle; since Python 3.8."""


def main():
    """Call it; returns the exit status."""
    about = json.loads((JOB / "call.json").read_text())
    rank = int(os.environ.get("RANK", "0"))
    folder = Path(os.environ["CORRAL_JOB_FOLDER"])
    node = "{}.{}".format(*sys.version_info)
    if about["bytecode"] and about["python"] != node:
        return refused(folder, rank, {"kind": "python", "python": node})
    dumps = dumps_of(about["python"] == node)
    sys.path[1:1] = [os.path.normpath(str(folder / "code" / path)) for path in about["paths"]]
    try:
        function, arguments = read_call(about["sizes"])
        result = function(*arguments)
        data = b"" if rank else dumps(result, protocol=PROTOCOL)
    except Exception as error:
        print_traceback(error)
        return refused(folder, rank, described(error, rank), body_of(error, dumps))
    if len(data) > about["limit"]:
        return refused(folder, rank, {"kind": "size", "size": len(data)})
    if not rank:
        path = folder / "returned"
        written(path, rank, {"kind": "result"}, data).replace(path)
    return 0


def dumps_of(same):
    """What pickles a result: code of this Python is of use only to the same one."""
    if not same:
        return pickle.dumps
    import cloudpickle  # noqa: PLC0415  # sent with the job; its code is for this Python alone

    return cloudpickle.dumps


def read_call(sizes):
    """The function, and the arguments of this part."""
    part = int(os.environ.get("SLURM_ARRAY_TASK_ID", "0")) + 1
    with (JOB / "call.pkl").open("rb") as stream:
        function = pickle.loads(stream.read(sizes[0]))  # noqa: S301  # its user sent it
        stream.seek(sum(sizes[:part]))
        return function, pickle.loads(stream.read(sizes[part]))  # noqa: S301


def print_traceback(error):
    """Write the traceback into the rank's log."""
    traceback.print_exception(type(error), error, inside(error))


def inside(error):
    """The traceback without this program's own line."""
    return error.__traceback__.tb_next or error.__traceback__


def described(error, rank):
    """An exception in words, for a reader without its class."""
    text = "".join(traceback.format_exception(type(error), error, inside(error)))
    return {
        "kind": "exception",
        "type": type(error).__name__,
        "message": str(error)[:LONGEST],
        "traceback": text[-LONGEST:],
        "rank": rank,
    }


def body_of(error, dumps):
    """An exception as a pickle; empty where it cannot be one."""
    try:
        data = dumps(error, protocol=PROTOCOL)
    except Exception:
        return b""
    return data if len(data) <= LONGEST else b""


def refused(folder, rank, about, data=b""):
    """Write why the job has no result, unless another rank did; returns the exit status."""
    if about["kind"] != "exception":
        print("corral: no result: " + json.dumps(about), file=sys.stderr)
    path = folder / "raised"
    new = written(path, rank, about, data)
    with contextlib.suppress(FileExistsError):  # another rank was first
        os.link(str(new), str(path))
    new.unlink()
    return 1


def written(path, rank, about, data):
    """A new file with this content, which only its user may write."""
    new = path.with_name(f"{path.name}.{rank}")
    with os.fdopen(os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(json.dumps(about).encode() + b"\n" + data)
    return new


if __name__ == "__main__":
    sys.exit(main())
