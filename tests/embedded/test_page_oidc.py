"""A login by a real OpenID provider with root's program as systemd runs it, and its Slurm token."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import oidc_provider
from tests.embedded.conftest import Live

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.spec.sections.page_login import OidcLogin, PageLogin
from corral.spec.sections.services import Page, Services

pytestmark = pytest.mark.slow
NAME, FOLDER, ISSUER = "hpc.example.test", "/root/provider", "https://127.0.0.1:9443"
PASSWORD = "of-the-provider"
CLIENT = """
import http.client, json, ssl, sys, time, urllib.parse as p
user, password, ca, name = sys.argv[1:]
trust = ssl.create_default_context(cafile=ca)
def ask(to, method, path, body=None, kind='', **head):
    if body is not None:
        head['Content-Type'] = kind
    for _ in range(100):
        link = http.client.HTTPSConnection('127.0.0.1', 9443, context=trust) if to else \\
            http.client.HTTPConnection('127.0.0.1', 8765)
        try:
            link.request(method, path, body, head)
            break
        except ConnectionError:
            time.sleep(0.3)
    reply = link.getresponse()
    cookies = [text.partition(';')[0] for text in reply.headers.get_all('set-cookie', [])]
    return reply.getheader('location', ''), '; '.join(cookies), reply.read()
def path(address):
    parts = p.urlsplit(address)
    return parts.path + '?' + parts.query
gone, away, _ = ask(0, 'GET', '/api/login/oidc', Host=name)
if not gone.startswith('https://127.0.0.1:9443/'):
    back, mark = gone, away
else:
    form, _, _ = ask(1, 'GET', path(gone))
    number = p.parse_qs(p.urlsplit(form).query)['authRequestID'][0]
    fields = p.urlencode({'username': user, 'password': password, 'id': number})
    done, _, _ = ask(1, 'POST', '/login/username', fields, 'application/x-www-form-urlencoded')
    back, _, _ = ask(1, 'GET', path(done))
    back, mark, _ = ask(0, 'GET', path(back), Host=name, Cookie=away)
_, got, me = ask(0, 'POST', '/api/login/oidc/session', '{}', 'application/json',
                 Host=name, Cookie=mark)
me = json.loads(me)
job = None
if me.get('csrf'):
    script = json.dumps({'script': '#!/bin/sh\\nid -un\\n', 'workdir': '/shared', 'nodes': 1})
    _, _, job = ask(0, 'POST', '/api/jobs', script, 'application/json', Host=name,
                    Cookie=got, **{'X-CSRF-Token': me['csrf']})
    job = json.loads(job)
print(json.dumps({'back': back, 'me': me, 'job': job}))
"""


@pytest.fixture(scope="module")
def site(cluster: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The shared cluster's page with a provider on the controller; without both at the end."""
    program = oidc_provider.find()
    if program is None:
        pytest.skip("no OpenID provider: python -m tests.oidc_provider builds it with Go")
    oidc = OidcLogin(
        issuer=ISSUER, client="corral", secret_file=f"{FOLDER}/secret", ca=f"{FOLDER}/cert"
    )
    page = Page(names=(NAME,), login=PageLogin(oidc=oidc))
    spec = cluster.spec.model_copy(update={"services": Services(ui=True, page=page)})
    live = replace(cluster, spec=spec)
    root(live, sh("install -d -m 700 {f}", f=FOLDER))
    for name, data in files(program, tmp_path_factory.mktemp("provider")).items():
        put = sh("umask 077; cat >{to}; chmod 700 {to}", to=f"{FOLDER}/{name}")
        assert live.run(live.controller, put, stdin=data, timeout=120).ok
    try:
        asyncio.run(api.up(spec))
    except CorralError as error:
        if error.command == "pip download":
            pytest.skip(f"no package index: {error}")
        raise
    start = sh(
        "systemd-run -q --unit test-provider {f}/program -issuer={i} -listen=127.0.0.1:9443 "
        "-people={f}/people -secret={f}/secret -certificate={f}/cert -key={f}/key -back={b}",
        f=FOLDER,
        i=ISSUER,
        b=f"https://{NAME}/api/login/oidc/back",
    )
    root(live, start)
    yield live
    root(live, sh("systemctl stop test-provider; rm -r {f}", f=FOLDER))
    asyncio.run(api.up(cluster.spec))


def files(program: Path, folder: Path) -> dict[str, bytes]:
    argv = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key -out cert"
    words = [*argv.split(), "-subj", "/CN=provider", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=60)
    people = {
        f"id-{name}": {
            "ID": f"id-{name}",
            "Username": name,
            "Password": PASSWORD,
            "PreferredLanguage": "en",
        }
        for name in ("corral", "munge", "stranger")
    }
    return {
        "program": program.read_bytes(),
        "people": json.dumps(people).encode(),
        "secret": b"of-the-client\n",
        "cert": (folder / "cert").read_bytes(),
        "key": (folder / "key").read_bytes(),
    }


def root(live: Live, script: Any) -> str:
    done = live.run(live.controller, script, timeout=120)
    assert done.ok, done.tail
    return done.stdout


def log_in(live: Live, user: str) -> dict[str, Any]:
    words = {"u": user, "p": PASSWORD, "ca": f"{FOLDER}/cert", "n": NAME}
    return json.loads(root(live, sh("python3 -c {c} {u} {p} {ca} {n}", c=CLIENT, **words)))


def test_a_person_of_the_provider_runs_a_job(site: Live) -> None:
    reply = log_in(site, "corral")
    assert reply["back"] == "/#signed-in"
    assert reply["me"].get("user") == "corral", reply
    assert reply["job"].get("id"), reply
    journal = root(site, sh("journalctl -o cat --no-pager -u corral-web -u 'corral-web-login@*'"))
    assert "of-the-client" not in journal
    assert "eyJ" not in journal, "no token"


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("munge", "munge is not a person's account"),
        ("stranger", "this cluster has no user 'stranger'"),
    ],
)
def test_nobody_else(site: Live, user: str, words: str) -> None:
    reply = log_in(site, user)
    assert reply["me"]["error"]["message"] == words


def test_the_client_secret_is_roots_alone(site: Live) -> None:
    root(site, sh("chmod 644 {f}/secret", f=FOLDER))
    try:
        message = log_in(site, "corral")["me"]["error"]["message"]
        assert message == "this way to log in is not set up right"
    finally:
        root(site, sh("chmod 600 {f}/secret", f=FOLDER))
