"""The corpus as slurmctld can start with it: files, and what its machine needs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.unit.slurm.adopt.corpus import Case
from tests.unit.slurm.adopt.second_reader import Reading, read

from corral.api.config.adoption import lint_existing

HERE = "10.9.9.1"
NOWHERE = "10.9.9.2"
"""A second controller's address: nothing is there."""
EVERYWHERE = {"/", "/run", "/var/run", "/var/log"}
ADDRESS = re.compile(r"[\d.]+|[\da-f]*:[\da-f:]+")


def names_of(reading: Reading, controllers: list[str]) -> dict[str, str]:
    """Names that the files take for resolvable."""
    words = [*reading.nodes, *(offer.address for offer in reading.nodes.values())]
    words += reading.keys.get("accountingstoragehost", [])
    own = [re.findall(r"\((.+)\)", v) for v in reading.keys.get("slurmctldhost", [])]
    words += [address for addresses in own[:1] for address in addresses]
    others = [
        address for addresses in own[1:] for address in addresses if not ADDRESS.fullmatch(address)
    ]
    names = {word: HERE for word in words if not ADDRESS.fullmatch(word)}
    names |= dict.fromkeys([*controllers[1:], *others], NOWHERE) | dict.fromkeys(
        controllers[:1], HERE
    )
    return {name: at for name, at in names.items() if name != "localhost"}


def files_of(reading: Reading, text: str) -> list[str]:
    """Files that the configuration takes for present: keys, a log, a script."""
    files = ["CASE/slurm.key", *re.findall(r"jwt_key=([^,\s\"]+)", text)]
    state = reading.last("statesavelocation", "/var/spool").rstrip("/")
    files.append(f"{state}/jwt_hs256.key")
    if reading.last("jobcomptype").endswith("filetxt"):
        files.append(reading.last("jobcomploc") or "/var/log/slurm_jobcomp.log")
    if "lua" in reading.last("jobsubmitplugins"):
        files.append("CASE/job_submit.lua")
    for key in ("prolog", "epilog", "prologslurmctld", "epilogslurmctld"):
        files += [
            path for path in reading.keys.get(key, []) if path.startswith("/") and "*" not in path
        ]
    return files


def site(files: dict[str, str]) -> dict[str, object]:
    """What start_slurmctld.py makes for a configuration before it starts slurmctld."""
    reading, text = read(files), "\n".join(files.values())
    written = reading.keys.get("slurmctldhost", []) or reading.keys.get("controlmachine", [])
    controllers = [name for word in written for name in word.partition("(")[0].split(",")]
    host = controllers[0] if controllers else "judge"
    folders = [reading.last("statesavelocation") or "/var/spool"]
    for key in ("slurmctldlogfile", "slurmctldpidfile", "slurmschedlogfile"):
        folders.append(reading.last(key).rpartition("/")[0])
    folders = [re.sub("%[hn]", host, folder).rstrip("/") for folder in folders]
    databases = reading.keys.get("accountingstoragehost", [])
    included = re.findall(r"(?im)^\s*include\s+(/\S+)", text)
    return {
        "included": {path: path.rpartition("/")[2] for path in included},
        "host": host,
        "hosts": names_of(reading, controllers),
        "addresses": [word for word in databases if ADDRESS.fullmatch(word)],
        "user": reading.last("slurmuser") or "root",
        "folders": [f for f in folders if f.startswith("/") and f not in EVERYWHERE],
        "files": files_of(reading, text),
        "sockets": [p for p in reading.keys.get("accountingstoragepass", []) if p.startswith("/")],
        "plugins": [p for p in reading.last("plugindir").split(":") if p.startswith("/")],
        "cluster": reading.last("clustername") or "cluster",
        "database": reading.last("accountingstoragetype").endswith("slurmdbd"),
        "qos": re.findall(r"(?im)^PartitionName=.*\sQOS=([\w-]+)", text),
    }


def stage(cases: list[Case], release: str, where: Path) -> None:
    """A folder for each case as it is (NAME-raw) and as ``--fix`` leaves it (NAME-fixed)."""
    for case in cases:
        raw = where / f"{case.name}-raw"
        shutil.copytree(case.folder, raw)
        (raw / "site.json").write_text(json.dumps(site(case.files())))
        opinion = lint_existing([raw], version=release)
        if not opinion.corrections:
            continue
        fixed = where / f"{case.name}-fixed"
        shutil.copytree(raw, fixed)
        for correction in opinion.corrections:
            (fixed / Path(correction.name).relative_to(raw)).write_bytes(correction.after)
        texts = {
            path.name: path.read_bytes().decode("utf-8", "replace")
            for path in sorted(fixed.rglob("*"))
            if path.is_file() and path.name not in {"judgement.yaml", "site.json"}
        }
        (fixed / "site.json").write_text(json.dumps(site(texts)))
