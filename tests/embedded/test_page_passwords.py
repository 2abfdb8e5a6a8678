"""People's own passwords on the controller's page, asked of the real PAM by root's program."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.embedded.conftest import Live

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.spec.sections.page_login import PageLogin
from corral.spec.sections.services import Page, Services

pytestmark = pytest.mark.slow
PASSWORD = "of-kim-é 7"
WRONG = "name or password is wrong, or the account is locked"
GROUP, PAM = "page-people", "/etc/pam.d/corral-web"
CLIENT = """
import json, sys, time, urllib.error, urllib.request as r
from http.cookiejar import CookieJar
asked = json.load(sys.stdin)
web = r.build_opener(r.ProxyHandler({}), r.HTTPCookieProcessor(CookieJar()))
def ask(path, body=None, csrf=''):
    data = None if body is None else json.dumps(body).encode()
    head = {'Content-Type': 'application/json', 'X-CSRF-Token': csrf}
    try:
        asked = r.Request('http://127.0.0.1:8765/api/' + path, data, head)
        with web.open(asked, timeout=60) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
for _ in range(300):
    try:
        ask('login')
        break
    except OSError:
        time.sleep(0.2)
begun = time.monotonic()
out = [ask('login/password', each) for each in asked]
took = time.monotonic() - begun
csrf = out[-1][1].get('csrf', '')
mine = ask('me', csrf=csrf) if csrf else None
script = {'script': '#!/bin/sh\\nid -un\\n', 'workdir': '/shared', 'nodes': 1}
job = ask('jobs', script, csrf) if csrf else None
print(json.dumps({'out': out, 'me': mine, 'job': job, 'took': took}))
"""


@dataclass
class Site:
    """The controller with the page."""

    live: Live

    def root(self, script: Any, text: str = "") -> str:
        done = self.live.run(self.live.controller, script, stdin=text.encode(), timeout=120)
        assert done.ok, done.tail
        return done.stdout

    def log_in(self, *tries: tuple[str, str]) -> dict[str, Any]:
        """What the page answers, and what the last one's session may do."""
        sent = [{"user": user, "password": password} for user, password in tries]
        return json.loads(self.root(sh("python3 -c {p}", p=CLIENT), json.dumps(sent)))

    def refused(self, user: str, password: str) -> tuple[int, str]:
        ((status, body),) = self.log_in((user, password))["out"]
        return status, body["error"]["message"]

    def password(self, user: str, password: str) -> None:
        self.root(sh("chpasswd"), f"{user}:{password}\n")


@pytest.fixture(scope="module")
def site(cluster: Live) -> Iterator[Site]:
    """The shared cluster's page with passwords; without the page again at the end."""
    login = PageLogin(passwords=True, groups=(GROUP,))
    services = Services(ui=True, page=Page(login=login))
    spec = cluster.spec.model_copy(update={"services": services})
    try:
        asyncio.run(api.up(spec))
    except CorralError as error:
        if error.command == "pip download":
            pytest.skip(f"no package index: {error}")
        raise
    made = Site(replace(cluster, spec=spec))
    for line in (
        sh("groupadd {g}", g=GROUP),
        sh("useradd -m -s /bin/sh -G {g} kim", g=GROUP),
        sh("useradd -m -s /bin/sh lee"),
        sh("useradd -m -s /bin/sh -G {g} empty", g=GROUP),
        sh("passwd -d empty"),
        sh("usermod -aG {g} root", g=GROUP),
    ):
        made.root(line)
    for user in ("kim", "lee", "root"):
        made.password(user, PASSWORD)
    yield made
    for user in ("kim", "lee", "empty"):
        made.root(sh("userdel -r {u} 2>/dev/null || true", u=user))
    made.root(sh("gpasswd -d root {g}; groupdel {g}; passwd -d root", g=GROUP))
    asyncio.run(api.up(cluster.spec))
    asked = sh("systemctl is-active corral-web-login-listen; ls {p} 2>/dev/null; true", p=PAM)
    assert cluster.run(cluster.controller, asked).stdout.strip() == "inactive"


@pytest.fixture(autouse=True)
def none_wrong(site: Site) -> None:
    """Wrong ones count for ten minutes: each test begins with none."""
    site.root(sh("systemctl restart corral-web"))


def test_a_persons_password_opens_a_session(site: Site) -> None:
    reply = site.log_in(("kim", PASSWORD))
    ((status, me),) = reply["out"]
    assert (status, me.get("user")) == (200, "kim"), me
    assert reply["me"][1]["user"] == "kim"
    assert not me["owner"]
    assert reply["job"][0] in (200, 409), reply["job"]  # Slurm decides: kim has no account


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("kim", PASSWORD + "x"),
        ("kim", PASSWORD[:-1]),
        ("kim", PASSWORD + "\0x"),
        ("kim", ""),
        ("nobody-known", PASSWORD),
        ("root", PASSWORD),
        ("munge", ""),
        ("empty", ""),
        ("empty", "x"),
        ("kim\n", PASSWORD),
        ("../kim", PASSWORD),
        ("KIM", PASSWORD),
    ],
)
def test_all_that_is_wrong_has_one_sentence(site: Site, user: str, password: str) -> None:
    """A wrong password, no such user, root with its right one, an account without a password."""
    assert site.refused(user, password) == (401, WRONG)


def test_who_is_in_none_of_the_groups(site: Site) -> None:
    assert site.refused("lee", PASSWORD) == (403, "lee may not log in to this page")
    assert site.refused("lee", "x") == (401, WRONG), "known only to who has the password"


def test_accounts_that_are_closed(site: Site) -> None:
    site.root(sh("passwd -l kim"))
    assert site.refused("kim", PASSWORD) == (401, WRONG)
    site.root(sh("passwd -u kim"))
    site.root(sh("usermod -e 1 kim"))
    assert site.refused("kim", PASSWORD) == (403, "the account of kim is not open on this cluster")
    assert site.refused("kim", "x") == (401, WRONG)
    site.root(sh("usermod -e '' kim"))
    site.root(sh("chage -d 0 kim"))
    assert site.refused("kim", PASSWORD) == (403, "the password of kim must be changed first")
    site.password("kim", PASSWORD)
    site.root(sh("usermod -s /usr/sbin/nologin kim"))
    assert site.refused("kim", PASSWORD) == (401, WRONG)
    site.root(sh("usermod -s /bin/sh kim"))
    assert site.log_in(("kim", PASSWORD))["out"][0][0] == 200


def test_guesses_end(site: Site) -> None:
    """Ten wrong ones a minute from one user of this machine; the right one has to wait too."""
    reply = site.log_in(*((f"user{n}", "x") for n in range(10)), ("kim", PASSWORD))
    seen = [status for status, _ in reply["out"]]
    assert seen == [401] * 10 + [429]
    assert reply["took"] >= 30, "each refusal takes as long"


def test_the_password_is_nowhere(site: Site) -> None:
    """In no journal and no argument list of the controller, after right and wrong ones."""
    secret = "sneaky-" + "guess-9"
    site.refused("kim", secret)
    site.password("kim", secret + "-right")
    assert site.log_in(("kim", secret + "-right"))["out"][0][0] == 200
    site.password("kim", PASSWORD)
    search = sh(
        "{{ journalctl --no-pager; cat /var/log/*.log /proc/[0-9]*/cmdline; }} 2>/dev/null "
        "| tr '\\0' '\\n' | grep -c -a -f /dev/fd/3 3<<END\n{secret}\nEND\ntrue",
        secret=secret,
    )
    assert site.root(search).strip() == "0"
    units = "journalctl -o cat -u corral-web -u 'corral-web-login@*' --no-pager"
    assert '"audit": "login-password"' in site.root(sh(units))
