"""What ``Cluster.run`` and ``submit`` take: a script, the words of a command, a JobSpec."""

from __future__ import annotations

import pytest

from corral.api.cluster import _job
from corral.errors import CorralError
from corral.jobs.model import JobSpec


def test_a_text_is_a_script_and_a_list_a_command() -> None:
    assert _job("train.py", {"nodes": 2}) == JobSpec(script="train.py", nodes=2)
    assert _job(["hostname", "-f"], {"nodes": 2}) == JobSpec(command=("hostname", "-f"), nodes=2)
    job = JobSpec(command=("hostname",))
    assert _job(job, {}) is job
    assert _job(job, {"qos": "high"}) == JobSpec(command=("hostname",), qos="high")
    with pytest.raises(CorralError):
        _job([], {})
