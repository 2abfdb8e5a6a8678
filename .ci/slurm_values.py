"""Writes word_releases.yaml of spec.slurm from a checkout of Slurm's source (with its tags).

    .venv/bin/python .ci/slurm_values.py GIT_DIR > word_releases.yaml

Plugins are the folders of src/plugins; flags are the words that the key's parser compares with.
"""

from __future__ import annotations

import re
import sys
import textwrap

from slurm_keys import git, group, last_tags

PLUGINS = {  # key of slurm.conf: folder of src/plugins
    "AccountingStorageType": "accounting_storage",
    "AcctGatherEnergyType": "acct_gather_energy",
    "AcctGatherFilesystemType": "acct_gather_filesystem",
    "AcctGatherInterconnectType": "acct_gather_interconnect",
    "AcctGatherProfileType": "acct_gather_profile",
    "AuthAltTypes": "auth",
    "AuthType": "auth",
    "BurstBufferType": "burst_buffer",
    "CliFilterPlugins": "cli_filter",
    "CredType": "cred",
    "JobAcctGatherType": "jobacct_gather",
    "JobCompType": "jobcomp",
    "JobContainerType": "job_container",
    "JobSubmitPlugins": "job_submit",
    "MCSPlugin": "mcs",
    "MpiDefault": "mpi",
    "NodeFeaturesPlugins": "node_features",
    "PrEpPlugins": "prep",
    "PreemptType": "preempt",
    "PriorityType": "priority",
    "ProctrackType": "proctrack",
    "SchedulerType": "sched",
    "SelectType": "select",
    "SwitchType": "switch",
    "TaskPlugin": "task",
    "TopologyPlugin": "topology",
}
NO_PLUGINS = {"common", "cons_common", "other"}  # libraries of plugins
NO_FLAGS = {"cons_tres", "cray", "cray_aries"}  # TaskPluginParam's section asks for SelectType too
DEPTH = 4  # src/plugins/TYPE/NAME/
READ = "src/common/read_config.c"
FLAGS = {  # key of slurm.conf: file, where its parser begins, where it ends
    "AccountingStorageEnforce": (
        READ,
        r"^static int _validate_accounting_storage_enforce\([^;]*?\)\s*{",
        r"^}",
    ),
    "DebugFlags": (READ, r"^extern \w+ debug_str2flags\(", r"^}"),
    "PreemptMode": (
        "src/common/slurm_protocol_defs.c",
        r"^extern uint16_t preempt_mode_num\([^;]*?\)\s*{",
        r"^}",
    ),
    "PrologFlags": (READ, r"^extern uint16_t prolog_str2flags\(", r"^}"),
    "ReconfigFlags": (READ, r"^extern uint16_t reconfig_str2flags\(", r"^}"),
    "SelectTypeParameters": (
        f"{READ}|src/common/parse_config.c|src/common/node_select.c",
        r"^(?:static|extern) int _?parse_select_type_param\([^;]*?\)\s*{",
        r"^}",
    ),
    "TaskPluginParam": (READ, r'"TaskPluginParam", hashtbl\)', r'"TaskProlog"'),
}
COMPARED = re.compile(r'str(?:n?case)?(?:cmp|str)\(\s*[\w>.-]+\s*,\s*"(\w+)"')
HEAD = """\
# The words that keys of slurm.conf take: which release knows which.
#
# Generated: .ci/slurm_values.py GIT_DIR reads the folders of plugins and the parsers of flags of
# Slurm's own source at the last tag of each release, {first} to {last}. The words of the keys in
# plugins are plugins, such as select/cons_tres; the others take flags. What a group leaves out:
# since, the first release with it (all that were read); until, the first release without it.

plugins: >-
{plugins}
groups:
"""


def plugins(where: str, tag: str, folder: str) -> set[str]:
    """Plugins of a type: folders with C code or with folders."""
    listed = git(where, "ls-tree", "-r", "--name-only", tag, f"src/plugins/{folder}/").split()
    code = [path.split("/") for path in listed if path.endswith((".c", ".cc"))]
    return {parts[3] for parts in code if len(parts) > DEPTH} - NO_PLUGINS


def flags(where: str, tag: str, key: str) -> set[str]:
    """Words that the parser of a key compares with."""
    paths, begin, end = FLAGS[key]
    for path in paths.split("|"):
        text = re.sub(r"/\*.*?\*/", "", git(where, "show", f"{tag}:{path}"), flags=re.S)
        match = re.search(begin, text, re.M)
        if match:
            body = text[match.start() :]
            last = re.search(end, body, re.M)
            return set(COMPARED.findall(body[: last.start() if last else None])) - NO_FLAGS
    return set()


def main(where: str) -> None:
    """Print the table."""
    releases = last_tags(where)
    names = list(releases)
    groups: dict[tuple[str, str, str], list[str]] = {}
    for key in sorted({*PLUGINS, *FLAGS}):
        seen: dict[str, list[str]] = {}
        held: list[str] = []
        for release, tag in releases.items():
            words = plugins(where, tag, PLUGINS[key]) if key in PLUGINS else flags(where, tag, key)
            if words:
                held.append(release)
            for word in words:
                known = next((other for other in seen if other.lower() == word.lower()), word)
                seen.setdefault(known, []).append(release)
        for word, known in sorted(seen.items()):
            since = "" if known[0] == held[0] else known[0]
            # Where the type of plugins is gone, nothing is known of later releases.
            until = next((name for name in held if name > known[-1]), "")
            groups.setdefault((key, since, until), []).append(word)
    lines = "\n".join(f"  {line}" for line in textwrap.wrap(" ".join(sorted(PLUGINS)), 110))
    print(HEAD.format(first=names[0], last=names[-1], plugins=lines), end="")
    for (key, since, until), words in groups.items():
        print(group({"key": key, "since": since, "until": until}, "words", words), end="")


if __name__ == "__main__":
    main(sys.argv[1])
