#!/usr/bin/python3
# Installed as: /usr/local/sbin/corral-backup on the controller
# (roles/services/backup)
# Started by: corral-backup.timer
# Runs as: root
# pyright: basic, reportOptionalMemberAccess=false
# It runs under the node's own Python, 3.10 or later.
"""One archive of a scheduled backup, encrypted while it is written; older ones are removed.

``/etc/corral/backup.json`` has the folder, how many archives are kept, and the request of
``backup/write.py``, which reads the cluster. Its archive goes through zstd and age by pipes: plain
text is on no disk. The file gets its name when it is complete. ``/var/lib/corral/backup/last`` has
the last one: when it was finished, seconds since 1970, its bytes, and its path.
"""

import base64
import fcntl
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

CONF = Path(os.environ.get("CORRAL_BACKUP_CONF", "/etc/corral/backup.json"))
RECIPIENTS = os.environ.get("CORRAL_BACKUP_RECIPIENTS", "/etc/corral/backup-recipients")
WRITE = os.environ.get("CORRAL_BACKUP_WRITE", "/usr/local/lib/corral/backup-write.py")
LAST = Path(os.environ.get("CORRAL_BACKUP_LAST", "/var/lib/corral/backup/last"))


class FailedError(Exception):
    """Why there is no archive, in one sentence."""


def opened(folder):
    """The folder, which must be root's alone to write in: another could replace archives."""
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise FailedError(f"{folder}: {error.strerror}") from None
    status = os.fstat(number)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise FailedError(f"{folder} is not root's alone: chown root {folder}; chmod 700 {folder}")
    fcntl.flock(number, fcntl.LOCK_EX)
    return number


def copied(lines, sink):
    """Decode what write.py prints into a pipe; whether its last line agrees with the rest."""
    digest, size, end = hashlib.sha256(), 0, b""
    for line in lines:
        if line.startswith(b"@"):
            end = line.strip()
            continue
        data = base64.b64decode(line.rstrip(), validate=True)
        digest.update(data)
        size += len(data)
        sink.write(data)
    return end == f"@ {size} {digest.hexdigest()}".encode()


def archived(request, file):
    """Write one archive into an open file."""
    write = subprocess.Popen([sys.executable, WRITE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    zstd = subprocess.Popen(["zstd", "-q", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    age = subprocess.Popen(["age", "-R", RECIPIENTS], stdin=zstd.stdout, stdout=file)
    zstd.stdout.close()
    complete = False
    try:
        # Where a pipe breaks, the status of the program at its other end is the reason.
        with suppress(BrokenPipeError):
            write.stdin.write(json.dumps(request).encode())
            write.stdin.close()
            complete = copied(write.stdout, zstd.stdin)
    finally:
        statuses = {
            name: ended(process)
            for name, process in (("reading the cluster", write), ("zstd", zstd), ("age", age))
        }
    failed = [f"{name} ended with status {status}" for name, status in statuses.items() if status]
    if failed or not complete:
        raise FailedError("; ".join(failed) or "what was read is not complete")


def ended(process):
    """The exit status of a process that gets no more input; its pipes are closed here."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    return process.wait()


def saved(folder, name, request):
    """Write one archive into the folder under its name; gives its size."""
    partial = f".{name}.partial"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(partial, flags, 0o600, dir_fd=folder), "wb") as file:
        archived(request, file)
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
    return size


def names(folder, pattern):
    """The names in the folder that match, in their order; other files are not this program's."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if re.fullmatch(pattern, entry.name))


def remove(folder, old):
    """Remove files of the folder."""
    for name in old:
        os.unlink(name, dir_fd=folder)


def main():
    """Write an archive, then remove those that are too many."""
    conf = json.loads(CONF.read_text("utf-8"))
    request, place = conf["request"], conf["folder"]
    ours = re.escape(request["cluster"]) + r"-\d{8}-\d{6}\.tar\.zst\.age"
    name = time.strftime(f"{request['cluster']}-%Y%m%d-%H%M%S.tar.zst.age", time.gmtime())
    folder = opened(place)
    # Nobody else writes while this one has the lock: what is left is of one that was killed.
    remove(folder, names(folder, rf"\.{ours}\.partial"))
    try:
        size = saved(folder, name, request)
    finally:
        remove(folder, names(folder, rf"\.{ours}\.partial"))
    LAST.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = LAST.with_name(f"{LAST.name}.new")
    new.write_text(f"{int(time.time())} {size} {place}/{name}\n", "utf-8")
    new.replace(LAST)
    archives = names(folder, ours)
    remove(folder, archives[: -conf["keep"]])
    print(f"{place}/{name}: {size} bytes, {min(len(archives), conf['keep'])} archives kept")


if __name__ == "__main__":
    try:
        main()
    except (FailedError, OSError, ValueError) as error:
        sys.exit(f"no backup was made: {error}")
