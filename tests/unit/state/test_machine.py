"""Links, clocks, held packages, open ports and moved users: their real shell, with fake tools."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Seen
from corral.state.files import Link, masked
from corral.state.network.firewall import Closed, Open, Ports, exactly
from corral.state.packages import Holds
from corral.state.system.clock import Clock
from corral.state.system.kernel import Reboot
from corral.state.system.users import UserAccount
from tests.unit.state.shell import diff, run

PORTS = Ports(
    exactly(["10.0.0.12", "10.0.0.10", "10.0.0.11"]), ((6817, 6817), (32768, 63000)), ((123, 123),)
)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs come first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def tool(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def program(path: Path, text: str, word: str = "") -> str:
    path.write_text(text)
    done = subprocess.run(["/bin/sh", path, *word.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_link_converges_over_whatever_is_there(tmp_path: Path) -> None:
    path = tmp_path / "sleep.target"
    link = Link(str(path), "/dev/null")
    change = diff(link)
    assert change is not None
    run(change)
    assert str(path.readlink()) == "/dev/null"
    assert diff(link) is None
    path.unlink()
    path.write_text("[Unit]\n")
    change = diff(link)
    assert change is not None
    run(change)
    assert diff(link) is None


def test_a_mask_reloads_systemd() -> None:
    change = masked("sleep.target", "no sleep").diff(Seen(0, "absent"), Context("n"))
    assert change is not None
    assert change.script.endswith("systemctl daemon-reload")


@pytest.mark.parametrize(
    ("output", "word"),
    [
        ("System time     : 0.000012 seconds slow of NTP time\nLeap status     : Normal", "good"),
        ("System time     : 1.500000 seconds fast of NTP time\nLeap status     : Normal", "off"),
        ("System time     : 0.0 seconds slow of NTP time\nLeap status     : Not synchronised",
         "unsynchronised"),
        ("506 Cannot talk to daemon", "absent"),
        ("", "absent"),
    ],
)  # fmt: skip
def test_a_clock_is_a_word_and_never_a_figure(tools: Path, output: str, word: str) -> None:
    tool(tools, "chronyc", f"echo '{output}'")
    change = diff(Clock())
    assert (change is None) == (word == "good")
    if change is not None:
        assert change.before == word


def test_a_clock_that_stays_wrong_fails_and_one_that_is_set_does_not(tools: Path) -> None:
    good = "System time     : 0.1 seconds slow of NTP time\\nLeap status     : Normal"
    far = "System time     : 900.0 seconds slow of NTP time\\nLeap status     : Normal"
    stepped = tools / "stepped"
    tool(tools, "sleep", ":")
    tool(
        tools,
        "chronyc",
        f'case $* in *tracking) if [ -e {stepped} ]; then echo "{good}"; else echo "{far}"; fi | '
        f"sed 's/\\\\n/\\n/';; makestep) [ ! -e {tools}/may ] || touch {stepped};; esac",
    )
    change = diff(Clock())
    assert change is not None
    with pytest.raises(AssertionError, match="not within 5"):
        run(change)
    (tools / "may").touch()
    run(change)
    assert diff(Clock()) is None


def test_packages_are_held_that_are_there_or_that_come(tools: Path) -> None:
    tool(
        tools,
        "dpkg-query",
        "echo 'install installed slurmd'; echo 'hold installed libslurm42'; "
        "echo 'deinstall config-files slurm-old'",
    )
    holds = Holds("slurm", ("slurm*",), ("packages:slurmd",))
    change = diff(holds)
    assert change is not None
    assert (change.before, change.keeps) == ("slurmd", ("hold:slurmd",))
    coming = {"packages:slurmd": Change("packages:slurmd", "", "", "", change.script)}
    assert holds.diff(Seen(0, ""), Context("n")) is None
    assert holds.diff(Seen(0, ""), Context("n", coming)) is not None


def test_addresses_become_no_network_that_holds_another_one() -> None:
    assert exactly(f"10.0.0.{n}" for n in (8, 9, 10, 11, 13)) == ("10.0.0.8/30", "10.0.0.13")


def test_ufw_gets_what_is_missing_and_loses_what_is_old(tools: Path, tmp_path: Path) -> None:
    rules = tmp_path / "user.rules"
    rules.write_text(
        "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in\n"
        "### tuple ### allow tcp 6817,32768:63000 0.0.0.0/0 any 10.0.0.12 in "
        "comment=636f7272616c\n"
        "### tuple ### allow tcp 6817 0.0.0.0/0 any 10.0.0.99 in comment=636f7272616c\n"
    )
    tool(tools, "ufw", f'echo "$*" >> {tmp_path}/log')
    text = PORTS.text("ufw").replace("/etc/ufw/user.rules", str(rules))
    assert program(tmp_path / "p", text, "check") == "closed"
    program(tmp_path / "p", text)
    assert (tmp_path / "log").read_text().splitlines() == [
        "delete allow proto tcp from 10.0.0.99 to any port 6817",
        "allow proto tcp from 10.0.0.10/31 to any port 6817,32768:63000 comment corral",
        "allow proto udp from 10.0.0.10/31 to any port 123 comment corral",
        "allow proto udp from 10.0.0.12 to any port 123 comment corral",
    ]
    (tmp_path / "log").unlink()
    program(tmp_path / "p", text, "remove")
    log = (tmp_path / "log").read_text()
    assert log.count("delete") == 2
    assert "22" not in log.split()


def test_nftables_rules_go_first_in_every_chain_that_filters(tools: Path, tmp_path: Path) -> None:
    ruleset = """\
table inet filter { # handle 1
	chain input { # handle 1
		type filter hook input priority filter; policy drop;
		ip saddr 10.9.9.9 tcp dport 6817 accept comment "corral-0123456789ab" # handle 7
		iif "lo" accept # handle 2
	}
	chain output { # handle 3
		type filter hook output priority filter; policy accept;
	}
}
table ip6 filter { # handle 4
	chain input { # handle 1
		type filter hook input priority filter; policy drop;
	}
}
"""
    (tmp_path / "ruleset").write_text(ruleset)
    tool(
        tools,
        "nft",
        f'case "$*" in "-f -") cat > {tmp_path}/batch;; *) cat {tmp_path}/ruleset;; esac',
    )
    text = PORTS.text("nftables")
    assert program(tmp_path / "p", text, "check") == "closed"
    program(tmp_path / "p", text)
    tag = text.partition("tag=")[2].split()[0]
    sources = "ip saddr { 10.0.0.10/31,10.0.0.12 }"
    assert (tmp_path / "batch").read_text().splitlines() == [
        f"insert rule inet filter input {sources} tcp dport {{ 6817,32768-63000 }} counter accept "
        f'comment "{tag}"',
        f"insert rule inet filter input {sources} udp dport {{ 123 }} counter accept "
        f'comment "{tag}"',
        "delete rule inet filter input handle 7",
    ]
    done = ruleset.replace("corral-0123456789ab", tag)
    (tmp_path / "ruleset").write_text(done)
    assert program(tmp_path / "p", text, "check") == "closed", "two rules are wanted"
    line = next(line for line in done.splitlines() if tag in line)
    (tmp_path / "ruleset").write_text(done.replace(line, f"{line}\n{line}"))
    assert program(tmp_path / "p", text, "check") == "open"
    program(tmp_path / "p", text, "remove")
    assert (tmp_path / "batch").read_text() == "delete rule inet filter input handle 7\n" * 2


def test_ports_open_again_and_are_taken_back() -> None:
    assert Open("ufw").diff(Seen(0, "open"), Context("n")) is None
    assert Open("ufw").diff(Seen(0, "closed"), Context("n")) is not None
    assert Closed().diff(Seen(0, ""), Context("n")) is None
    change = Closed().diff(Seen(0, "there"), Context("n"))
    assert change is not None
    assert "firewall_remove /usr/local/sbin/corral-firewall" in change.script


def test_a_reboot_states_its_reasons() -> None:
    seen = Seen(0, "required\ndriver:none:580.178.04\nnouveau")
    change = Reboot(required=True, driver=True).diff(seen, Context("n"))
    assert change is not None
    assert change.impact is Impact.REBOOT
    assert change.summary == (
        "reboot (its packages ask for one, NVIDIA driver 580.178.04 is installed, none is loaded, "
        "nouveau is loaded)"
    )
    assert Reboot(required=True).diff(Seen(0, ""), Context("n")) is None
    assert diff(Reboot(driver=True)) is None, "this machine has no driver"


def test_a_services_files_move_with_its_number(tmp_path: Path) -> None:
    """First the files, then the number: a crash between the two is seen by the next plan."""
    folder = tmp_path / "munge"
    account = UserAccount(
        "munge", 64032, "/nonexistent", system=True, owns=(str(folder),), units=("munge",)
    )
    seen = Seen(0, "passwd\nmunge:x:101:102::/nonexistent:/bin/false\ngroup\nmunge:x:102:")
    change = account.diff(seen, Context("n"))
    assert change is not None
    move = f"\nservice_files_move 101 102 64032 munge -- {folder}\n}} && {{"
    assert change.script.index("systemctl stop") < change.script.index("-uid")
    assert move in change.script
    assert change.script.index(move) < change.script.index("\nuser_renumber munge 64032 groupmod")
