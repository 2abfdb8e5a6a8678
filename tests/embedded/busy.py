"""A job that spans all nodes and starts steps in a loop, for tests of what must not disturb it."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from tests.embedded.conftest import Live

from corral.hosts.quote import sh

JOB = """\
#!/bin/bash
stop=$1
ok=0; bad=0
srun -N3 -n3 --overlap --mem=50 sh -c 'while [ ! -e '$stop' ]; do sleep 0.3; done; echo lived' &
while [ ! -e $stop ]; do
  if srun -N3 -n3 --overlap --mem=50 hostname >/dev/null; then ok=$((ok+1)); else bad=$((bad+1)); fi
  echo loop $ok $bad
  sleep 0.3
done
wait
echo steps $ok $bad
"""


@dataclass(frozen=True)
class Ended:
    """How the job went: steps that ran and failed, and what Slurm's accounting records of it."""

    ran: int
    failed: int
    lived: int
    state: str
    output: str


class BusyJob:
    """The job; it runs from here on until ``end``."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._name = f"/shared/busy-{secrets.token_hex(4)}"
        self._run("printf %s {job} > {name}.sh; chmod 755 {name}.sh", job=JOB)
        submitted = self._run(
            "cd /shared && runuser -u corral -- sbatch --parsable -N3 -n3 --mem=200 -t 30 "
            "-o {name}.out {name}.sh {name}.stop"
        )
        self.job = int(submitted.split()[-1])
        self.more()

    def _run(self, template: str, **values: object) -> str:
        script = sh(template, name=self._name, **values)  # type: ignore[arg-type]
        answer = self._live.run(self._live.controller, script, timeout=300)
        assert answer.ok, answer.tail
        return answer.stdout.strip()

    def more(self) -> None:
        """Wait until it has run one more step.

        A step that is asked for while slurmctld restarts finds its nodes busy, and srun asks
        again only after SlurmctldTimeout and some seconds, 120 s (seen with 24.11.5 and 26.05.5).
        """
        self._run(
            "n=$(grep -c ^loop {name}.out 2>/dev/null); i=0; "
            'until [ "$(grep -c ^loop {name}.out)" -gt "${{n:-0}}" ]; do i=$((i + 1)); '
            "[ $i -lt 1000 ] || exit 1; sleep 0.2; done"
        )

    def end(self) -> Ended:
        """Let it end without a signal, and wait until accounting knows."""
        self._run(
            "touch {name}.stop; i=0; "
            "until sacct -X -n -P -j {job} -o state,end | grep -qvE 'RUNNING|Unknown'; do "
            "i=$((i + 1)); [ $i -lt 1000 ] || exit 1; sleep 0.2; done",
            job=self.job,
        )
        state = self._run("sacct -X -n -P -j {job} -o state", job=self.job)
        output = self._run("cat {name}.out; rm -f {name}.*")
        ran, failed = re.findall(r"^steps (\d+) (\d+)$", output, re.MULTILINE)[0]
        return Ended(int(ran), int(failed), output.count("lived"), state, output)
