"""Answers for unattended installers: Ubuntu's autoinstall, Debian's preseed. Pure.

Wi-Fi is never configured: autoinstall keeps its default (DHCP on eth* and en*) or gets one wired
interface; Debian's netcfg gets that interface, or takes the first one with a cable.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ruamel.yaml.scalarstring import SingleQuotedScalarString

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, join, sh
from corral.providers.export_files import as_yaml
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, nodes_of
from corral.spec.providers import OWNED
from corral.spec.values import INTERFACE, SSH_KEY

System = Literal["ubuntu", "debian"]
LOCKED: Final = "!"
"""A password that nothing matches (shadow(5)): the machine is entered by key."""
_DISK: Final = re.compile(r"/dev/[A-Za-z0-9._/-]{1,200}")
_HASH: Final = re.compile(r"\$(6|y|5|2b)\$[!-9;-~]{10,300}")
_WORD: Final = re.compile(r"[A-Za-z0-9_@.+/-]{1,64}")


@dataclass(frozen=True, slots=True)
class Install:
    """What the cluster file does not state about an installation.

    Attributes:
        system: whose installer reads the files.
        keys: public keys that log in.
        disk: the disk that is erased, such as /dev/nvme0n1.
        gateway: the router with the length of the network's prefix (192.168.1.1/24): addresses are
            static; "": DHCP.
        nameservers: with static addresses; none: the router.
        interface: the wired one; "": as in the cluster file, else any with DHCP.
        password: crypt(3) hash of the login password; "": login by key only, and sudo asks nothing.
        locale: such as en_US.UTF-8.
        keyboard: layout, such as us or de.
        timezone: such as Europe/Berlin.
    """

    system: System
    keys: tuple[str, ...]
    disk: str
    gateway: str = ""
    nameservers: tuple[str, ...] = ()
    interface: str = ""
    password: str = ""
    locale: str = "en_US.UTF-8"
    keyboard: str = "us"
    timezone: str = "Etc/UTC"


@dataclass(frozen=True, slots=True)
class _Static:
    address: ipaddress.IPv4Interface
    gateway: ipaddress.IPv4Address
    nameservers: tuple[str, ...]


def autoinstall_files(spec: ClusterSpec, install: Install) -> dict[str, str]:
    """Files by name: NODE/user-data and NODE/meta-data for Ubuntu, NODE.cfg for Debian.

    Raises:
        CorralError: SPEC_INVALID, a group that this cannot install; USAGE, a value.
    """
    _check(install)
    files: dict[str, str] = {}
    for node in nodes_of(spec):
        _check_node(node)
        wired = _interface(spec, install)
        static = _static(node, install) if install.gateway else None
        if static and not wired:
            raise CorralError(
                Code.USAGE,
                "a static address needs the name of the wired interface",
                hint="write --interface eno1, or network: {data: {interface: eno1}} in the file",
            )
        if install.system == "debian":
            files[f"{node.name}.cfg"] = _preseed(node, install, wired, static)
        else:
            data = {"autoinstall": _autoinstall(node, install, wired, static)}
            files[f"{node.name}/user-data"] = "#cloud-config\n" + as_yaml(_quoted(data))
            files[f"{node.name}/meta-data"] = f"instance-id: {spec.name}-{node.name}\n"
    return files


def reservations(spec: ClusterSpec, install: Install) -> tuple[str, ...]:
    """Addresses that the DHCP server has to give, as the cluster file has them."""
    if install.gateway:
        return ()
    return tuple(f"{n.name} {n.address}" for n in nodes_of(spec) if n.address)


def boot_parameters(spec: ClusterSpec, install: Install) -> dict[str, str]:
    """What the kernel of Debian's installer has to be given where no DHCP server answers, by node.

    The installer configures the network before it can fetch a file over it.
    """
    wired = _interface(spec, install)
    return {
        node.name: " ".join(
            f'{name}="{value}"' if " " in value else f"{name}={value}"
            for name, _, value in (
                ("netcfg/choose_interface", "select", wired or "auto"),
                *_netcfg(_static(node, install)),
            )
        )
        for node in (nodes_of(spec) if install.gateway else ())
    }


def _check(install: Install) -> None:
    wrong: list[tuple[str, str]] = []
    if not install.keys or not all(re.fullmatch(SSH_KEY.pattern, key) for key in install.keys):
        wrong.append(("no public key in OpenSSH's form", "give ~/.ssh/id_ed25519.pub"))
    if not _DISK.fullmatch(install.disk):
        wrong.append((f"invalid disk {install.disk!r}", "write one such as /dev/nvme0n1"))
    if install.password and not _HASH.fullmatch(install.password):
        wrong.append(("invalid password hash", "make one: openssl passwd -6"))
    if install.interface and not re.fullmatch(INTERFACE.pattern, install.interface):
        wrong.append((f"invalid interface {install.interface!r}", "write one such as eno1"))
    for what, value in (
        ("locale", install.locale),
        ("keyboard layout", install.keyboard),
        ("time zone", install.timezone),
    ):
        if not _WORD.fullmatch(value):
            wrong.append((f"invalid {what} {value!r}", "see corral export autoinstall --help"))
    for message, hint in wrong:
        raise CorralError(Code.USAGE, message, hint=hint)


def _check_node(node: Node) -> None:
    if not node.group.capabilities.owned:
        raise CorralError(
            Code.SPEC_INVALID,
            f"{node.name} is of provider {node.group.provider}: it comes installed",
            hint=f"export a cluster whose groups are of provider {OWNED}",
        )
    if node.group.ssh.user == "root":
        raise CorralError(
            Code.SPEC_INVALID,
            f"group {node.group.name} logs in as root, and the installers make a user with sudo",
            hint=f"write ssh: {{user: alice}} in group {node.group.name}",
        )


def _interface(spec: ClusterSpec, install: Install) -> str:
    declared = spec.network.data.interface if spec.network.data else None
    return install.interface or declared or ""


def _static(node: Node, install: Install) -> _Static:
    try:
        gateway = ipaddress.IPv4Interface(install.gateway)
        names = [str(ipaddress.IPv4Address(name)) for name in install.nameservers]
    except ValueError as error:
        raise CorralError(
            Code.USAGE, f"invalid gateway or nameserver: {error}", hint="write 192.168.1.1/24"
        ) from error
    if "/" not in install.gateway:
        raise CorralError(
            Code.USAGE, f"{install.gateway} has no prefix length", hint="write 192.168.1.1/24"
        )
    try:
        address = ipaddress.IPv4Address(node.address)
    except ValueError as error:
        raise CorralError(
            Code.SPEC_INVALID,
            f"{node.name} has no IPv4 address in the cluster file",
            hint="write addresses in its group, or leave --gateway out for DHCP",
        ) from error
    network = gateway.network
    taken = (gateway.ip, network.network_address, network.broadcast_address)
    if address not in network or address in taken:
        raise CorralError(
            Code.USAGE,
            f"{node.name} cannot have {address} in {network} with the router {gateway.ip}",
            hint="compare --gateway with the group's addresses",
        )
    own = ipaddress.IPv4Interface(f"{address}/{network.prefixlen}")
    return _Static(own, gateway.ip, tuple(names) or (str(gateway.ip),))


def _sudo(user: str) -> Script:
    """Without a password there is none to ask for; nothing here holds a backslash (preseed)."""
    return sh(
        "echo {rule} > /target/etc/sudoers.d/90-corral-install"
        " && chmod 440 /target/etc/sudoers.d/90-corral-install",
        rule=f"{user} ALL=(ALL) NOPASSWD: ALL",
    )


def _autoinstall(
    node: Node, install: Install, wired: str, static: _Static | None
) -> dict[str, Any]:
    """See autoinstall-reference of Canonical's subiquity for each key."""
    user = node.group.ssh.user
    data: dict[str, Any] = {
        "version": 1,
        "locale": install.locale,
        "keyboard": {"layout": install.keyboard},
        "timezone": install.timezone,
        "identity": {
            "username": user,
            "hostname": node.name,
            "password": install.password or LOCKED,
        },
        "ssh": {"install-server": True, "authorized-keys": [*install.keys], "allow-pw": False},
        "storage": {"layout": {"name": "direct", "match": {"path": install.disk}}},
        "updates": "security",
        "shutdown": "reboot",
    }
    if wired:
        data["network"] = {"version": 2, "ethernets": {wired: _netplan(static)}}
    if not install.password:
        data["late-commands"] = [str(_sudo(user))]
    return data


def _quoted(value: Any) -> Any:
    """The installer reads YAML 1.1, where the keyboard layout ``no`` is false."""
    if isinstance(value, dict):
        return {key: _quoted(item) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [_quoted(item) for item in value]  # pyright: ignore
    return SingleQuotedScalarString(value) if isinstance(value, str) else value


def _netplan(static: _Static | None) -> dict[str, Any]:
    if static is None:
        return {"dhcp4": True}
    return {
        "dhcp4": False,
        "addresses": [str(static.address)],
        "routes": [{"to": "default", "via": str(static.gateway)}],
        "nameservers": {"addresses": [*static.nameservers]},
    }


def _preseed(node: Node, install: Install, wired: str, static: _Static | None) -> str:
    """See appendix B of Debian's installation guide for each question."""
    user = node.group.ssh.user
    rows = [
        ("preseed/early_command", "string", _AGAIN),
        ("debian-installer/locale", "string", install.locale),
        ("keyboard-configuration/xkb-keymap", "select", install.keyboard),
        ("netcfg/choose_interface", "select", wired or "auto"),
        ("netcfg/get_hostname", "string", node.name),
        ("netcfg/hostname", "string", node.name),
        ("netcfg/get_domain", "string", ""),
        *(_netcfg(static) if static else ()),
        ("mirror/http/proxy", "string", ""),
        ("passwd/root-login", "boolean", "false"),
        ("passwd/user-fullname", "string", user),
        ("passwd/username", "string", user),
        ("passwd/user-password-crypted", "password", install.password or LOCKED),
        ("clock-setup/utc", "boolean", "true"),
        ("clock-setup/ntp", "boolean", "true"),
        ("time/zone", "string", install.timezone),
        ("partman-auto/disk", "string", install.disk),
        ("partman-auto/method", "string", "regular"),
        ("partman-auto/choose_recipe", "select", "atomic"),
        ("partman-lvm/device_remove_lvm", "boolean", "true"),
        ("partman-md/device_remove_md", "boolean", "true"),
        ("partman-partitioning/confirm_write_new_label", "boolean", "true"),
        ("partman/choose_partition", "select", "finish"),
        ("partman/confirm", "boolean", "true"),
        ("partman/confirm_nooverwrite", "boolean", "true"),
        ("pkgsel/include", "string", "openssh-server sudo"),
        ("grub-installer/only_debian", "boolean", "true"),
        ("grub-installer/bootdev", "string", install.disk),
        ("preseed/late_command", "string", _late(user, install)),
        ("finish-install/reboot_in_progress", "note", ""),
    ]
    lines = [f"d-i {name} {kind} {value}".rstrip() for name, kind, value in rows]
    lines.insert(-2, "tasksel tasksel/first multiselect standard, ssh-server")
    return "\n".join(["#_preseed_V1", *lines]) + "\n"


_AGAIN: Final = "[ ! -e /etc/network/interfaces ] || { kill-all-dhcp; netcfg; }"
"""The network again, now with name and address of this file: before it is fetched all machines are
called debian, with an address by DHCP. Without a network yet, a later step configures it."""


def _netcfg(static: _Static) -> Sequence[tuple[str, str, str]]:
    return (
        ("netcfg/disable_autoconfig", "boolean", "true"),
        ("netcfg/get_ipaddress", "string", str(static.address.ip)),
        ("netcfg/get_netmask", "string", str(static.address.netmask)),
        ("netcfg/get_gateway", "string", str(static.gateway)),
        ("netcfg/get_nameservers", "string", " ".join(static.nameservers)),
        ("netcfg/confirm_static", "boolean", "true"),
    )


def _late(user: str, install: Install) -> str:
    """Keys, sshd without passwords, sudo: the installer runs it in its own shell, on one line."""
    folder = f"/target/home/{user}/.ssh"
    commands = [
        sh("mkdir -p -m 700 {folder}", folder=folder),
        *(
            sh("echo {key} >> {file}", key=k, file=f"{folder}/authorized_keys")
            for k in install.keys
        ),
        sh("chmod 600 {file}", file=f"{folder}/authorized_keys"),
        sh("in-target chown -R {owner} {home}", owner=f"{user}:", home=f"/home/{user}/.ssh"),
        sh("echo PasswordAuthentication no > /target/etc/ssh/sshd_config.d/50-corral-install.conf"),
    ]
    if not install.password:
        commands.append(_sudo(user))
    return str(join(commands, " && "))
