"""MLflow's PostgreSQL is removed as the ledger records it, and what others keep in it stays.

The machine is the controller of a cluster of this file's own: what gives machines of provider ssh
back works on every machine that has a ledger.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.embedded.conftest import named

from corral import api
from corral.apply.restoration import Return, restore_machines
from corral.errors import CorralError
from corral.events import ignore
from corral.hosts.quote import Script, sh
from corral.roles.services.mlflow import UNIT
from corral.spec.models import ClusterSpec
from corral.spec.sections.services import Services

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

pytestmark = pytest.mark.slow

OWNERS = sh(
    'cd / && p() {{ runuser -u postgres -- psql -X -v ON_ERROR_STOP=1 -Atq "$@"; }}; '
    "p -c 'CREATE DATABASE wiki' && p -d wiki -c 'CREATE TABLE page (text text)' && "
    "p -d wiki -c \"INSERT INTO page VALUES ('the owner wrote this')\""
)
PAGE = sh("cd / && runuser -u postgres -- psql -X -Atqc 'SELECT text FROM page' -d wiki")


@pytest.fixture(scope="module")
def kept(fresh_cluster: Callable[[ClusterSpec], Live]) -> Iterator[Live]:
    """A cluster whose runs are kept in PostgreSQL; in it, a database of the owner's."""
    services = Services(mlflow=True, mlflow_store="postgresql")
    existing = os.environ.get("CORRAL_TEST_BACK", "")
    try:
        live = fresh_cluster(named(existing or f"back-{os.getpid()}", services=services))
    except CorralError as error:
        if error.command == "pip download" or "apt-get" in error.tail or "E: " in error.tail:
            pytest.skip(f"no package index or archive: {error}")
        raise
    assert asyncio.run(api.plan(live.spec)).empty
    done = live.run("node0", OWNERS)
    assert done.ok, done.tail
    yield live


def restored(live: Live, *, purge: bool = False) -> Return:
    async def work(fleet: object) -> tuple[Return, ...]:
        return await restore_machines(fleet, ["node0"], ignore, purge=purge)  # type: ignore[arg-type]

    (returned,) = live.with_fleet(work)
    assert returned.error is None, returned.error
    return returned


def output_of(live: Live, script: Script) -> str:
    done = live.run("node0", script, timeout=120)
    assert done.ok, done.tail
    return done.stdout.strip()


def test_what_corral_made_goes_and_what_others_keep_stays(kept: Live) -> None:
    # Kept aside for the second round: the ledger goes with the first one.
    assert kept.run("node0", sh("cp -a /var/lib/corral /root/ledger")).ok
    back = restored(kept)
    assert back.clean, back.lines
    assert f"dropped database {UNIT}" in back.of("did")
    assert "PostgreSQL: it holds other databases: wiki " in back.of("kept")
    assert output_of(kept, PAGE) == "the owner wrote this"
    (dump,) = (t.partition(":")[0] for t in back.of("kept") if f"all of the database {UNIT}" in t)
    assert "experiments" in output_of(kept, sh("zcat {f} | grep 'CREATE TABLE'", f=dump))
    assert output_of(kept, sh("stat -c %a {f}", f=dump)) == "600"
    names = "SELECT datname FROM pg_database UNION ALL SELECT rolname FROM pg_roles"
    left = output_of(kept, sh("cd / && runuser -u postgres -- psql -X -Atqc {q}", q=names)).split()
    assert UNIT not in left
    assert not kept.run("node0", sh("getent passwd {u}", u=UNIT)).ok


def test_without_others_data_the_server_goes_too_and_it_may_be_run_again(kept: Live) -> None:
    drop = "cd / && runuser -u postgres -- psql -X -qc 'DROP DATABASE wiki'"
    assert kept.run("node0", sh("{d} && cp -a /root/ledger /var/lib/corral", d=Script(drop))).ok
    back = restored(kept)
    assert back.clean, back.lines
    assert "dropped database" not in " ".join(back.of("did")), "it was gone already"
    assert not [text for text in back.of("kept") if "PostgreSQL" in text]
    assert not kept.run("node0", sh("command -v psql || ls -d /var/lib/postgresql")).ok
    assert not kept.run("node0", sh("getent passwd postgres")).ok
    assert [text for text in back.of("new") if "postgres" in text] == []
