# Installed as: nowhere: an argument of python3 on the controller
# Started by: corral (api/operations/backup,
# roles/services/backup)
# Runs as: root
# pyright: basic
# It runs under the node's own Python, 3.10 or later.
"""Writes what a cluster cannot make again as one tar archive, from its controller.

Standard input is a request in JSON. The archive goes to standard output as lines of base64; the
last line is ``@``, its bytes and their SHA-256. Nothing is written to a disk, except a copy of
MLflow's SQLite file, which MLflow's user makes in its own folder and which is removed at once.

Other users than root write in the folders of state and artifacts: each part of a path below them
is opened alone, and no link is followed (``folder_of``). Artifacts are read by the owner of their
folder.

Order and consistency:

* The accounting database first, in one transaction (``mariadb-dump --single-transaction``), then
  StateSaveLocation: so the next job's number in the state is never below a job of the database.
  slurmctld saves its state at most six seconds after a change (SAVE_MAX_WAIT of
  slurmctld/state_save.c, checked each second), so the state is read that much later.
* slurmctld writes NAME.new, then unlinks NAME and links the new file in its place
  (save_buf_to_state of common/state_save.c): a file that was opened never changes, and for a moment
  there is none: it is opened again.
* Scripts of jobs are in folders of the state and are read after job_state, so that a job of
  job_state has its script.
"""

import base64
import errno
import grp
import hashlib
import io
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
from contextlib import contextmanager
from pathlib import Path

ETC = Path("/etc/slurm")
PIECE = 8 * 1024 * 1024
LINE = 32 * 1024
SETTLE_S = 7.0
ABSENT_TRIES = 20
REPLACED_S = 60.0
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# SQLite opens a database, its log and its journal by name, and writes to them: so not as root, in a
# folder where others write. Its own backup is consistent while the server writes. A link leads only
# where the folder's owner may read; where that is root, it is refused.
SQLITE = """
import os, shutil, sqlite3, stat, sys, tempfile
from contextlib import closing
status = os.stat("mlflow.db", follow_symlinks=os.geteuid() != 0)
if not stat.S_ISREG(status.st_mode):
    sys.exit("mlflow.db is not a plain file")
with tempfile.TemporaryDirectory(prefix=".corral-backup-", dir=".") as private:
    copy = os.path.join(private, "mlflow.db")
    with closing(sqlite3.connect("mlflow.db")) as store, closing(sqlite3.connect(copy)) as to:
        store.backup(to)
    with open(copy, "rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
"""
COUNTED = re.compile(r"(?:.*_)?(?:job|assoc)_table|acct_table|user_table|qos_table")


class FailedError(Exception):
    """What could not be read, in one sentence."""


class Lines:
    """A file that prints what is written to it as lines of base64."""

    def __init__(self, out):
        self.out = out
        self.rest = b""
        self.size = 0
        self.sum = hashlib.sha256()

    def write(self, data):
        """Print complete lines; what is left waits."""
        self.sum.update(data)
        self.size += len(data)
        data = self.rest + bytes(data)
        end = len(data) - len(data) % LINE
        for at in range(0, end, LINE):
            self.out.write(base64.b64encode(data[at : at + LINE]) + b"\n")
        self.rest = data[end:]
        return len(data)

    def end(self):
        """Print what is left and the last line."""
        if self.rest:
            self.out.write(base64.b64encode(self.rest) + b"\n")
        self.out.write(f"@ {self.size} {self.sum.hexdigest()}\n".encode())
        self.out.flush()


class Summed:
    """An open file whose digest is computed while it is read.

    Attributes:
        sum: of what was read.
        padded: bytes that it no longer had, and that were read as zeros.
    """

    def __init__(self, file):
        self.file = file
        self.sum = hashlib.sha256()
        self.padded = 0

    def read(self, size=-1, /):
        """The next bytes; zeros where the file ends before."""
        data = self.file.read(size)
        missing = size - len(data)
        if missing > 0:
            self.padded += missing
            data += bytes(missing)
        self.sum.update(data)
        return data


class Archive:
    """A tar archive that ends with the list of its members."""

    def __init__(self, stream):
        self.tar = tarfile.open(fileobj=stream, mode="w|")  # noqa: SIM115  # until end()
        self.members = {}

    def add(self, name, data, status=None):
        """Add data as a file."""
        self.stream(name, io.BytesIO(data), len(data), status)

    def stream(self, name, file, size, status=None):
        """Add so many bytes of an open file, piece by piece: artifacts may be larger than memory.

        Owners are kept by name, as numbers differ between machines. A file that grows is saved as
        it was when it was opened; one that becomes shorter is padded with zeros and named, as GNU
        tar does.
        """
        entry = tarfile.TarInfo(name)
        entry.size = size
        entry.mode = stat.S_IMODE(status.st_mode) if status else 0o600
        entry.mtime = int(status.st_mtime) if status else int(time.time())
        entry.uname, entry.gname = owner(status) if status else ("root", "root")
        content = Summed(file)
        self.tar.addfile(entry, content)
        if content.padded:
            what = f"{name} became {content.padded} bytes shorter while it was read"
            print(f"{what}: padded with zeros", file=sys.stderr)
        self.members[name] = [size, content.sum.hexdigest()]

    def pieces(self, folder, stream):
        """Add a stream of unknown length as numbered members; gives its last bytes."""
        number, tail = 0, b""
        while data := stream.read(PIECE):
            self.add(f"{folder}/{number:06}", data)
            number, tail = number + 1, (tail + data)[-200:]
        return tail

    def end(self, facts):
        """Add the list of members, last, and close."""
        text = json.dumps({**facts, "members": self.members})
        self.add("manifest.json", text.encode())
        self.tar.close()


def owner(status):
    """User and group of a file by name; numbers where there is no name."""
    try:
        user = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        user = str(status.st_uid)
    try:
        return user, grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        return user, str(status.st_gid)


def printed(*command):
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise FailedError(f"{command[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def dumped(archive, folder, command, ending):
    """Add what a command prints, which must end with a mark."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        tail = archive.pieces(folder, process.stdout)
    if process.returncode or ending not in tail:
        raise FailedError(f"{command[0]} did not write a complete dump")


def auth():
    """What nodes know each other by: munge or slurm."""
    text = (ETC / "slurm.conf").read_text("utf-8", "replace")
    match = re.search(r"^AuthType\s*=\s*auth/(\w+)", text, re.MULTILINE | re.IGNORECASE)
    return match[1] if match else "munge"


def rows(sql):
    """Rows of an answer of the database, each a list of columns."""
    return [line.split("\t") for line in printed("mariadb", "-N", "-B", "-e", sql).splitlines()]


def counts(database):
    """Rows of the tables that are compared after a restore, by table."""
    tables = [row[0] for row in rows(f"SHOW TABLES FROM `{database}`")]
    sql = "SELECT COUNT(*) FROM"
    return {
        table: int(rows(f"{sql} `{database}`.`{table}`")[0][0])
        for table in tables
        if COUNTED.fullmatch(table)
    }


def accounting(archive, database):
    """Add the database; gives how many rows its tables have, and the highest job."""
    before = counts(database)
    program = shutil.which("mariadb-dump") or "mysqldump"
    command = (program, "--single-transaction", "--quick", "--hex-blob", database)
    dumped(archive, "accounting", command, b"Dump completed")
    after = counts(database)
    highest = 0
    for table in after:
        if table.endswith("_job_table"):
            sql = "SELECT COALESCE(MAX(id_job), 0) FROM"
            highest = max(highest, int(rows(f"{sql} `{database}`.`{table}`")[0][0]))
    bounds = {table: sorted((before.get(table, 0), number)) for table, number in after.items()}
    return bounds, highest


def folder_of(path, top):
    """The folder of a path, open; below ``top`` no part of it is a link. None: it is not there."""
    try:
        number = os.open(top, FOLDER)
    except (FileNotFoundError, NotADirectoryError):  # as /etc/munge where nothing signs by munge
        return None
    for part in path.parent.relative_to(top).parts:
        above = number
        try:
            number = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=above)
        except OSError as error:
            # A link is refused as what is not a folder.
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise
        finally:
            os.close(above)
    return number


def opened(path, top):
    """An open file; None when there is none.

    Between slurmctld's unlink and its link there is NAME.new, for however long it is not scheduled.
    """
    folder = folder_of(path, top)
    if folder is None:
        return None
    try:
        return opened_in(folder, path)
    finally:
        os.close(folder)


def opened_in(folder, path):
    """The file of a path, whose folder is open; None when there is none."""
    tries, until = ABSENT_TRIES, time.monotonic() + REPLACED_S
    while tries:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            return os.fdopen(os.open(path.name, flags, dir_fd=folder), "rb")
        except IsADirectoryError:
            return None
        except FileNotFoundError:
            if not is_there(f"{path.name}.new", folder):
                tries -= 1
            elif time.monotonic() > until:
                raise FailedError(f"{path} is not there, and {path}.new is") from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise
        time.sleep(0.01)
    return None


def is_there(name, folder):
    """Whether an open folder has an entry of this name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def add_file(archive, name, path, top=None):
    """Add a regular file, when it is there; others than root may write below ``top``."""
    file = opened(path, top or path.parent)
    if file is None:
        return
    with file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            archive.stream(name, file, status.st_size, status)


def unlisted(error):
    """Raise why a folder cannot be listed, unless it has just been removed or replaced."""
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def is_link(name, folder):
    """Whether an entry of an open folder is a link, or has just been removed."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return True


def files_of(folder):
    """Everything but folders in a folder and those below it, each with its size."""
    for place, folders, names, number in os.fwalk(folder, onerror=unlisted):
        folders[:] = sorted(name for name in folders if not is_link(name, number))
        for name in sorted(names):
            try:
                size = os.stat(name, dir_fd=number, follow_symlinks=False).st_size
            except FileNotFoundError:
                continue  # it has just been removed
            yield Path(place, name), size


def state(archive, folder):
    """Add StateSaveLocation, but for what slurmctld is just writing or keeps of before.

    A file that is just replaced is listed as NAME.new and NAME.old alone.
    """
    folder = folder.resolve()
    names = set()
    for path, _ in files_of(folder):
        name = str(path.relative_to(folder))
        names.add(name.removesuffix(".new").removesuffix(".old"))
    # The state at its top before the folders of jobs' scripts.
    for name in sorted(names, key=lambda name: ("/" in name, name)):
        add_file(archive, f"state/{name}", folder / name, folder)


def sqlite(archive, home):
    """Add MLflow's SQLite file, read by the folder's owner."""
    if not os.path.lexists(home / "mlflow.db"):
        return
    status = home.stat()
    as_owner = {}
    if os.geteuid() == 0:
        as_owner = {"user": status.st_uid, "group": status.st_gid, "extra_groups": ()}
    command = (sys.executable, "-I", "-c", SQLITE)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=home, **pipes, **as_owner) as process:
        archive.pieces("mlflow/sqlite", process.stdout)
    if process.returncode:
        raise FailedError(f"MLflow's store in {home} cannot be read")


def only_roots(path):
    """Whether root alone can replace an entry: it and each folder above it are root's."""
    above = path.parent.resolve()
    for place in (above / path.name, above, *above.parents):
        status = os.lstat(place)
        shared = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
        if status.st_uid or (shared and stat.S_ISDIR(status.st_mode)):
            return False
    return True


@contextmanager
def as_owner(folder):
    """Read as a folder's owner: root is nobody on a file server with root_squash.

    The owner's processes cannot signal or trace this one: its real user stays root.
    """
    status = folder.lstat()  # a link that comes in its place meanwhile chooses no other user
    if os.geteuid() or not status.st_uid:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups([status.st_gid])
    os.setegid(status.st_gid)
    os.seteuid(status.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def add_artifacts(archive, folder, with_artifacts, names):
    """List artifacts into ``names``, and on request add them."""
    if folder.is_symlink():
        if not only_roots(folder):
            what = f"{folder} is a link: root would read where it leads"
            raise FailedError(f"{what}, and others than root can replace it")
        folder = folder.resolve()
    if not folder.is_dir():
        return
    with as_owner(folder):
        for path, size in files_of(folder):
            names.append(f"{size} {path.relative_to(folder)}\n")
            if with_artifacts:
                add_file(archive, f"mlflow/artifacts/{path.relative_to(folder)}", path, folder)


def mlflow(archive, place, artifacts, with_artifacts):
    """Add MLflow's store, the names of its artifacts, and on request those too."""
    sqlite(archive, Path(place))
    names = []
    try:
        add_artifacts(archive, Path(artifacts), with_artifacts, names)
    except PermissionError as error:
        what = f"artifacts in {artifacts} cannot be read by the folder's owner: {error}"
        if with_artifacts:
            raise FailedError(what) from error
        print(f"{what}; names of artifacts are missing in the archive", file=sys.stderr)
    archive.add("mlflow/artifacts.txt", "".join(names).encode("utf-8", "surrogateescape"))


def written(request, archive):
    """All members, in their order."""
    about = {
        "format": request["format"],
        "cluster": request["cluster"],
        "corral": request["corral"],
        "slurm": printed("slurmctld", "-V"),
        "mariadb": printed("mariadb", "--version") if request["database"] else "",
        "auth": auth(),
        "mlflow": request["mlflow"],
        "made": int(time.time()),
    }
    archive.add("about.json", json.dumps(about).encode())
    for name, text in request["files"].items():
        archive.add(name, text.encode())
    begun = time.monotonic()
    bounds, highest = accounting(archive, request["database"]) if request["database"] else ({}, 0)
    time.sleep(max(0.0, SETTLE_S - (time.monotonic() - begun)))
    state(archive, Path(request["state"]))
    etc = ETC.resolve()
    for path, _ in files_of(etc):
        add_file(archive, f"etc/slurm/{path.relative_to(etc)}", path, etc)
    for name, place in request["more"].items():
        add_file(archive, name, Path(place))
    if request["mlflow"] == "postgresql":
        command = (
            "runuser",
            "-u",
            request["mlflow_user"],
            "--",
            "pg_dump",
            "--no-owner",
            request["mlflow_user"],
        )
        dumped(archive, "mlflow/postgresql", command, b"PostgreSQL database dump complete")
    if request["mlflow"]:
        mlflow(archive, request["mlflow_home"], request["artifacts"], request["with_artifacts"])
    archive.end({"counts": bounds, "highest_job": highest})


def main():
    """Write the archive; a failure is one line on standard error."""
    request = json.load(sys.stdin)
    lines = Lines(sys.stdout.buffer)
    try:
        written(request, Archive(lines))
    except (FailedError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"the archive is incomplete: {error}")
    lines.end()


if __name__ == "__main__":
    main()
