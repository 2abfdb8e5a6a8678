#!/usr/bin/python3
# Installed as: /usr/local/sbin/corral-backup on the controller; else nowhere: read for its metrics
# (roles/services/backup, web/reference/metrics)
# Started by: corral-backup.timer, by corral-backup-due.service
# Runs as: root
# pyright: basic, reportOptionalMemberAccess=false
# It runs under the node's own Python, 3.10 or later.
"""One archive of a scheduled backup, encrypted while it is written; older ones are removed.

``/etc/corral/backup.json`` has the folder, how many archives are kept, and the request of
``backup/write.py``, which reads the cluster. Its archive goes through zstd and age by pipes: plain
text is on no disk. The file gets its name when it is complete. ``/var/lib/corral/backup/last`` has
the last one: when it was finished, seconds since 1970, its bytes, and its path. Where the cluster
has metrics, they have the same after each run, also after one that failed.

``--due`` starts the service of it only where one is due, so that a boot makes none before. It
writes the metrics too: they are there before the first run has ended.

Neither the clock nor the names decide alone what is removed: the archive just made stays, and those
made soon after another go first, so that a controller that restarts again and again does not
remove the archives of the weeks before.
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
from itertools import count, pairwise
from pathlib import Path

CONF = Path(os.environ.get("CORRAL_BACKUP_CONF", "/etc/corral/backup.json"))
RECIPIENTS = os.environ.get("CORRAL_BACKUP_RECIPIENTS", "/etc/corral/backup-recipients")
WRITE = os.environ.get("CORRAL_BACKUP_WRITE", "/usr/local/lib/corral/backup-write.py")
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SERVICE = "corral-backup.service"
SKEW_S = 300
"""By how much the clock of a file server may be ahead."""
LAST = Path(os.environ.get("CORRAL_BACKUP_LAST", "/var/lib/corral/backup/last"))


class FailedError(Exception):
    """Why no archive was made, in one sentence."""


def opened(folder):
    """The folder, locked; nobody but root can write in it, or replace it or one above it."""
    number = os.open("/", FOLDER)
    alone(number, "/", stat.S_ISVTX)
    path = ""
    parts = Path(folder).parts[1:]
    for left, part in enumerate(parts, 1 - len(parts)):
        path = f"{path}/{part}"
        above = number
        try:
            number = os.open(part, FOLDER, dir_fd=above)
        except OSError as error:
            raise FailedError(f"{path}: {error.strerror}; no part may be a link") from None
        finally:
            os.close(above)
        alone(number, path, stat.S_ISVTX if left else 0)
    fcntl.flock(number, fcntl.LOCK_EX)
    return number


def alone(number, path, sticky):
    """Fail where others could replace what is in a folder; the sticky bit prevents that."""
    status = os.fstat(number)
    if status.st_uid not in {0, os.geteuid()}:
        raise FailedError(f"{path} belongs to uid {status.st_uid}, who can replace what is in it")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & sticky:
        raise FailedError(f"{path} is not root's alone: others can replace what is in it")


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


def unused(folder, cluster, pattern):
    """A name for an archive made now. After a clock was set back, its name may be taken."""
    taken = set(names(folder, pattern))
    forms = (
        time.strftime(f"{cluster}-%Y%m%d-%H%M%S.tar.zst.age", time.gmtime(second))
        for second in count(int(time.time()))
    )
    return next(name for name in forms if name not in taken)


def archives(folder, pattern):
    """When each archive was written, and its name, the oldest first; no file of somebody else."""
    rows = []
    for name in names(folder, pattern):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        ours = (stat.S_IFREG | 0o600, os.geteuid(), 1)
        if (status.st_mode, status.st_uid, status.st_nlink) == ours:
            rows.append((status.st_mtime, name))
    return sorted(rows)


def too_many(rows, made, keep, every):
    """Which archives go: those made soon after another, the newest first, then the oldest.

    Args:
        rows: all archives, as ``archives`` has them.
        made: the name of the one just made, which stays.
        keep: how many are kept.
        every: seconds between two, as declared.
    """
    others = [name for _, name in rows if name != made]
    soon = {
        name
        for (before, _), (written, name) in pairwise(rows)
        if name != made and written - before < every / 2
    }
    order = [name for name in reversed(others) if name in soon]
    order += [name for name in others if name not in soon]
    return order[: max(0, len(rows) - keep)]


def last():
    """When the last good archive was finished, its bytes and path; zeros where there is none.

    A damaged file counts as none: the next run writes it again.
    """
    try:
        finished, size, path = LAST.read_text("utf-8").split(maxsplit=2)
        return int(finished), int(size), path.rstrip("\n")
    except (OSError, ValueError):
        return 0, 0, ""


def needed(conf):
    """Whether the last good archive is gone, or as old as declared.

    It does not wait for the next question where less than half the time between two is left. One
    that was finished in the future, by a clock that was wrong then or is now, counts as none.
    """
    finished, _, path = last()
    age = time.time() - finished
    late = age < 0 or age >= conf["every"] - conf["asked"] / 2
    return late or not os.path.lexists(path)


def metrics(finished, size, every):
    """The last good archive as Prometheus' text."""
    rows = (
        (
            "corral_backup_last_success_timestamp_seconds",
            "When the scheduled backup last made an archive; 0 where it never did.",
            finished,
        ),
        ("corral_backup_bytes", "Size of that archive.", size),
        ("corral_backup_interval_seconds", "How often one is to be made (backup.every).", every),
    )
    return "".join(
        f"# HELP {name} {about}\n# TYPE {name} gauge\n{name} {value}\n"
        for name, about, value in rows
    )


def measured(conf):
    """Write the metrics for the node exporter, which reads them as another user."""
    path = conf["metrics"]
    if not path:
        return
    new = Path(f"{path}.new")
    try:
        new.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
            finished, size, _ = last()
            file.write(metrics(finished, size, conf["every"]))
            os.fchmod(file.fileno(), 0o644)
        new.replace(path)
    except OSError as error:
        print(f"no metrics of the backup were written: {error}", file=sys.stderr)


def main():
    """Write an archive, and how old the last good one is; or start that where it is due."""
    conf = json.loads(CONF.read_text("utf-8"))
    if sys.argv[1:] == ["--due"]:
        measured(conf)
        if needed(conf):
            subprocess.run(["systemctl", "start", "--no-block", SERVICE], check=True)
        return
    try:
        made(conf)
    finally:
        measured(conf)


def made(conf):
    """Write an archive, then remove those that are too many."""
    request, place = conf["request"], conf["folder"]
    ours = re.escape(request["cluster"]) + r"-\d{8}-\d{6}\.tar\.zst\.age"
    folder = opened(place)
    name = unused(folder, request["cluster"], ours)
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
    rows = archives(folder, ours)
    future = [name for written, name in rows if written > time.time() + SKEW_S]
    if future:
        print(
            f"{len(future)} archives in {place} are newer than now, such as {future[-1]}: check "
            "the clock; they count as the newest until you remove them",
            file=sys.stderr,
        )
    old = too_many(rows, name, conf["keep"], conf["every"])
    remove(folder, old)
    print(f"{place}/{name}: {size} bytes, {len(rows) - len(old)} archives kept")


if __name__ == "__main__":
    try:
        main()
    except (FailedError, OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"no backup was made: {error}")
