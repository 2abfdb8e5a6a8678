"""Rules about the scripts that set machines up, and about job scripts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from corral.slurm.adopt.rule import E, Problem, Rule, W
from corral.slurm.adopt.script import Broken, Command, commands_of
from corral.slurm.adopt.source import Edit, Kind, Source, Spot
from corral.slurm.adopt.view import Existing
from corral.slurm.tres import gres_of
from corral.spec.findings import SHOWN_AT_MOST, one_line
from corral.spec.providers import machines_on
from corral.spec.rules.drivers import (
    driver_fault,
    driver_table,
    is_blackwell,
    least_branch,
    least_cuda,
    toolkit_fault,
)

_FOLDERS: Final = ("StateSaveLocation", "SlurmdSpoolDir")
_DRIVER: Final = re.compile(r"nvidia-driver-(\d+)(-server)?(-open)?")
_TOOLKIT: Final = re.compile(r"cuda(?:-toolkit)?-(\d+)-(\d+)")
_COPIES: Final = frozenset(
    {"scp", "rsync", "pdcp", "clush", "ansible", "ansible-playbook", "parallel-scp", "ssh"}
)
_QUOTES: Final = re.compile("[\u201c\u201d\u2018\u2019\u201e]")
_LOGIN_UIDS: Final = range(1000, 60001)


def _commands(source: Source) -> list[Command]:
    return [c for c in commands_of(source) if isinstance(c, Command)]


def _all(existing: Existing) -> Iterator[Command]:
    for source in existing.of(Kind.SETUP):
        yield from _commands(source)


def _installs(command: Command) -> tuple[str, ...]:
    if command.name in ("apt", "apt-get", "aptitude", "dnf", "yum") and "install" in command.words:
        at = command.words.index("install")
        return tuple(w for w in command.words[at + 1 :] if not w.startswith("-"))
    return ()


def folders(existing: Existing) -> Iterator[Problem]:
    """Folders that a script makes, and slurm.conf does not use."""
    makes = [c for c in _all(existing) if c.name == "mkdir" or c.words[:2] == ("install", "-d")]
    made = {w.rstrip("/") for c in makes for w in c.words if w.startswith("/")}
    if not made or not existing.slurm:
        return
    configured = {key: existing.slurm.text(key).rstrip("/") for key in _FOLDERS}
    lost = {key: path for key, path in configured.items() if path and path not in made}
    # slurmd makes its own folder where the one above it is there.
    if str(PurePosixPath(lost.get("SlurmdSpoolDir", "/")).parent) in made:
        del lost["SlurmdSpoolDir"]
    if not lost or not any(re.match(r"/(var|srv|opt|run)/.*slurm", path) for path in made):
        return
    strays = [p for p in made if "slurm" in p and p not in configured.values() and "/spool" in p]
    stray = difflib.get_close_matches(next(iter(lost.values())), strays, n=1, cutoff=0.5)
    named = " and ".join(lost.values())
    hint = f"mkdir -p {' '.join(lost.values())}; SlurmUser must own StateSaveLocation, and slurmd "
    hint += "makes its own folder where the one above it is there"
    if not stray:
        yield Problem(makes[0].spot, f"slurm.conf uses {named}, which no script makes", hint)
        return
    spots = [s for c in _all(existing) for s in c.word(stray[0]) if c.name in _MAKERS]
    edits = tuple(Edit(s.source.name, s.start, s.stop, " ".join(lost.values())) for s in spots)
    yield Problem(
        spots[0],
        f"{stray[0]} is made here, and slurm.conf uses {named}, which no script makes",
        hint,
        edits,
        where=next(iter(lost)),
    )


_MAKERS: Final = ("mkdir", "install", "chown", "chmod")


def munge_key(existing: Existing) -> Iterator[Problem]:
    """A munge key that is made and stays on one machine."""
    commands = list(_all(existing))
    about = [c for c in commands if any("munge.key" in w for w in c.words)]
    makes = [c for c in commands if c.name in ("create-munge-key", "mungekey")]
    makes += [c for c in about if c.name in ("dd", "openssl", "head", "tee")]
    carried = any(c.name in _COPIES for c in about)
    if makes and not carried:
        copies = [c for c in about if c.name == "cp"]
        yield Problem(
            (copies or makes)[-1].spot,
            "the munge key is made here and never reaches the other machines: "
            '"Munge decode failed: Invalid credential"',
            "copy /etc/munge/munge.key to all machines, mode 0400, owner munge, and restart munge",
        )


def services(existing: Existing) -> Iterator[Problem]:
    """Packages that are installed and daemons that nobody starts."""
    for source in existing.of(Kind.SETUP):
        commands = _commands(source)
        installs = [c for c in commands if {"slurm-wlm", "slurmd", "slurmctld"} & set(_installs(c))]
        started = " ".join(
            " ".join(c.words) for c in commands if c.name in ("systemctl", "service")
        )
        if installs and ("slurmd" not in started or "slurmctld" not in started):
            yield Problem(
                installs[-1].spot,
                "Slurm is installed, and slurmctld and slurmd are enabled nowhere",
                "systemctl enable --now munge slurmctld on the controller, munge slurmd on nodes",
            )


def one_copy(existing: Existing) -> Iterator[Problem]:
    """A slurm.conf that is written on one machine."""
    configless = "enable_configless" in existing.slurm.text("SlurmctldParameters").lower()
    for source in existing.of(Kind.SETUP):
        commands = _commands(source)
        writes = [c for c in commands if c.here.endswith("/slurm.conf")]
        carried = any(c.name in _COPIES and any("slurm" in w for w in c.words) for c in commands)
        if writes and not carried and not configless:
            yield Problem(
                writes[0].spot,
                "slurm.conf is written on this machine alone: all others have none, or another one",
                "write SlurmctldParameters=enable_configless and start slurmd with --conf-server, "
                "or copy the file to all machines",
            )


def _gpus(existing: Existing) -> list[str]:
    """Names of GPUs in the files and of the machines, each once."""
    kinds = [row.text("Type") for row in existing.gres]
    kinds += [kind for row in existing.nodes for _, kind, _ in gres_of(row.text("Gres"))]
    kinds += [name for m in existing.machines.values() for name in m.gpu_names]
    return list(dict.fromkeys(one_line(kind)[:SHOWN_AT_MOST] for kind in kinds))


def driver(existing: Existing) -> Iterator[Problem]:
    """A driver or toolkit that does not fit the GPUs, by the table of the cluster file's rules."""
    gpus = _gpus(existing)
    for command in _all(existing):
        for package in _installs(command):
            fault, hint = _driver_fault(package, gpus) or _toolkit_fault(package, gpus)
            if fault:
                spot = next(command.word(package), command.spot)
                yield Problem(spot, f"{package}: {fault}", hint)


def _driver_fault(package: str, gpus: list[str]) -> tuple[str, str] | None:
    """What is wrong with a driver's package and what to do; None for another package."""
    match = _DRIVER.fullmatch(package)
    if match is None:
        return None
    branch, opened = int(match[1]), match[3] is not None
    for gpu in gpus:
        if fault := driver_fault(gpu, branch, opened=opened):
            least = f"nvidia-driver-{least_branch(gpu)}-open or newer"
            closed = package.removesuffix("-open")
            return fault, f"install {least if is_blackwell(gpu) else closed}"
    return "", ""


def _toolkit_fault(package: str, gpus: list[str]) -> tuple[str, str]:
    match = _TOOLKIT.fullmatch(package)
    cuda = f"{match[1]}.{match[2]}" if match else ""
    faults = {gpu: f for gpu in gpus if cuda and (f := toolkit_fault(gpu, cuda))}
    name, fault = next(iter(faults.items()), ("", ""))
    least = least_cuda(name)
    hint = f"install cuda-toolkit-{least.replace('.', '-')} or newer, and PyTorch built for "
    return fault, f"{hint}cu{least.replace('.', '')} or newer"


def slurm_uid(existing: Existing) -> Iterator[Problem]:
    """A numeric id for slurm that a person may get."""
    for command in _all(existing):
        words = command.words
        if command.name not in ("useradd", "groupadd", "adduser", "addgroup"):
            continue
        if words[-1] not in ("slurm", "munge"):
            continue
        flag = next((w for w in words if w in ("-u", "-g", "--uid", "--gid")), "")
        value = words[words.index(flag) + 1] if flag and words.index(flag) + 1 < len(words) else ""
        if value.isdigit() and int(value) in _LOGIN_UIDS:
            yield Problem(
                next(command.word(value), command.spot),
                f"{value} is a number that a person's account may have: the next useradd on "
                "another machine gives it to somebody else",
                f"take a system id below 1000 that is free on all machines, before the packages "
                f"make their own {words[-1]}",
            )


def two_sources(existing: Existing) -> Iterator[Problem]:
    """Driver from one place, toolkit from another."""
    for source in existing.of(Kind.SETUP):
        ppa = next((c for c in _commands(source) if "ppa:graphics-drivers/ppa" in c.words), None)
        keyring = next(
            (c for c in _commands(source) if any("cuda-keyring" in w for w in c.words)), None
        )
        if ppa and keyring:
            yield Problem(
                keyring.spot,
                "the driver comes from a PPA and the toolkit from NVIDIA: an upgrade of one breaks "
                'the other with "Driver/library version mismatch"',
                "take both from one source, and apt-mark hold the driver",
            )


def wrong_package(existing: Existing) -> Iterator[Problem]:
    """The package called slurm is a network monitor."""
    for command in _all(existing):
        if command.name.startswith(("apt", "aptitude")) and "slurm" in _installs(command):
            spot = next(command.word("slurm"), command.spot)
            edit = Edit(spot.source.name, spot.start, spot.stop, "slurm-wlm")
            yield Problem(
                spot,
                "the package slurm is a network monitor, not the workload manager",
                "install slurm-wlm",
                (edit,),
            )


def quotes(existing: Existing) -> Iterator[Problem]:
    """Quotes that no shell knows, or that do not close."""
    for source in existing.of(Kind.SETUP):
        for command in commands_of(source):
            match = _QUOTES.search(source.text, command.spot.start, command.spot.stop)
            if match:
                edits = tuple(
                    Edit(source.name, m.start(), m.end(), "'" if m[0] in "\u2018\u2019" else '"')
                    for m in _QUOTES.finditer(source.text, command.spot.start, command.spot.stop)
                )
                yield Problem(
                    Spot(source, match.start(), match.end()),
                    "a typographic quotation mark: the shell takes it for a letter",
                    "write \" or '",
                    edits,
                )
            elif isinstance(command, Broken):
                yield Problem(
                    command.spot,
                    "a quotation mark that is never closed",
                    "close it, or leave it out",
                )


def job_script(existing: Existing) -> Iterator[Problem]:
    """A job's environment that is not what it looks like."""
    for source in existing.of(Kind.SETUP):
        commands = _commands(source)
        nccl = any(w.startswith("NCCL_") for c in commands for w in c.words)
        for command in commands:
            text = command.spot.text
            words = command.words
            escaped = re.search(r"(?<!\\)\\\$\w+", text)
            plain = escaped and '"' not in text[: escaped.start()] and "=" in words[-1]
            if escaped and plain:
                at = command.spot.start + escaped.start()
                yield Problem(
                    Spot(source, at, at + len(escaped[0])),
                    f"{escaped[0]} is the name itself here, not its value",
                    f"write {escaped[0][1:]}",
                    (Edit(source.name, at, at + 1, ""),),
                )
            image = any(w.startswith("--container-image") for w in words)
            env = any(w.startswith("--container-env") for w in words)
            if words[0] == "srun" and image and nccl and not env:
                yield Problem(
                    command.spot,
                    "the image's own NCCL_* variables win over those set above",
                    "add --container-env=NCCL_..., with all names",
                )
            if words[0].startswith("//") and not PurePosixPath(words[0]).suffix:
                edit = Edit(source.name, command.spot.start, command.spot.start + 2, "#")
                yield Problem(
                    command.spot, "// is a command in a shell, not a comment", "write #", (edit,)
                )


_TABLE: Final = driver_table()
_GUIDE: Final = next(kind.guide for kind in machines_on("tcpxo").values())
"""The page about NCCL's settings that an image replaces."""

RULES: Final = (
    Rule("setup-folders", E, Kind.SETUP, "A script makes other folders than slurm.conf uses.",
         "the folders of slurm.conf", folders, "", "failures.md S004-7"),
    Rule("setup-munge-key", E, Kind.SETUP, "A munge key that stays on one machine.",
         "one key on all machines", munge_key, "F01", "authentication.html"),
    Rule("setup-services", E, Kind.SETUP, "Daemons that nobody starts.",
         "systemctl enable --now", services, "F03", ""),
    Rule("setup-one-copy", E, Kind.SETUP, "slurm.conf on one machine alone.",
         "enable_configless", one_copy, "F04", "configless_slurm.html"),
    Rule("setup-driver", E, Kind.SETUP, "A driver or toolkit that does not fit the GPU.",
         f"{_TABLE.blackwell_branch}-open and CUDA {_TABLE.blackwell_cuda} or newer for Blackwell; "
         "no -open before Turing", driver, "F25", "open-gpu-kernel-modules"),
    Rule("setup-uid", W, Kind.SETUP, "A person's numeric id for slurm or munge.",
         "an id below 1000", slurm_uid, "F17", "login.defs(5)"),
    Rule("setup-two-sources", W, Kind.SETUP, "Driver and toolkit from two sources.",
         "one source", two_sources, "F24", ""),
    Rule("setup-wrong-package", E, Kind.SETUP, "The package called slurm.",
         "slurm-wlm", wrong_package, "F61", ""),
    Rule("setup-quotes", E, Kind.SETUP, "Typographic or open quotation marks.",
         "plain quotation marks", quotes, "", ""),
    Rule("job-environment", E, Kind.SETUP,
         "An escaped $, // for a comment, an image whose NCCL settings win.",
         "see the finding", job_script, "", _GUIDE),
)  # fmt: skip
