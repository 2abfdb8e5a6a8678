"""Accounts in slurmdbd: observed (as sacctmgr 24.11.5 prints it) and wanted give the commands."""

from __future__ import annotations

import shlex

from corral.state.base import Change, Context, Seen
from corral.state.slurm.accounts import (
    Account,
    Limit,
    Member,
    Quality,
    SlurmAccounts,
    parse,
    qos_fields,
)

# Recorded from sacctmgr 24.11.5.
SEEN = """@assoc
root|||1||||normal|
root|root||1||||normal|
corral||root|1||||normal|
corral|corral||1||||normal|
vision||root|5||||high,low|low
vision|alice||1|gres/gpu=1|||high,low|low
vision|eve||7|cpu=3|||normal|
@account
corral|corral
root|default root account
vision|corral
@user
alice|vision
corral|corral
eve|vision
root|root
@qos
normal|Normal QOS default|0||||||||
high|corral|100|low|1-00:00:00|gres/gpu=4,mem=10G|5|9|cpu=4,gres/gpu=1|3|7
low|corral|0||||||||"""
EMPTY = "@assoc\n@account\n@user\n@qos\nnormal|Normal QOS default|0||||||||"
VISION = Account("vision", "root", 5, Limit(), ("low", "high"), "low")
ALICE = Member("alice", "vision", 1, Limit((("gres/gpu", 1),)), ("low", "high"), "low")
HIGH = Quality(
    "high",
    100,
    ("low",),
    "1-00:00:00",
    Limit((("gres/gpu", 4), ("mem", 10240)), 5, 9),
    Limit((("cpu", 4), ("gres/gpu", 1)), 3, 7),
)
CORRAL = Member("corral", "corral")
DESIRED = SlurmAccounts("lab", (VISION, Account("corral")), (ALICE, CORRAL), (HIGH, Quality("low")))


def diff(accounts: SlurmAccounts, seen: str = SEEN) -> Change | None:
    return accounts.diff(Seen(0, seen), Context("node0"))


def calls(change: Change | None) -> list[str]:
    """The sacctmgr calls that change something, after the one that makes the cluster."""
    assert change is not None
    words = shlex.split(change.script.replace("&&", " ; ").replace("||", " ; "))
    commands: list[str] = []
    for i, word in enumerate(words):
        if word == "-iQ":
            end = next((j for j in range(i, len(words)) if words[j] in (";", ">/dev/null")), None)
            commands.append(" ".join(words[i + 1 : end]))
    return [call for call in commands if not call.startswith("add cluster")]


def test_what_is_there_as_declared_is_left_alone() -> None:
    assert diff(DESIRED) is None


def test_a_first_apply_makes_all_of_it_in_an_order_that_works() -> None:
    made = calls(diff(DESIRED, EMPTY))
    heads = [" ".join(call.split()[:3]) for call in made]
    assert heads.index("add qos low") < heads.index("modify qos where")
    assert heads.index("add qos high") < heads.index("add account vision")
    assert heads.index("add account vision") < heads.index("add user alice")
    assert "add user alice account=vision cluster=lab DefaultAccount=vision" in made
    assert (
        "modify account where name=vision cluster=lab set Fairshare=5 QosLevel=high,low "
        "DefaultQOS=low"
    ) in made


def test_parents_are_made_before_their_children() -> None:
    tree = SlurmAccounts("lab", (Account("b", "a"), Account("a")), (), limits=True)
    made = [call for call in calls(diff(tree, EMPTY)) if call.startswith("add account")]
    assert [call.split()[2] for call in made] == ["a", "b"]


def test_a_limit_that_drifted_is_set_back() -> None:
    assert calls(diff(DESIRED, SEEN.replace("alice||1|gres/gpu=1", "alice||1|gres/gpu=8"))) == [
        "modify user where name=alice account=vision cluster=lab set GrpTRES=gres/gpu=1"
    ]


def test_a_limit_that_nobody_declares_is_lifted() -> None:
    free = SlurmAccounts(
        "lab",
        DESIRED.accounts,
        (Member("alice", "vision", 1, Limit(), ("low", "high"), "low"), CORRAL),
        DESIRED.qos,
    )
    change = diff(free)
    assert calls(change) == [
        "modify user where name=alice account=vision cluster=lab set GrpTRES=gres/gpu=-1"
    ]
    assert change is not None
    assert change.before == "alice in vision: GrpTRES gres/gpu 1"
    assert change.after == "alice in vision: GrpTRES gres/gpu none"


def test_wall_time_goes_in_minutes() -> None:
    longer = Quality(HIGH.name, 100, ("low",), "2-00:00:00", HIGH.limit, HIGH.per_user)
    accounts = SlurmAccounts("lab", DESIRED.accounts, DESIRED.users, (longer, Quality("low")))
    assert calls(diff(accounts)) == ["modify qos where name=high set MaxWall=2880"]


def test_others_associations_stay_and_keep_their_account() -> None:
    """eve is in no file: her association stays, and so does the account that she uses."""
    less = SlurmAccounts("lab", (Account("corral"),), (Member("alice", "corral"), CORRAL))
    made = calls(diff(less))
    assert "delete user where name=alice account=vision cluster=lab" in made
    assert not any("eve" in call or "delete account" in call for call in made)


def test_what_corral_made_and_nobody_uses_is_deleted_last() -> None:
    alone = "\n".join(line for line in SEEN.splitlines() if "eve" not in line)
    less = SlurmAccounts("lab", (Account("corral"),), (Member("alice", "corral"), CORRAL))
    made = calls(diff(less, alone))
    assert "modify user where name=alice cluster=lab set DefaultAccount=corral" in made
    assert made.index("delete user where name=alice account=vision cluster=lab") < made.index(
        "delete account where name=vision cluster=lab"
    )
    assert {call for call in made if "delete qos" in call} == {
        "delete qos where name=high",
        "delete qos where name=low",
    }


def test_a_qos_goes_though_it_was_the_default_of_who_is_named_no_longer() -> None:
    """ "Associations ... have the qos as default": sacctmgr 24.11.5 changes nothing then."""
    kept = Account("vision", "root", 5, Limit(), ("normal",))
    accounts = SlurmAccounts("lab", (kept, Account("corral")), (CORRAL,), (HIGH,))
    assert calls(diff(accounts)) == [
        "modify account where name=vision cluster=lab set QosLevel=normal DefaultQOS=-1",
        "modify user where name=alice account=vision cluster=lab set DefaultQOS=-1",
        "delete qos where name=low",
    ]
    unlimited = SlurmAccounts("lab", (kept, Account("corral")), (ALICE, CORRAL), (), limits=False)
    assert calls(diff(unlimited)) == [
        "modify user where name=alice account=vision cluster=lab set DefaultQOS=-1",
        "modify account where name=vision cluster=lab set DefaultQOS=-1",
        "delete qos where name=high",
        "delete qos where name=low",
    ]


def test_what_somebody_else_made_is_never_deleted() -> None:
    foreign = SEEN.replace("vision|corral\n", "vision|by hand\n").replace("high|corral", "high|x")
    less = SlurmAccounts("lab", (Account("corral"),), (CORRAL,), (Quality("low"),))
    assert diff(less, foreign) is None


def test_without_declared_limits_only_what_is_missing_is_made() -> None:
    drifted = SEEN.replace("corral|corral||1||||normal|", "corral|corral||9|cpu=1|||high|high")
    plain = SlurmAccounts(
        "lab", (Account("corral"), VISION), (CORRAL,), (HIGH, Quality("low")), limits=False
    )
    assert diff(plain, drifted) is None


def test_times_and_memory_are_read_as_sacctmgr_writes_them() -> None:
    for wall, seen in (("1-00:00:00", 86400), ("12:30:00", 45000), ("", -1)):
        assert qos_fields(Quality("low", max_wall=wall))["MaxWall"] == str(seen)
    row = SEEN.replace("mem=10G", "mem=1.50T")
    assert parse(row).qos["high"]["GrpTRES mem"] == str(1536 * 1024)


def test_an_account_of_corrals_own_is_held_to_its_qos_without_limits() -> None:
    """Where the file declares none, what others have is left as it is."""
    qos = ("normal", "own")
    account = Account("own", qos=qos, default_qos="own", own=True)
    member = Member("own", "own", qos=qos, default_qos="own", own=True)
    desired = SlurmAccounts(
        "lab", (account, VISION), (member, ALICE), (Quality("own"),), limits=False
    )
    change = diff(desired, EMPTY)
    assert change is not None
    assert "DefaultQOS=own" in change.script
    assert "Fairshare=5" not in change.script
    seen = (
        "@assoc\nown||root|1||||normal,own|own\nown|own||1||||normal,own|own\n"
        "vision||root|9||||normal|\nvision|alice||9||||normal|\n"
        "@account\nown|corral\nvision|corral\n@user\nown|own\nalice|vision\n"
        "@qos\nnormal|Normal QOS default|0||||||||\nown|corral|0||||||||"
    )
    assert diff(desired, seen) is None
    assert diff(desired, seen.replace("own|own||1||||", "own|own||1|gres/gpu=1|||")) is not None
