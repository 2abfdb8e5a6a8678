"""What slurmdbd's database and Slurm's accounting hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Seen


@dataclass(frozen=True, slots=True)
class Database:
    """A MariaDB database whose user logs in by unix_socket: there is no password to keep.

    ``user`` is both the system user and the database user (docs/decisions/0007).
    """

    name: str
    user: str

    @property
    def id(self) -> str:
        """``database:<name>``."""
        return f"database:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def probe(self) -> Script:
        """``ready`` when the user can open the database as itself."""
        return sh(
            "runuser -u {user} -- mariadb -N -e 'SELECT 1' {name} >/dev/null 2>&1 "
            "&& echo ready || echo absent",
            user=self.user,
            name=self.name,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make database and user."""
        if seen.text == "ready":
            return None
        sql = (
            f"CREATE DATABASE IF NOT EXISTS `{self.name}`; "
            f"CREATE USER IF NOT EXISTS '{self.user}'@'localhost' IDENTIFIED VIA unix_socket; "
            f"GRANT ALL ON `{self.name}`.* TO '{self.user}'@'localhost';"
        )
        return Change(
            self.id,
            f"database {self.name} for {self.user}, by unix_socket",
            "",
            "ready",
            sh("mariadb -e {sql}", sql=sql),
        )


@dataclass(frozen=True, slots=True)
class SlurmAccounts:
    """The cluster, one account and its users in slurmdbd.

    Attributes:
        cluster: Slurm's ClusterName.
        account: account all users belong to.
        users: login names.
    """

    cluster: str
    account: str
    users: tuple[str, ...]

    @property
    def id(self) -> str:
        """``slurm-accounts:<account>``."""
        return f"slurm-accounts:{self.account}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def probe(self) -> Script:
        """Users that have an association with the account, one a line; status not 0: no answer."""
        return sh(
            "timeout 10 sacctmgr -nP show assoc cluster={cluster} account={account} format=user "
            "2>/dev/null | sort -u",
            cluster=self.cluster,
            account=self.account,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Add what is missing; nothing is removed."""
        have = set(seen.text.split())
        missing = tuple(u for u in self.users if u not in have)
        if not missing:
            return None
        return Change(
            self.id,
            f"Slurm account {self.account} with {', '.join(missing)}",
            " ".join(sorted(have)),
            " ".join(sorted(have | set(missing))),
            # sacctmgr exits 1 with "Nothing new added" when it is there already: the test after
            # it decides.
            sh(
                "{{ timeout 30 sacctmgr -i add cluster {cluster} >/dev/null 2>&1 || :; }}; "
                "{{ timeout 30 sacctmgr -i add account {account} cluster={cluster} "
                "Description=corral Organization=corral >/dev/null 2>&1 || :; }}; "
                'for u in {users}; do timeout 30 sacctmgr -i add user "$u" account={account} '
                "cluster={cluster} DefaultAccount={account} >/dev/null 2>&1 || :; done; "
                '[ "$(timeout 30 sacctmgr -nP show assoc cluster={cluster} account={account} '
                'format=user | grep -c .)" -ge {count} ]',
                cluster=self.cluster,
                account=self.account,
                users=missing,
                count=len(self.users),
            ),
        )
