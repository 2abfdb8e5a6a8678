"""What gcluster prints, read: recorded lines of both releases."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from corral.events import Event, Kind
from corral.providers.gcp.gcluster import Hearing, failure, servers

# gcluster v1.95.0 over a simulated Terraform, 2026-11-22; v1.39.0 prints the same without times.
LINES = """\
2026-11-22T03:57:32Z: Testing if deployment group /x/mega/primary requires adding or changing cloud infrastructure
2026-11-22T03:57:33Z: Deployment group /x/mega/primary requires adding or changing cloud infrastructure
2026-11-22T03:57:33Z: Running terraform apply on deployment group /x/mega/primary
2026-11-22T03:57:33Z module.homefs.google_lustre_instance.i: Creating...
2026-11-22T03:57:33Z module.homefs.google_lustre_instance.i: Still creating... [10s elapsed]
2026-11-22T04:02:43Z module.homefs.google_lustre_instance.i: Still creating... [5m10s elapsed]
2026-11-22T04:02:53Z module.homefs.google_lustre_instance.i: Still creating... [05m20s elapsed]
2026-11-22T04:03:34Z module.homefs.google_lustre_instance.i: Creation complete after 6m1s [id=projects/p]
Apply complete! Resources: 1 added, 0 changed, 0 destroyed.
2026-11-22T04:03:34Z: Testing if deployment group /x/mega/build-script requires adding or changing cloud infrastructure
2026-11-22T04:03:35Z: Cloud infrastructure in deployment group /x/mega/build-script is already applied
2026-11-22T04:03:36Z: building image using packer module at /x/mega/slurm-build/slurm-image
Build 'slurm-image.googlecompute.toolkit_image' finished after 25 minutes 3 seconds.
"""  # noqa: E501


def heard(lines: Iterable[str]) -> tuple[Hearing, list[Event]]:
    hearing = Hearing("mega")
    events = [event for line in lines for event in hearing.line(line)]
    return hearing, [*events, *hearing.over()]


@pytest.mark.parametrize("timed", [True, False])
def test_groups_sums_and_what_takes_long(timed: bool) -> None:
    lines = LINES.splitlines()
    if not timed:
        lines = [line.partition("Z: ")[2] or line.partition("Z ")[2] or line for line in lines]
    _, events = heard(lines)
    done = [e.node for e in events if e.kind is Kind.NODE_DONE]
    assert done == ["mega/primary", "mega/build-script", "mega/slurm-build"]
    assert [e.message for e in events if e.kind is Kind.NOTE] == [
        "still creating module.homefs.google_lustre_instance.i after 5 minutes",
        "1 added, 0 changed, 0 destroyed",
        "nothing to do",
        "image made in 25 minutes 3 seconds",
    ]
    assert sum(e.kind is Kind.CHANGE_DONE for e in events) == 1


@pytest.mark.parametrize(
    ("output", "message", "hint"),
    [
        ("╷\n│ Error: Error creating Network: googleapi: Error 403: Quota 'NETWORKS' exceeded.  "
         "Limit: 5.0 globally., quotaExceeded\n╵\nError: exit status 1",
         "Quota 'NETWORKS' exceeded", "quota page"),
        ("Error: Error acquiring the state lock", "state lock", "force-unlock"),
        ("Error: googleapi: Error 409: The resource 'x' already exists, alreadyExists",
         "already exists", "another name"),
        ("terraform v1.12.2 is missing. Do you want to download it? [y/N]: \n"
         "Error: Failed to setup dependencies: user declined to download terraform",
         "user declined", "--download-dependencies"),
        ("something new", "something new", "what was made stays"),
    ],
)  # fmt: skip
def test_googles_own_sentence_and_what_to_do(output: str, message: str, hint: str) -> None:
    hearing, _ = heard([])
    error = failure(hearing, "gcluster deploy x", 1, output)
    assert message in error.message
    assert hint in error.hint
    assert "exit status 1" not in error.message


def test_addresses_of_the_outputs_file() -> None:
    # gcluster v1.39.0's primary_outputs.tfvars, after its licence.
    text = """
network_name_sysnet = "mega-sys-net"

network_storage_datafs = {
  fs_type       = "lustre"
  local_mount   = "/data"
  server_ip     = "172.16.0.7"
}

subnetwork_name_sysnet = "mega-sys-subnet"
"""
    assert servers(text) == {"datafs": "172.16.0.7"}
    assert servers("network_storage_x = null\n") == {}
