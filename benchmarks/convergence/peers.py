"""The same work written for ansible-core and pyinfra, in each one's own best way.

Ansible: pipelining, ControlPersist, facts off, forks for all nodes, loops only where a module takes
no list. pyinfra: all nodes in parallel, one operation per action.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.convergence import work

Inventory = dict[str, dict[str, str]]


def ansible(folder: Path, inventory: Inventory) -> list[str]:
    """Write inventory, configuration and playbook; gives the command (run it in ``folder``)."""
    hosts = {}
    for name, at in inventory.items():
        proxy = f"-o ProxyCommand='{at['proxy']}' " if at["proxy"] else ""
        hosts[name] = {
            "ansible_host": at["address"],
            "ansible_user": "root",
            "ansible_ssh_private_key_file": at["key"],
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_common_args": f"{proxy}-o UserKnownHostsFile={at['known_hosts']} "
            f"-o HostKeyAlias={name}",
        }
    (folder / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    (folder / "ansible.cfg").write_text(
        f"[defaults]\nforks = {max(len(inventory), 8)}\ngathering = explicit\n"
        "[ssh_connection]\npipelining = True\n"
        "ssh_args = -o ControlMaster=auto -o ControlPersist=60s\n"
        f"control_path_dir = {folder}/cp\n"
    )
    tasks: list[dict[str, object]] = []
    for path in work.DIRECTORIES:
        tasks.append({"ansible.builtin.file": {"path": path, "state": "directory", "mode": "0755"}})
    for path, text in work.FILES.items():
        tasks.append({"ansible.builtin.copy": {"dest": path, "content": text, "mode": "0640"}})
    for name, uid in work.USERS.items():
        tasks.append({"ansible.builtin.user": {"name": name, "uid": uid, "shell": "/bin/bash"}})
    for name in work.PACKAGES:
        tasks.append({"ansible.builtin.apt": {"name": name, "state": "present"}})
    for name in work.SERVICES:
        args = {"name": name, "state": "started", "enabled": True}
        tasks.append({"ansible.builtin.systemd_service": args})
    play = [{"hosts": "all", "gather_facts": False, "tasks": tasks}]
    (folder / "play.json").write_text(json.dumps(play))
    return ["ansible-playbook", "-i", "inventory.json", "play.json"]


def pyinfra(folder: Path, inventory: Inventory) -> list[str]:
    """Write inventory and deploy script; gives the command (run it in ``folder``)."""
    config = [
        f"Host {at['address']}\n  HostName {at['address']}\n  ProxyCommand {at['proxy']}\n"
        for at in inventory.values()
        if at["proxy"]
    ]
    (folder / "ssh_config").write_text("".join(config))
    hosts = [
        (
            at["address"],
            {
                "ssh_user": "root",
                "ssh_key": at["key"],
                "ssh_strict_host_key_checking": "no",
                "ssh_known_hosts_file": str(folder / "known_hosts"),
                "ssh_config_file": str(folder / "ssh_config"),
            },
        )
        for at in inventory.values()
    ]
    (folder / "hosts.py").write_text(f"bench = {hosts!r}\n")
    (folder / "deploy.py").write_text(
        "import io\n"
        "from pyinfra.operations import apt, files, server, systemd\n"
        f"for path in {list(work.DIRECTORIES)!r}:\n"
        "    files.directory(path=path, mode='755')\n"
        f"for path, text in {work.FILES!r}.items():\n"
        "    files.put(src=io.StringIO(text), dest=path, mode='640')\n"
        f"for name, uid in {work.USERS!r}.items():\n"
        "    server.user(user=name, uid=uid, shell='/bin/bash')\n"
        f"for name in {list(work.PACKAGES)!r}:\n"
        "    apt.packages(packages=[name])\n"
        f"for name in {list(work.SERVICES)!r}:\n"
        "    systemd.service(service=f'{name}.service', running=True, enabled=True)\n"
    )
    return ["pyinfra", "hosts.py", "deploy.py", "-y", "--parallel", str(max(len(inventory), 8))]
