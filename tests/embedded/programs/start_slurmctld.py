"""Starts slurmctld with one configuration after the other and prints what it logged, as JSON lines.

``start_slurmctld.py FOLDER`` runs in a container that has slurmctld, slurmdbd, MariaDB and munge.
FOLDER holds a folder for each case with Slurm's files and ``site.json``: what the machine must have
before the files can be judged (host name, users, folders, names that resolve). Python 3.9.
"""

import contextlib
import json
import os
import pathlib
import pwd
import re
import select
import shutil
import signal
import subprocess
import sys
import time

HERE = "10.9.9.1"
WAITS = re.compile(rb"(cannot stat|unable to status) file .*retrying|Still don't know my ClusterID")
UP = "Running as primary controller"
LIMIT_S = 60.0
QUIET_S = 4.0
"""A slurmctld that neither writes nor computes for so long waits for something."""
PLUGINS = next(iter(pathlib.Path("/usr/lib").glob("*/slurm-wlm")), pathlib.Path("/usr/lib/slurm"))
LUA = b"function slurm_job_submit() return 0 end\nfunction slurm_job_modify() return 0 end\n"
CONTENTS = {".key": os.urandom(64), ".lua": LUA}
LOG_TIME = re.compile(r"^(slurmctld: |\[[^\]]*\] )+")


def call(*argv, **more):
    return subprocess.run(
        argv, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, **more
    )


def daemon(*argv):
    subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)


def user(name):
    try:
        pwd.getpwnam(name)
    except KeyError:
        call("useradd", "--badname", "--system", "--no-create-home", name)


def owned(path, owner):
    folder = pathlib.Path(path)
    if not folder.is_dir():
        folder.mkdir(parents=True)
    shutil.chown(folder, owner)


def common(cases):
    """What all cases share: munge, and one slurmdbd that knows every cluster."""
    # getaddrinfo(AI_ADDRCONFIG) gives no names where loopback addresses are all there are.
    call("ip", "address", "add", HERE + "/32", "dev", "lo")
    call("ip", "link", "set", "lo", "up")
    pathlib.Path("/etc/munge/munge.key").write_bytes(os.urandom(1024))
    for path in (
        "/etc/munge",
        "/etc/munge/munge.key",
        "/run/munge",
        "/var/lib/munge",
        "/var/log/munge",
    ):
        if not path.endswith(".key"):
            pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        shutil.chown(path, "munge", "munge")
    pathlib.Path("/etc/munge/munge.key").chmod(0o400)
    call("runuser", "-u", "munge", "--", "munged")
    names = sorted({site["cluster"].lower() for site in cases.values() if site["database"]})
    if not names:
        return
    hosts({"judge": HERE})
    call("hostname", "judge")
    user("slurm")
    owned("/run/mysqld", "mysql")
    daemon("mariadbd", "--user=mysql", "--skip-networking")
    until(lambda: call("mariadb", "-e", "select 1").returncode == 0)
    call(
        "mariadb",
        "-e",
        "create database slurm_acct_db; create user slurm@localhost identified via unix_socket;"
        "grant all on slurm_acct_db.* to slurm@localhost",
    )
    etc = pathlib.Path("/etc/slurm")
    etc.mkdir(exist_ok=True)
    conf = etc / "slurmdbd.conf"
    conf.write_text(
        "DbdHost=judge\nSlurmUser=slurm\nStorageType=accounting_storage/mysql\nAuthType=auth/munge\n"
        "StorageUser=slurm\nPidFile=/tmp/dbd.pid\n"
    )
    shutil.chown(conf, "slurm")
    conf.chmod(0o600)
    (etc / "slurm.conf").write_text(
        "ClusterName=judge\nSlurmctldHost=judge\nAccountingStorageType=accounting_storage/slurmdbd\n"
        "AccountingStorageHost=judge\nAuthType=auth/munge\n"
    )
    daemon("runuser", "-u", "slurm", "--", "slurmdbd", "-D")
    until(lambda: call("sacctmgr", "-n", "show", "cluster").returncode == 0)
    call("sacctmgr", "-i", "add", "cluster", ",".join(names))
    qos = sorted({name for site in cases.values() for name in site["qos"]})
    if qos:
        call("sacctmgr", "-i", "add", "qos", ",".join(qos))


def until(true, limit=60.0):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.1)
    return False


def hosts(names):
    lines = [HERE + " localhost"] + [f"{address} {name}" for name, address in names.items()]
    pathlib.Path("/etc/hosts").write_text("\n".join(lines) + "\n")


def prepare(folder, site):
    # The program hostname refuses names with "_", the kernel does not.
    pathlib.Path("/proc/sys/kernel/hostname").write_text(site["host"])
    hosts(site["hosts"])
    for address in site["addresses"]:
        call("ip", "address", "add", address + "/32", "dev", "lo")
    user(site["user"])
    user("slurm")
    for path in site["folders"]:
        owned(path, site["user"])
        for left in pathlib.Path(path).iterdir():
            if left.is_file() and left.suffix not in (".sock", ".pid"):
                left.unlink()  # state of the case before
    given(folder, site)
    for path, name in site["included"].items():
        pathlib.Path(path).unlink(missing_ok=True)
        if (folder / name).is_file():
            linked([path], folder / name)
    linked(site["sockets"], "/run/munge/munge.socket.2")
    linked(site["plugins"], PLUGINS)


def given(folder, site):
    """Files that the configuration names."""
    for path in site["files"]:
        file = pathlib.Path(path.replace("CASE", str(folder)))
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_bytes(CONTENTS.get(file.suffix, b""))
        shutil.chown(file, site["user"])
        file.chmod(0o700)


def linked(paths, target):
    for path in map(pathlib.Path, paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.symlink_to(target)


def busy(pid):
    """What changes while a process computes, or waits for a processor."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return time.monotonic() if fields[0] in "RD" else fields[11:13]


def start(folder, site):
    """slurmctld's lines and how it ended: up, died, silent."""
    prepare(folder, site)
    env = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))
    # -v: a SlurmctldDebug=error would hide that it is up
    argv = ["slurmctld", "-D", "-v", "-f", str(folder / "slurm.conf")]
    child = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        cwd="/tmp",
        start_new_session=True,
    )
    state, text = "silent", b""
    end = time.monotonic() + LIMIT_S
    used, quiet = 0, time.monotonic()
    while time.monotonic() < end:
        if not select.select([child.stdout], [], [], 0.2)[0]:
            now = busy(child.pid)
            if now != used:
                used, quiet = now, time.monotonic()
            if state == "up" or time.monotonic() - quiet > QUIET_S:
                break
            continue
        quiet = time.monotonic()
        more = os.read(child.stdout.fileno(), 65536)
        if not more:
            state = "died"
            break
        text += more
        if UP.encode() in text and state != "up":
            state, end = "up", min(end, time.monotonic() + 1.0)
        elif WAITS.search(text):  # for a file, a minute, or for a database, for ever
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if b"Address already in use" in text:
        state = "busy"
    lines = [LOG_TIME.sub("", line) for line in text.decode("utf-8", "replace").splitlines()]
    kept = [line for line in lines if re.match(r"(fatal|error|warning): ", line)]
    return {"case": folder.name, "state": state, "lines": kept[:200], "code": child.returncode}


def main(where):
    folders = sorted(
        path for path in pathlib.Path(where).iterdir() if (path / "site.json").is_file()
    )
    cases = {folder: json.loads((folder / "site.json").read_text()) for folder in folders}
    common(cases)
    for folder, site in cases.items():
        begin = time.monotonic()
        done = start(folder, site)
        done["seconds"] = round(time.monotonic() - begin, 2)
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
