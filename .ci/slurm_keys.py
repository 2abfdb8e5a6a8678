"""Writes key_releases.yaml of spec.slurm from a checkout of Slurm's source (with its tags).

    .venv/bin/python .ci/slurm_keys.py GIT_DIR > key_releases.yaml

Reads the tables of options of each release's last maintenance version.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

TABLE = re.compile(r"s_p_options_t\s+(\w+)\[\]\s*=\s*\{(.*?)\{\s*(?:\.key\s*=\s*)?NULL\s*\}", re.S)
ENTRY = re.compile(r'\{\s*(?:\.key\s*=\s*)?"([^"]+)"\s*,\s*(?:\.type\s*=\s*)?(S_P_\w+)([^}]*)\}')
GRES = "src/interfaces/gres.c|src/common/gres.c"
WHERE = (  # file, first key of the line, source file with the table, name of the table
    ("slurm.conf", "", "src/common/read_config.c", "slurm_conf_options"),
    ("slurm.conf", "NodeName", "src/common/read_config.c", "_nodename_options"),
    ("slurm.conf", "PartitionName", "src/common/read_config.c", "_partition_options"),
    ("slurm.conf", "DownNodes", "src/common/read_config.c", "_downnodes_options"),
    ("slurm.conf", "NodeSet", "src/common/read_config.c", "_nodeset_options"),
    ("slurm.conf", "FrontendName", "src/common/read_config.c", "_frontend_options"),
    ("gres.conf", "", GRES, "_gres_conf_options|_gres_options"),
    ("gres.conf", "Name", GRES, "_gres_options"),
    (
        "cgroup.conf",
        "",
        "src/interfaces/cgroup.c|src/common/cgroup.c|src/common/xcgroup_read_config.c"
        "|src/slurmd/common/xcgroup_read_config.c",
        "options",
    ),
    ("slurmdbd.conf", "", "src/slurmdbd/read_config.c", "options"),
    (
        "topology.conf",
        "SwitchName",
        "src/plugins/topology/tree/switch_record.c|src/plugins/topology/tree/topology_tree.c",
        "_switch_options",
    ),
    ("topology.conf", "", "src/plugins/topology/block/block_record.c", "block_options"),
    ("topology.conf", "BlockName", "src/plugins/topology/block/block_record.c", "_block_options"),
)
MARK = {  # a key that every release's table holds
    "slurm.conf": "State",
    "gres.conf": "Count",
    "cgroup.conf": "ConstrainCores",
    "slurmdbd.conf": "DbdHost",
    "topology.conf": "Nodes",
}
MARKS = {
    "slurm.conf ": "ClusterName",
    "slurm.conf NodeSet": "Nodes",
    "gres.conf ": "NodeName",
    "topology.conf ": "BlockSizes",
}
HEAD = """\
# The keys of Slurm's files: which release knows which.
#
# Generated: .ci/slurm_keys.py GIT_DIR reads the options tables (s_p_options_t) of Slurm's own
# source at the last tag of each release, {first} to {last}. What a group leaves out: line, the
# first key of its lines; since, the first release with it (all that were read); until, the first
# release without it; dead, the first release that reads it and ignores it with an error. A suffix
# marks what is special about a key: * may stand more than once, ? is yes or no, # is a number.

first: '{first}'
last: '{last}'
groups:
"""


def group(fields: dict[str, str], name: str, words: list[str]) -> str:
    """One group as YAML, without what is empty; its words come last, folded."""
    rows = [f"{key}: '{value}'" for key, value in fields.items() if value]
    folded = textwrap.wrap(" ".join(words), 110)
    return "  - " + "\n    ".join([*rows, f"{name}: >-", *(f"  {line}" for line in folded)]) + "\n"


def git(where: str, *argv: str) -> str:
    """What git prints, "" when it fails."""
    command = ["git", f"--git-dir={where}", *argv]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def last_tags(where: str) -> dict[str, str]:
    """The last maintenance version of each release."""
    newest: dict[str, tuple[int, int, str]] = {}
    for tag in git(where, "tag").split():
        match = re.fullmatch(r"slurm-(\d\d)-(\d\d)-(\d+)-(\d)", tag)
        if match and match[1] >= "14":
            release = f"{match[1]}.{match[2]}"
            this = (int(match[3]), int(match[4]), tag)
            newest[release] = max(newest.get(release, (0, 0, "")), this)
    return {release: newest[release][2] for release in sorted(newest)}


def table_of(where: str, tag: str, paths: str, table: tuple[str, str]) -> str | None:
    """The body of the table of that name; several have one name, one key distinguishes them."""
    name, key = table
    for path in paths.split("|"):
        text = re.sub(r"/\*.*?\*/", "", git(where, "show", f"{tag}:{path}"), flags=re.S)
        for array, body in TABLE.findall(text):
            if array in name.split("|") and f'"{key}"' in body:
                return body
    return None


def suffix(kind: str) -> str:
    """What is special about keys of this type."""
    if kind in ("S_P_ARRAY", "S_P_LINE", "S_P_EXPLINE"):
        return "*"
    if kind == "S_P_BOOLEAN":
        return "?"
    return "#" if "INT" in kind or "LONG" in kind else ""


def main(where: str) -> None:
    """Print the table."""
    releases = last_tags(where)
    names = list(releases)
    groups: dict[tuple[str, str, str, str, str], list[str]] = {}
    for file, line, paths, table in WHERE:
        seen: dict[str, dict[str, tuple[str, str, bool]]] = {}
        there: set[str] = set()
        for release, tag in releases.items():
            body = table_of(where, tag, paths, (table, MARKS.get(f"{file} {line}", MARK[file])))
            if body is None:
                continue
            there.add(release)
            for key, kind, more in ENTRY.findall(body):
                seen.setdefault(key.lower(), {})[release] = (key, suffix(kind), "_defunct" in more)
        first = min(there) if there else ""
        for releases_of in seen.values():
            known = sorted(releases_of)
            since = "" if known[0] == first else known[0]
            if first != names[0] and not since:
                since = first  # the entire table came with that release
            after = [name for name in names if name > known[-1]]
            until = after[0] if after else ""
            dead = next((name for name in known if releases_of[name][2]), "")
            key, kind, _ = releases_of[known[-1]]
            groups.setdefault((file, line, since, until, dead), []).append(key + kind)
    print(HEAD.format(first=names[0], last=names[-1]), end="")
    for (file, line, since, until, dead), keys in groups.items():
        fields = {"file": file, "line": line, "since": since, "until": until, "dead": dead}
        print(group(fields, "keys", keys), end="")


if __name__ == "__main__":
    main(sys.argv[1])
