"""PrivateData of a real slurm.conf and slurmdbd.conf: what the controller's page shows to whom."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.embedded.conftest import Live

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.spec.sections.services import Services

pytestmark = pytest.mark.slow
OPERATOR, USER = "corral", "mina"
CONF = "/etc/slurm/slurm.conf"
ANSWERS = sh("timeout 60 sh -c 'until sacctmgr -n show cluster >/dev/null 2>&1; do sleep 1; done'")
DATABASE = "/etc/slurm/slurmdbd.conf"
# Logs two people in, the operator first and for longer, and asks as both what there is.
CLIENT = """
import json, subprocess, sys, time, urllib.request as r
from http.cookiejar import CookieJar
def token(user, seconds):
    words = ['scontrol', 'token', 'username=' + user, 'lifespan=%d' % seconds]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
class Person:
    def __init__(self, user, seconds):
        self.web = r.build_opener(r.ProxyHandler({}), r.HTTPCookieProcessor(CookieJar()))
        self.csrf = ''
        self.csrf = self.ask('login', {'token': token(user, seconds)})['csrf']
    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        head = {'Content-Type': 'application/json', 'X-CSRF-Token': self.csrf}
        asked = r.Request('http://127.0.0.1:8765/api/' + path, data, head)
        with self.web.open(asked, timeout=60) as reply:
            return json.loads(reply.read())
for _ in range(300):
    try:
        boss = Person(sys.argv[1], 3600)
        break
    except OSError:
        time.sleep(0.2)
people = [boss, Person(sys.argv[2], 900)]
names = [name for name in ('jobs', 'policy/accounts', 'search?q=' + sys.argv[1])]
print(json.dumps([[person.ask(name) for name in names] for person in people]))
"""


@pytest.fixture(scope="module")
def site(cluster: Live) -> Iterator[Live]:
    """The shared cluster with its page, an operator's job in it, and a user without any."""
    spec = cluster.spec.model_copy(update={"services": Services(ui=True)})
    try:
        asyncio.run(api.up(spec))
    except CorralError as error:
        if error.command == "pip download":
            pytest.skip(f"no package index: {error}")
        raise
    made = replace(cluster, spec=spec)
    root(made, sh("id {u} >/dev/null 2>&1 || useradd -m {u}", u=USER))
    root(made, sh("sacctmgr -i -Q add user {u} account=corral; true", u=USER))
    root(made, sh("sacctmgr -i -Q modify user {u} set adminlevel=operator; true", u=OPERATOR))
    submit = sh("runuser -u {u} -- sbatch -D /tmp -o /dev/null --wrap 'sleep 900'", u=OPERATOR)
    root(made, submit)
    yield made
    root(made, sh("scancel -u {u}; sed -i /^PrivateData/d {f}", u=OPERATOR, f=CONF))
    root(made, sh("sed -i /^PrivateData/d {f}; systemctl restart slurmdbd", f=DATABASE))
    root(made, sh("scontrol reconfigure; sacctmgr -i -Q delete user {u}; userdel -r {u}", u=USER))
    root(made, sh("sacctmgr -i -Q modify user {u} set adminlevel=none", u=OPERATOR))
    asyncio.run(api.up(cluster.spec))


def root(live: Live, script: Any) -> str:
    return live.run(live.controller, script, timeout=120).stdout


def shown(live: Live) -> list[tuple[set[str], set[str], set[str]]]:
    """Whose jobs, which users of accounts and which users of a search each of both sees."""
    answer = root(live, sh("python3 -c {p} {a} {b}", p=CLIENT, a=OPERATOR, b=USER))
    seen: list[tuple[set[str], set[str], set[str]]] = []
    for jobs, accounts, search in json.loads(answer):
        at = jobs["columns"].index("user")
        users = {entry["user"] for entry in accounts["accounts"]} - {""}
        matches = {user["name"] for user in search["users"]}
        seen.append(({row[at] for row in jobs["rows"]}, users, matches))
    return seen


def test_a_users_page_shows_what_the_users_own_token_may_see(site: Live) -> None:
    """The operator's session lasts longer, and its token asked for everybody."""
    operator, user = shown(site)
    assert OPERATOR in operator[0] & user[0], "nothing is hidden: one view for all"
    assert OPERATOR in operator[1] & user[1]
    hide = sh("echo PrivateData={w} >>{f}; scontrol reconfigure", w="jobs", f=CONF)
    root(site, hide)
    root(site, sh("systemctl restart corral-web"))
    operator, user = shown(site)
    assert OPERATOR in operator[0]
    assert OPERATOR not in user[0]
    assert OPERATOR in user[1], "slurmdbd.conf has its own PrivateData"
    root(site, sh("echo PrivateData=users,accounts >>{f}; systemctl restart slurmdbd", f=DATABASE))
    root(site, ANSWERS)
    root(site, sh("systemctl restart corral-web"))
    operator, user = shown(site)
    assert {OPERATOR, USER} <= operator[1]
    assert OPERATOR not in user[1]
    assert OPERATOR not in user[2], "nor by a search"
