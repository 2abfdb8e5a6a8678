"""NFS over the real kernel server, between machines with their own kernels.

Only the stages of storage and people are applied: Slurm is not needed for them.
CORRAL_TEST_LAB=NAME uses an existing lab of two machines, and keeps it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from corral.apply.observation import read_facts, read_probes
from corral.apply.run import run_stages
from corral.doctor import machine_report, probes
from corral.errors import Code, CorralError
from corral.events import ignore
from corral.hosts.fleet import Fleet
from corral.hosts.openssh import OpenSSH
from corral.hosts.target import SshTarget
from corral.inspect.facts import Facts, Traits
from corral.plan.make import make_plan
from corral.plan.model import Plan
from corral.prove.checks import storage as mounts_check
from corral.prove.checks import storage as shared_check
from corral.prove.context import ProveContext
from corral.prove.model import Judgement, Verdict
from corral.roles.inventory import Site
from corral.roles.machine import people, storage
from corral.spec.impacts import Impact
from corral.spec.models import ClusterSpec, NodeGroup, Storage
from corral.spec.nodes import nodes_of
from corral.spec.sections.people import User
from corral.state.base import DesiredStage
from corral.state.storage.exports import FILE
from tests.machines.lab import Lab, image, needs

SERVER, CLIENT = "store0", "store1"
SHARED = Storage(mount="/shared", kind="nfs", server=SERVER, path="/srv/corral")
HOLD = "(setsid sleep 300 >/dev/null 2>&1 </dev/null & echo $! > /run/held)"
ALICE = User(name="alice", uid=2001, home="/shared/home/alice")


@dataclass
class Farm:
    """Two machines and what they are to hold."""

    lab: Lab
    facts: dict[str, Facts] = field(default_factory=dict[str, Facts])

    def spec(self, *folders: Storage, users: tuple[User, ...] = (ALICE,)) -> ClusterSpec:
        group = NodeGroup(
            name="g",
            provider="ssh",
            nodes=f"{SERVER},{CLIENT}",
            addresses=",".join(m.address for m in self.lab.machines),
        )
        return ClusterSpec(corral="v1", name="farm", groups=(group,), storage=folders, users=users)

    def fleet(self) -> Fleet:
        names = (SERVER, CLIENT)
        return Fleet(
            {
                name: OpenSSH(
                    name,
                    SshTarget(
                        machine.address,
                        user=image.USER,
                        key=image.key(),
                        known_hosts=machine.known_hosts,
                        pin_new=True,
                    ),
                    control_dir=image.key().parent / "control",
                )
                for name, machine in zip(names, self.lab.machines, strict=True)
            },
            cluster="farm",
        )

    async def _plan(self, fleet: Fleet, spec: ClusterSpec) -> Plan:
        # Read once: apt's answers are the slowest thing to ask such a machine for.
        self.facts = self.facts or await read_facts(fleet)
        addresses = {n.name: n.address for n in nodes_of(spec)}
        site = Site(spec, self.facts, dict.fromkeys(addresses, Traits()), addresses)
        shares = {
            "unmount": storage.unmounted(site),
            "exports": storage.exported(site),
            "mounts": storage.mounted(site),
            "homes": people.homes(site),
            "people": people.everywhere(site),
        }
        stages = [
            DesiredStage(name, s.title, s.desired, s.gates)
            for name, ss in shares.items()
            for s in ss
        ]
        seen = await read_probes(fleet, stages, self.facts)
        return make_plan(cluster=spec.name, spec_digest="", stages=stages, observed=seen)

    def plan(self, spec: ClusterSpec) -> Plan:
        async def work() -> Plan:
            fleet = self.fleet()
            try:
                return await self._plan(fleet, spec)
            finally:
                await fleet.close()

        return asyncio.run(work())

    def apply(self, spec: ClusterSpec) -> Plan:
        """Plan, apply, and plan again, which must be empty; gives the first plan."""

        async def work() -> tuple[Plan, Plan]:
            fleet = self.fleet()
            try:
                plan = await self._plan(fleet, spec)
                await run_stages(plan, fleet, ignore)
                return plan, await self._plan(fleet, spec)
            finally:
                await fleet.close()

        plan, again = asyncio.run(work())
        left = [(c.nodes, c.change.summary) for s in again.stages for c in s.changes]
        assert left == []
        return plan

    def check(self, spec: ClusterSpec, name: str) -> Judgement:
        async def work() -> Judgement:
            fleet = self.fleet()
            try:
                ctx = ProveContext(spec, fleet, SERVER, "alice", dict.fromkeys((SERVER, CLIENT)))
                measure = {"mounts": mounts_check.mounts, "shared": shared_check.shared}[name]
                return await measure(ctx)
            finally:
                await fleet.close()

        return asyncio.run(work())

    def doctor(self) -> list[str]:
        """What the doctor's rule about shared folders reports: failure, node and its evidence."""

        asked = machine_report.questions(machine_report.Ask((), (), ("/shared",)))

        async def work() -> list[machine_report.MachineReport]:
            fleet = self.fleet()
            try:
                each = (
                    machine_report.MachineReport.ask(fleet, n, asked, timeout=120)
                    for n in (SERVER, CLIENT)
                )
                return await asyncio.gather(*each)
            finally:
                await fleet.close()

        by_node = {machine.node: machine for machine in asyncio.run(work())}
        assert not any(machine.error for machine in by_node.values())
        findings = probes.mounts(probes.Scene(SERVER, (SERVER, CLIENT), by_node, {}))
        return [f"{d.failure.id} {' '.join(d.nodes)}: {' '.join(d.evidence)}" for d in findings]

    def on(self, node: str, command: str) -> str:
        return self.lab.machines[(SERVER, CLIENT).index(node)].root(command, timeout=120)


def summaries(plan: Plan) -> dict[str, list[str]]:
    by_node: dict[str, list[str]] = {}
    for stage in plan.stages:
        for entry in stage.changes:
            for node in entry.nodes:
                by_node.setdefault(node, []).append(entry.change.summary)
    return by_node


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    existing = os.environ.get("CORRAL_TEST_LAB", "")
    if existing:
        yield Farm(Lab.open(existing))
        return
    reason = needs()
    if reason:
        pytest.skip(reason)
    lab = Lab.make(f"storage-{os.getpid()}", 2)
    try:
        yield Farm(lab)
    finally:
        lab.remove()


@pytest.fixture
def mounted(farm: Farm) -> ClusterSpec:
    spec = farm.spec(SHARED)
    if farm.plan(spec).stages:
        farm.apply(spec)
    return spec


def good(judged: Judgement) -> None:
    assert judged.verdict is Verdict.PASS, judged.summary


def test_bare_machines_share_a_folder(farm: Farm) -> None:
    spec = farm.spec(SHARED)
    farm.apply(spec)
    exports = farm.on(SERVER, "cat /etc/exports.d/corral.exports").splitlines()[1:]
    client = farm.lab.machines[1].address
    assert len(exports) == 1
    assert exports[0].startswith(f"/srv/corral {client}(rw,sync,no_subtree_check,root_squash,")
    line = farm.on(CLIENT, "grep x-corral /etc/fstab")
    for option in ("hard", "vers=4.2", "nofail", "_netdev"):
        assert option in line
    seen = farm.on(CLIENT, "stat /shared/. >/dev/null; grep ' /shared nfs4 ' /proc/mounts")
    assert "vers=4.2" in seen
    assert ",hard," in seen
    good(farm.check(spec, "mounts"))
    good(farm.check(spec, "shared"))
    assert farm.doctor() == []
    # A home on the folder: made by the server, though root of the client is nobody there.
    assert farm.on(CLIENT, "stat -c '%u %a' /shared/home/alice").strip() == "2001 700"
    assert "Permission denied" in farm.on(CLIENT, "ls /shared/home/alice 2>&1 || :")


def test_who_is_no_client_mounts_nothing(farm: Farm, mounted: ClusterSpec) -> None:
    # The server itself is not a client of its own export: here it is the machine that is none.
    out = farm.on(
        SERVER,
        "mkdir -p /mnt/t; timeout 60 mount -t nfs4 -o vers=4.2,retry=0 "
        f"{farm.lab.machines[0].address}:/srv/corral /mnt/t 2>&1; echo $?; rmdir /mnt/t",
    )
    assert out.strip().splitlines()[-1] == "32", out


def test_root_squash_declared_and_broken(farm: Farm, mounted: ClusterSpec) -> None:
    farm.on(SERVER, "sed -i s/root_squash/no_root_squash/ /etc/exports.d/corral.exports")
    farm.on(SERVER, "exportfs -ra")
    broken = farm.check(mounted, "mounts")
    assert broken.verdict is Verdict.FAIL
    assert "does not squash root" in broken.summary
    plan = farm.apply(mounted)
    assert list(summaries(plan)) == [SERVER]
    assert plan.impact is Impact.RELOAD
    good(farm.check(mounted, "mounts"))
    loose = farm.spec(SHARED.model_copy(update={"root_squash": False}))
    assert farm.apply(loose).impact is Impact.RELOAD
    good(farm.check(loose, "mounts"))
    farm.apply(mounted)


def test_a_folder_that_root_may_not_enter_is_no_drift(farm: Farm, mounted: ClusterSpec) -> None:
    farm.on(SERVER, "chmod 750 /srv/corral")
    # A client may believe what it knows for a minute (acdirmax, nfs(5)).
    soon = "do i=$((i + 1)); [ $i -lt 90 ] || exit 1; sleep 1; done"
    try:
        farm.on(CLIENT, f"i=0; while ls /shared >/dev/null 2>&1; {soon}")
        good(farm.check(mounted, "mounts"))
        changes = [text for texts in summaries(farm.plan(mounted)).values() for text in texts]
        assert not [text for text in changes if "/shared " in text or text.startswith("mount")]
    finally:
        farm.on(SERVER, "chmod 1777 /srv/corral")
        farm.on(CLIENT, f"i=0; until ls /shared >/dev/null 2>&1; {soon}")


def test_an_export_taken_back_by_hand_is_seen(farm: Farm, mounted: ClusterSpec) -> None:
    client = farm.lab.machines[1].address
    farm.on(CLIENT, f"cd /shared && {HOLD}")
    farm.on(SERVER, f"exportfs -u {client}:/srv/corral")
    changes = summaries(farm.apply(mounted))
    assert changes[SERVER] == ["serve /srv/corral again to 1 machines"]
    assert changes[CLIENT][0] == "mount /shared again: refused"
    # A home below it cannot be seen meanwhile, unless the client still remembers it.
    assert changes[CLIENT][1:] in ([], ["home /shared/home/alice"])
    # It answered again by then, so whoever works in it was left alone.
    farm.on(CLIENT, "ls /proc/$(cat /run/held)/cwd/home/. && kill $(cat /run/held)")


def test_a_folder_unmounted_by_hand_is_mounted_again(farm: Farm, mounted: ClusterSpec) -> None:
    farm.on(CLIENT, "systemctl stop shared.automount 2>/dev/null; umount /shared 2>/dev/null; :")
    broken = farm.check(mounted, "mounts")
    assert broken.verdict is Verdict.FAIL
    assert "not mounted" in broken.summary
    assert farm.doctor() == [f"F68 {CLIENT}: /shared is not mounted there"]
    shared = farm.check(mounted, "shared")
    assert shared.verdict is Verdict.FAIL
    plan = farm.apply(mounted)
    assert list(summaries(plan)) == [CLIENT]
    good(farm.check(mounted, "mounts"))


def test_a_line_of_fstab_that_was_edited_is_restored(farm: Farm, mounted: ClusterSpec) -> None:
    before = farm.on(CLIENT, "cat /etc/fstab")
    for edit in ("s/hard/soft/", "/x-corral/d"):
        farm.on(CLIENT, f"sed -i '{edit}' /etc/fstab")
        plan = farm.apply(mounted)
        assert summaries(plan) == {CLIENT: ["options of /shared in fstab, from the next mount on"]}
        assert plan.impact is Impact.NONE
        assert farm.on(CLIENT, "cat /etc/fstab") == before


def test_files_below_a_mount_are_not_hidden(farm: Farm, mounted: ClusterSpec) -> None:
    farm.on(CLIENT, "systemctl stop shared.automount 2>/dev/null; umount /shared 2>/dev/null; :")
    farm.on(CLIENT, "touch /shared/lost")
    with pytest.raises(CorralError) as refused:
        farm.apply(mounted)
    assert refused.value.code is Code.NOT_GOOD
    assert "store1: /shared holds files that a mount would hide" in refused.value.message
    farm.on(CLIENT, "rm /shared/lost")
    farm.apply(mounted)


def test_a_stale_handle_is_seen_and_fixed(farm: Farm, mounted: ClusterSpec) -> None:
    farm.on(CLIENT, "ls /shared")
    # Another fsid is another file system to a client: its handles are of one that is gone.
    farm.on(SERVER, f"sed -i s/fsid=[^,\\)]*/fsid=77/ {FILE} && exportfs -ra")
    broken = farm.check(mounted, "mounts")
    assert broken.verdict is Verdict.FAIL
    assert f"{CLIENT}: /shared is a stale handle" in broken.summary
    (finding,) = farm.doctor()
    assert finding.startswith(f"F68 {CLIENT}: ")
    assert "Stale file handle" in finding
    plan = farm.apply(mounted)
    assert set(summaries(plan)) == {SERVER, CLIENT}
    assert "mount /shared again: stale" in summaries(plan)[CLIENT]
    good(farm.check(mounted, "mounts"))
    good(farm.check(mounted, "shared"))


def test_a_server_that_shows_another_folder_is_seen(farm: Farm, mounted: ClusterSpec) -> None:
    farm.on(SERVER, "mv /srv/corral /srv/old && mkdir -m 1777 /srv/corral && exportfs -ra")
    try:
        broken = farm.check(mounted, "mounts")
        assert broken.verdict is Verdict.FAIL
        assert f"{SERVER}: /shared is not /srv/corral of this machine" in broken.summary
    finally:
        farm.on(SERVER, "rmdir /srv/corral && mv /srv/old /srv/corral && exportfs -ra")
    good(farm.check(mounted, "mounts"))


def test_a_write_waits_for_a_server_that_is_away(farm: Farm, mounted: ClusterSpec) -> None:
    farm.on(CLIENT, "ls /shared; sync")
    farm.lab.machines[0].power_cut()
    write = "echo waited > /shared/waited && touch /run/waited"
    farm.on(CLIENT, f"(setsid sh -c '{write}' >/dev/null 2>&1 </dev/null & )")
    assert farm.on(CLIENT, "ls /run/waited 2>/dev/null || :") == ""
    farm.lab.machines[0].on()
    farm.lab.wait()
    # A server that was restarted gives its clients up to 90 s to claim what they had open.
    until = "i=0; while [ ! -e /run/waited ]; do i=$((i + 1)); [ $i -lt 110 ] || exit 1; sleep 1"
    farm.on(CLIENT, f"{until}; done; rm /run/waited")
    assert farm.on(SERVER, "cat /srv/corral/waited; rm /srv/corral/waited") == "waited\n"
    assert farm.doctor() == []
    good(farm.check(mounted, "mounts"))


def test_another_path_waits_until_nobody_uses_the_old_one(farm: Farm, mounted: ClusterSpec) -> None:
    moved = farm.spec(SHARED.model_copy(update={"path": "/srv/other"}), users=())
    assert farm.plan(moved).impact is Impact.DRAIN
    farm.on(CLIENT, f"cd /shared && {HOLD}")
    with pytest.raises(CorralError) as busy:
        farm.apply(moved)
    assert "is in use by" in busy.value.tail
    assert "sleep" in busy.value.tail
    farm.on(CLIENT, "kill $(cat /run/held)")
    farm.apply(moved)
    good(farm.check(moved, "mounts"))
    farm.apply(farm.spec(SHARED))


def test_the_server_boots_after_its_client(farm: Farm, mounted: ClusterSpec) -> None:
    for machine in farm.lab.machines:
        machine.power_cut()
    farm.lab.machines[1].on()
    farm.lab.machines[0].on()
    farm.lab.wait()
    good(farm.check(mounted, "mounts"))
    good(farm.check(mounted, "shared"))


def test_a_node_that_lacks_an_existing_folder_is_named(farm: Farm, mounted: ClusterSpec) -> None:
    farm.on(SERVER, "mkdir -p /data")
    with pytest.raises(CorralError) as refused:
        farm.apply(farm.spec(SHARED, Storage(mount="/data", kind="existing")))
    assert refused.value.message.startswith("store1: /data is not there")
    farm.on(SERVER, "rmdir /data")


def test_a_person_with_another_uid_is_named_before_anything_changes(
    farm: Farm, mounted: ClusterSpec
) -> None:
    farm.on(CLIENT, "useradd -u 1500 carol")
    carol = User(name="carol", uid=2002)
    with pytest.raises(CorralError) as refused:
        farm.apply(farm.spec(SHARED, users=(ALICE, carol)))
    assert "store1: user carol is there with uid 1500" in refused.value.message
    assert "carol" not in farm.on(SERVER, "cat /etc/passwd")
    farm.on(CLIENT, "userdel carol")


def test_what_the_file_names_no_longer_is_unmounted(farm: Farm, mounted: ClusterSpec) -> None:
    plan = farm.apply(farm.spec(users=()))
    assert plan.impact is Impact.DRAIN
    assert "nfs4" not in farm.on(CLIENT, "cat /proc/mounts")
    assert farm.on(CLIENT, "grep -c x-corral /etc/fstab || :").strip() == "0"
    assert farm.on(SERVER, "ls /etc/exports.d; exportfs -s").strip() == ""
    assert farm.on(SERVER, "ls -d /srv/corral").strip() == "/srv/corral"
