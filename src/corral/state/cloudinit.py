"""cloud-init kept off a machine's host name and /etc/hosts. Pure.

A file in cloud.cfg.d sets it and wins over the image's own. It does not win over the user-data that
the machine was made with (cloud-init 25.1, seen): with ``manage_etc_hosts: true`` there, each boot
writes /etc/hosts from a template, the machine's own name on 127.0.1.1 first (F06). So a unit behind
cloud-init writes the managed block again.
"""

from __future__ import annotations

from typing import Final

from corral.state.base import Impact, Resource
from corral.state.files import File
from corral.state.host_names import HostsBlock
from corral.state.service import Service

CONF: Final = "/etc/cloud/cloud.cfg.d/99-corral.cfg"
PROGRAM: Final = "/usr/local/sbin/corral-hosts"
UNIT: Final = "/etc/systemd/system/corral-hosts.service"

CONF_TEXT: Final = """\
# Written by Corral: host name and /etc/hosts are the cluster's.
preserve_hostname: true
manage_etc_hosts: false
"""
# cloud-init.service is called cloud-init-network.service from 24.3 on. Daemons of Slurm look up
# names when they start.
_UNIT_TEXT: Final = f"""\
# Written by Corral: the cluster's names in /etc/hosts, after cloud-init wrote its own.
[Unit]
Description=Names of the Corral cluster in /etc/hosts
After=cloud-init.service cloud-init-network.service
Before=slurmctld.service slurmdbd.service slurmd.service sackd.service munge.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={PROGRAM}

[Install]
WantedBy=multi-user.target
"""


def kept_off(hosts: HostsBlock) -> tuple[Resource, ...]:
    """What a machine with cloud-init holds beyond its hosts file."""
    text = f"#!/bin/sh\n# Written by Corral.\n{hosts.write()}\n"
    return (
        File(CONF, CONF_TEXT),
        File(PROGRAM, text, mode="755"),
        File(UNIT, _UNIT_TEXT),
        Service("corral-hosts", (PROGRAM, UNIT), impact=Impact.NONE),
    )
