"""The directory of people outside of the file: its servers, its groups and their accounts."""

from __future__ import annotations

from typing import Literal

from corral.spec.sections.people import SHELL
from corral.spec.values import (
    AbsolutePath,
    AccountName,
    DistinguishedName,
    Interval,
    KeyPath,
    LdapUri,
    Model,
    UserName,
    about,
)


class DirectoryGroup(Model):
    """A group of the directory whose members use the cluster."""

    name: UserName = about("none", "Name of the group in the directory.")
    account: AccountName = about("none", "Slurm account of its members, one of `accounts`.")
    qos: AccountName | None = about(
        "none", "QOS of their jobs that name none; left out: the account's first.", default=None
    )


class Directory(Model):
    """People of an LDAP directory, whom SSSD makes known on every node."""

    kind: Literal["ldap", "ipa", "ad"] = about(
        "none", "What the directory is; Corral sets up ldap.", default="ldap"
    )
    uris: tuple[LdapUri, ...] = about(
        "none", "Its servers, in the order in which they are asked.", min_length=1
    )
    base: DistinguishedName = about("none", "Where the entries of people and groups are below.")
    tls: Literal["on", "off"] = about(
        "none",
        "on: ldap:// begins TLS before anything else is sent (StartTLS), as ldaps:// does; off: "
        "it does not, which lint refuses where `uris` has ldap://.",
        default="on",
    )
    ca: KeyPath | None = about(
        "none",
        "File on this machine with the authority's certificate (PEM) that the servers' are signed "
        "by; left out: those that each node trusts.",
        default=None,
    )
    bind_dn: DistinguishedName | None = about(
        "none", "Entry that the nodes read the directory as; left out: anonymously.", default=None
    )
    password_file: KeyPath | None = about(
        "none",
        "File on this machine whose first line is that entry's password.",
        default=None,
    )
    group_members: Literal["names", "entries"] = about(
        "none",
        "How a group lists its members: names (memberUid, RFC 2307) or entries (member, RFC "
        "2307bis, as FreeIPA has it).",
        default="names",
    )
    homes: AbsolutePath = about(
        "none", "Folder of their homes, each made at the person's first login.", default="/home"
    )
    shell: AbsolutePath = about(
        "none", "Login shell of those whose entry names none.", default=SHELL
    )
    groups: tuple[DirectoryGroup, ...] = about(
        "none",
        "Groups whose members may log in and get a Slurm account; of two groups of one person the "
        "first one gives the default account.",
        min_length=1,
    )
    every: Interval = about(
        "none",
        "How often the controller compares members with accounts; off: at `corral up` only.",
        default="10m",
    )
