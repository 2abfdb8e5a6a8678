"""Profiles on this machine: logins to clusters as a user without root.

None holds a secret, but that of a login by slurmrestd its token, in a file for its owner alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.runtime.private_file import write_private
from corral.spec.client import ClientSpec, Profile, client_spec, read_client
from corral.state_dir import VARIABLE, cluster_dir, state_dir

FILE: Final = "profile.json"
KNOWN_HOSTS: Final = "known_hosts"
TOKEN: Final = "token"  # noqa: S105  # the file's name
"""A token for slurmrestd: the only secret that a profile may hold."""


def profiles() -> tuple[str, ...]:
    """Names of the profiles of this machine's user, sorted."""
    folder = _folder()
    if not folder.is_dir():
        return ()
    return tuple(sorted(p.parent.name for p in folder.glob(f"[!.]*/{FILE}")))


def profile_spec(name: str) -> ClientSpec | None:
    """The cluster of a profile; None where the profile does not exist.

    Raises:
        CorralError: PARSE_FAILED, it is a newer Corral's or damaged; USAGE, no name.
    """
    folder = place_of(name)
    try:
        text = (folder / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.PARSE_FAILED, f"profile {name} cannot be read", tail=str(error), hint=_again(name)
        ) from error
    profile = read_client(text, Profile, f"profile {name}", _again(name))
    return client_spec(profile, folder / KNOWN_HOSTS)


def logout(name: str) -> None:
    """Remove a profile from this machine; nothing changes on the cluster.

    Raises:
        CorralError: NOT_FOUND, the profile does not exist; USAGE, no name.
    """
    folder = place_of(name)
    if not (folder / FILE).is_file():
        known = ", ".join(profiles())
        raise CorralError(
            Code.NOT_FOUND,
            f"no profile called {name}",
            hint=f"profiles here: {known}" if known else "corral login USER@HOST makes one",
        )
    shutil.rmtree(folder)


def token_of(spec: ClientSpec) -> str:
    """The token of a profile that reaches its cluster by slurmrestd.

    Raises:
        CorralError: LOGIN_REFUSED, it is not there.
    """
    try:
        return Path(spec.known_hosts).with_name(TOKEN).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.LOGIN_REFUSED,
            f"the token of profile {spec.profile.name} cannot be read",
            tail=str(error),
            hint=f"corral login {spec.profile.user}@ --rest {spec.profile.rest} stores another",
        ) from error


def keep(profile: Profile, known_hosts: str, *, token: str = "") -> None:
    """Write a profile and its host keys, in place of one of the same name.

    Args:
        profile: the login.
        known_hosts: lines of OpenSSH's known_hosts, with the node as the name.
        token: for slurmrestd; "" for a login by ssh.

    Raises:
        CorralError: USAGE, a cluster of that name was brought up from here; PROVIDER_FAILED, the
            folder cannot be written.
    """
    folder = place_of(profile.name)
    if (cluster_dir(profile.name, create=False) / "journal.jsonl").is_file():
        raise CorralError(
            Code.USAGE,
            f"a cluster called {profile.name} was brought up from here",
            hint="choose another name for the profile: --name NAME",
        )
    others = tuple(each.model_copy(update={"host_keys": ()}) for each in profile.login_nodes)
    stored = profile.model_copy(update={"host_keys": (), "login_nodes": others})
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The keys first: a profile that is there is complete.
        write_private(folder / KNOWN_HOSTS, known_hosts)
        if token:
            write_private(folder / TOKEN, f"{token}\n")
        else:
            (folder / TOKEN).unlink(missing_ok=True)
        write_private(folder / FILE, stored.text())
    except OSError as error:
        raise CorralError(
            Code.PROVIDER_FAILED,
            f"the profile cannot be written to {folder}: {error.strerror}",
            hint=f"make it writable, or name another folder in ${VARIABLE}",
        ) from error


def place_of(name: str) -> Path:
    """The folder of a profile.

    Raises:
        CorralError: USAGE, the name could leave the folder of all profiles.
    """
    return _folder() / cluster_dir(name, create=False).name


def _folder() -> Path:
    return state_dir() / "profiles"


def _again(name: str) -> str:
    return (
        f"corral logout {name}, then corral login USER@HOST (or USER@ --rest URL) makes a new one"
    )
