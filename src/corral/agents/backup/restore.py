# Installed as: nowhere: an argument of python3 on the controller
# Started by: corral (api/operations/restore)
# Runs as: root
# pyright: basic, reportArgumentType=false
# It runs under the node's own Python, 3.10 or later.
"""Puts an archive of ``corral backup`` in place on a controller, one step a call.

    python3 restore.py STEP

``stage OFFSET`` appends standard input to the archive; ``survey`` prints what there is. The other
steps read a request in JSON from standard input. Each may be called again after it was killed at
any point: a step begins from the archive, never from what it left.
"""

import errno
import grp
import hashlib
import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

STAGING = Path("/var/lib/corral/restore")
ARCHIVE = STAGING / "archive.tar"
STARTED = STAGING / "started"
"""Digest of the archive that is in place: Slurm runs with it, nodes may still have other keys."""
CONF = Path("/etc/slurm/slurm.conf")
PIECE = 1024 * 1024
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ANSWER_S = 180


class FailedError(Exception):
    """What could not be done, in one sentence."""


def ran(*command, **options):
    """A command that must succeed; gives what it printed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    if done.returncode:
        raise FailedError(f"{' '.join(command[:3])}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def stage(offset):
    """Append standard input to the archive, for root alone."""
    STAGING.mkdir(mode=0o700, parents=True, exist_ok=True)
    STAGING.chmod(0o700)
    if not offset:
        STARTED.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (0 if offset else os.O_TRUNC)
    with os.fdopen(os.open(ARCHIVE, flags, 0o600), "wb") as file:
        if file.seek(0, os.SEEK_END) != offset:
            raise FailedError(
                f"{ARCHIVE} has {file.tell()} bytes, not {offset}: another restore runs"
            )
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        os.fsync(file.fileno())


def auth():
    """What nodes know each other by: munge or slurm."""
    text = CONF.read_text("utf-8", "replace")
    match = re.search(r"^AuthType\s*=\s*auth/(\w+)", text, re.MULTILINE | re.IGNORECASE)
    return match[1] if match else "munge"


def survey():
    """Version of Slurm, its authentication, jobs, room, and which archive is in place already."""
    asked = subprocess.run(("systemctl", "-q", "is-active", "slurmctld"), check=False)
    squeue = ("timeout", "30", "squeue", "-h", "-a", "-o", "%A %u %T")
    try:
        jobs = [] if asked.returncode else ran(*squeue).splitlines()
    except FailedError:
        if not STAGING.exists():
            raise
        jobs = []  # an interrupted restore: this machine's slurmd may sign with another key
    free = shutil.disk_usage("/var/lib").free
    slurm = ran("slurmctld", "-V").strip()
    started = STARTED.read_text() if STARTED.is_file() else ""
    survey = {"slurm": slurm, "auth": auth(), "jobs": jobs, "free": free, "started": started}
    print(json.dumps(survey))


def compared(request):
    """Check that the archive is complete."""
    digest = hashlib.sha256()
    with ARCHIVE.open("rb") as file:
        while data := file.read(PIECE):
            digest.update(data)
    if digest.hexdigest() != request["sha256"]:
        raise FailedError(f"{ARCHIVE} is not the archive that was sent")


@contextmanager
def entries(prefix):
    """The archive's members whose names begin so, each with its open file, in their order."""
    with tarfile.open(ARCHIVE, mode="r:") as tar:
        yield ((e, tar.extractfile(e)) for e in tar if e.isreg() and e.name.startswith(prefix))


def fed(command, prefix):
    """Send members to a command's standard input, one after the other."""
    with entries(prefix) as members, subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        for _, file in members:
            shutil.copyfileobj(file, process.stdin, PIECE)
    if process.returncode:
        raise FailedError(f"{command[0]} refused the dump: status {process.returncode}")


def stopped(request):
    """Stop what writes to the database and to the state."""
    ran("systemctl", "stop", "slurmctld.service")
    if request["database"]:
        ran("systemctl", "stop", "slurmdbd.service")
    if request["mlflow"]:
        ran("systemctl", "stop", "corral-mlflow.service")


def database(request):
    """Load the accounting database and count its rows."""
    name = request["database"]
    ran("mariadb", "-e", f"DROP DATABASE IF EXISTS `{name}`; CREATE DATABASE `{name}`")
    fed(("mariadb", name), "accounting/")
    for table, (least, most) in request["counts"].items():
        sql = f"SELECT COUNT(*) FROM `{name}`.`{table}`"  # noqa: S608  # checked by the sender
        rows = int(ran("mariadb", "-N", "-e", sql))
        if not least <= rows <= most:
            raise FailedError(f"{table} has {rows} rows, and {least} to {most} when it was saved")


def number(lookup, name, kind):
    """A user's or group's number on this machine."""
    try:
        return lookup(name)[2]
    except KeyError:
        if name.isdecimal():
            return int(name)
        raise FailedError(f"there is no {kind} {name} on this machine") from None


def placed(entry, file, folder, name):
    """Write one file into an open folder with its owner and mode; complete or not at all."""
    new = f"{name}.corral-restore"
    with suppress(FileNotFoundError):
        os.unlink(new, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(new, flags, 0o600, dir_fd=folder), "wb") as to:
        shutil.copyfileobj(file, to, PIECE)
        user = number(pwd.getpwnam, entry.uname, "user")
        group = number(grp.getgrnam, entry.gname, "group")
        if os.geteuid() == os.getuid():  # else the folder's owner writes, as permitted() does
            os.fchown(to.fileno(), user, group)
        os.fchmod(to.fileno(), entry.mode & 0o777)
        to.flush()
        os.fsync(to.fileno())
        os.utime(to.fileno(), (entry.mtime, entry.mtime))
    os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def below(top, parts, status):
    """A folder below another one, open; one that is not there is made, for this owner.

    Each part is opened alone: others than root may write there, and change a part meanwhile.
    """
    path = Path(top)
    with no_link(path):
        number = os.open(top, FOLDER)
    try:
        for part in parts:
            path, above = path / part, number
            with no_link(path):
                number = made(part, above, status)
            os.close(above)
        yield number
    finally:
        os.close(number)


@contextmanager
def no_link(path):
    """Name the part that is not a folder: so a link is refused."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        # With O_DIRECTORY a link is refused by ENOTDIR too. It may be a folder again by now.
        if path.is_dir() or path.is_symlink():
            raise FailedError(f"{path} is a link: root would write where it leads") from None
        raise FailedError(f"{path} is not a folder: move it away") from None


def made(part, above, status):
    """A folder in an open one, which is made for this owner where it is not there."""
    try:
        os.mkdir(part, 0o700, dir_fd=above)
    except FileExistsError:
        return os.open(part, FOLDER, dir_fd=above)
    number = os.open(part, FOLDER, dir_fd=above)
    if os.fstat(number).st_uid == os.geteuid():  # else it was replaced meanwhile
        os.fchown(number, status.st_uid, status.st_gid)
    return number


def only_roots(path):
    """Whether root alone can replace an entry: it and each folder above it are root's."""
    above = path.parent.resolve()
    for place in (above / path.name, above, *above.parents):
        status = os.lstat(place)
        shared = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
        if status.st_uid or (shared and stat.S_ISDIR(status.st_mode)):
            return False
    return True


def refuses_root(folder):
    """Whether root may not open a folder: on a file server with root_squash root is nobody."""
    try:
        os.close(os.open(folder, FOLDER))
    except PermissionError:
        return True
    except OSError:  # below() names it
        return False
    return False


@contextmanager
def permitted(folder):
    """The folder to write in, as its owner where root may not; root's own link is followed."""
    if folder.is_symlink() and only_roots(folder):
        folder = folder.resolve()
    status = folder.lstat()
    if not refuses_root(folder):
        yield folder
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups([status.st_gid])
    os.setegid(status.st_gid)
    os.seteuid(status.st_uid)
    try:
        yield folder
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def extracted(prefix, top, like):
    """Write members below a folder; folders get the owner and mode of another one."""
    status = like.stat()
    with entries(prefix) as members, permitted(top) as folder:
        for entry, file in members:
            *parts, name = entry.name.removeprefix(prefix).split("/")
            if not {"", ".", ".."}.isdisjoint((*parts, name)):
                raise FailedError(f"the archive has no file of the name {entry.name!r}")
            with below(folder, parts, status) as number:
                placed(entry, file, number, name)


def state(request):
    """Put StateSaveLocation in place of what is there, by rename."""
    now = Path(request["state"])
    new, old = (now.with_name(f".{now.name}.{word}") for word in ("restoring", "replaced"))
    like = now if now.is_dir() else old
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    extracted("state/", new, like)
    status = like.stat()
    os.chown(new, status.st_uid, status.st_gid)
    new.chmod(status.st_mode & 0o7777)
    for path in like.glob("*.key"):  # a key of tokens that the archive does not have
        if not (new / path.name).exists():
            subprocess.run(("cp", "-pP", path, new), check=True)
    if now.is_mount():
        for path in now.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for path in new.iterdir():
            path.rename(now / path.name)
        new.rmdir()
        return
    if now.is_dir():
        shutil.rmtree(old, ignore_errors=True)
        now.rename(old)
    new.rename(now)
    shutil.rmtree(old, ignore_errors=True)


def keys(request):
    """Write the keys that nodes know each other by; remove what the archive does not have."""
    there = set()
    with entries("etc/") as members:
        for entry, file in members:
            path = Path(f"/{entry.name}")
            if str(path) in request["keys"]:
                with below(path.parent.resolve(), (), None) as folder:
                    placed(entry, file, folder, path.name)
                there.add(str(path))
    for path in request["keys"] if there else ():
        if path not in there:
            Path(path).unlink(missing_ok=True)
    if "/etc/munge/munge.key" in there:
        ran("systemctl", "restart", "munge.service")


def services(request):
    """Restore the page's tokens and MLflow's store, where the cluster has such a service."""
    page = Path(request["page"])
    if page.parent.is_dir():
        extracted("page/", page.parent, page.parent)
    home, kind = Path(request["mlflow_home"]), request["mlflow"]
    if kind == "postgresql":
        user = request["mlflow_user"]
        as_owner = ("runuser", "-u", "postgres", "--")
        ran(*as_owner, "dropdb", "--if-exists", user, cwd="/")
        ran(*as_owner, "createdb", "-O", user, "-E", "UTF8", "-T", "template0", user, cwd="/")
        fed(
            ("runuser", "-u", user, "--", "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", user),
            "mlflow/postgresql/",
        )
    elif kind == "sqlite":
        sqlite(home)
    if kind:
        extracted("mlflow/artifacts/", Path(request["artifacts"]), Path(request["artifacts"]))
        ran("systemctl", "start", "corral-mlflow.service")


def sqlite(home):
    """MLflow's SQLite file, out of its pieces."""
    new, status = home / ".corral-restore.db", home.stat()
    new.unlink(missing_ok=True)  # the folder is MLflow's: what it put there is not followed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with (
        entries("mlflow/sqlite/") as members,
        os.fdopen(os.open(new, flags, 0o600), "wb") as to,
    ):
        for _, file in members:
            shutil.copyfileobj(file, to, PIECE)
        os.fchown(to.fileno(), status.st_uid, status.st_gid)
    for ending in ("-wal", "-shm"):
        home.joinpath(f"mlflow.db{ending}").unlink(missing_ok=True)
    new.replace(home / "mlflow.db")


def answered(what, *command):
    """Wait until a command succeeds."""
    until = time.monotonic() + ANSWER_S
    limited = ("timeout", "10", *command)
    while subprocess.run(limited, check=False, capture_output=True).returncode:
        if time.monotonic() > until:
            raise FailedError(f"{what} does not answer; its log: journalctl -u {what}")
        time.sleep(1)


def started(request):
    """Start Slurm's daemons, and those that sign for this machine's commands with the old key."""
    ran("systemctl", "daemon-reload")  # slurmdbd's limit for its start: it may convert the database
    if request["database"]:
        ran("systemctl", "start", "slurmdbd.service")
    ran("systemctl", "start", "slurmctld.service")
    ran("systemctl", "try-restart", "slurmd.service", "sackd.service")
    verified(request)
    STARTED.write_text(request["sha256"])


def verified(request):
    """Wait for Slurm's daemons, and print the number of the next job."""
    if request["database"]:
        answered("slurmdbd", "sacctmgr", "-n", "show", "cluster")
    answered("slurmctld", "scontrol", "ping")
    for line in ran("scontrol", "show", "config").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "NEXT_JOB_ID":
            print(json.dumps({"next_job": int(value)}))


def complete(request):
    """Wait for MLflow, too: jobs that start now log their runs there."""
    verified(request)
    if request["mlflow"]:
        check, uri = request["mlflow_check"], request["mlflow_uri"]
        answered("corral-mlflow", "python3", "-c", check, uri)


def cleaned(request):
    """Remove the archive: it holds keys."""
    shutil.rmtree(STAGING, ignore_errors=True)
    kept = Path(request["kept"])
    if kept.is_dir():
        kept.rename(f"{kept}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")


STEPS = {
    "compare": compared,
    "stop": stopped,
    "database": database,
    "state": state,
    "keys": keys,
    "services": services,
    "start": started,
    "verify": complete,
    "clean": cleaned,
}


def main():
    """Do one step; a failure is one line on standard error."""
    step = sys.argv[1]
    try:
        if step == "stage":
            stage(int(sys.argv[2]))
        elif step == "survey":
            survey()
        else:
            STEPS[step](json.load(sys.stdin))
    except (FailedError, OSError, tarfile.TarError, subprocess.SubprocessError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
