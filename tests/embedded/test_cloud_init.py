"""A machine whose user-data has cloud-init write host name and /etc/hosts at each boot."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.bare import CLUSTER, NODE, PASSWORD, Bare, bare, install
from tests.embedded.conftest import needs

from corral.apply.run import run_stages
from corral.hosts.fleet import Fleet
from corral.plan.make import make_plan
from corral.plan.model import Plan
from corral.state.base import Desired, DesiredStage, Seen
from corral.state.network.host_names import Hostname, HostsBlock, kept_off

pytestmark = pytest.mark.slow

INSTALL = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -q && apt-get install -y -q --no-install-recommends cloud-init || exit 1
mkdir -p /var/lib/cloud/seed/nocloud
printf 'instance-id: i1\\nlocal-hostname: image\\n' > /var/lib/cloud/seed/nocloud/meta-data
cat > /var/lib/cloud/seed/nocloud/user-data <<'END'
#cloud-config
manage_etc_hosts: true
ssh_deletekeys: false
END
echo 'datasource_list: [ NoCloud, None ]' > /etc/cloud/cloud.cfg.d/90_ds.cfg
cloud-init init --local; cloud-init init
"""
AS_AT_BOOT = (
    "for m in set_hostname update_hostname update_etc_hosts; do "
    "cloud-init single --name $m --frequency always || exit 1; done"
)


@pytest.fixture(scope="module")
def cloudy() -> Iterator[Bare]:
    reason = needs()
    if reason:
        pytest.skip(reason)
    with bare() as host:
        try:
            host.root(INSTALL, timeout=400)
        except AssertionError as error:
            pytest.skip(f"cloud-init is not available: {error}")
        done, _ = install(host, "free", PASSWORD)
        assert done.error is None
        yield host


def plan_of(there: Bare, fleet: Fleet) -> Plan:
    hosts = HostsBlock(((there.address, NODE), ("10.9.9.9", "node9")))
    resources = (Hostname(NODE), hosts, *kept_off(hosts))
    seen: dict[str, Seen] = {}
    for resource in resources:
        probed = asyncio.run(fleet.run(NODE, resource.probe()))
        seen[resource.id] = Seen(probed.status, probed.stdout.strip())
    stage = DesiredStage("base", "names", (Desired((NODE,), resources),), ())
    return make_plan(cluster=CLUSTER, spec_digest="", stages=[stage], observed={NODE: seen})


def test_the_names_outlive_a_boot(cloudy: Bare) -> None:
    before = cloudy.root("cat /etc/hosts")
    assert "127.0.1.1 image image" in before, "cloud-init wrote it"
    with tempfile.TemporaryDirectory(prefix="cc") as folder:
        fleet = Fleet({NODE: cloudy.node("free", Path(folder))}, cluster=CLUSTER)
        asyncio.run(run_stages(plan_of(cloudy, fleet), fleet, lambda event: None))
        assert plan_of(cloudy, fleet).empty, "the second plan is empty"
        asyncio.run(fleet.close())
    cloudy.root(AS_AT_BOOT, timeout=120)
    spoilt = cloudy.root("cat /etc/hosts")
    assert "10.9.9.9" not in spoilt and "127.0.1.1" in spoilt, "user-data wins over our file"
    assert cloudy.root("hostname; cat /etc/hostname").split() == [NODE, NODE]
    cloudy.reboot()
    hosts = cloudy.root("cat /etc/hosts; getent ahostsv4 $(hostname)")
    assert "10.9.9.9\tnode9" in hosts
    log = cloudy.root("grep -c 'Running module update_etc_hosts' /var/log/cloud-init.log")
    assert int(log) >= 3, "cloud-init wrote at this boot too"
    units = cloudy.root("systemctl is-active corral-hosts; systemctl --failed --no-legend | cat")
    assert units.split()[0] == "active" and "corral-hosts" not in units.split()[1:]
