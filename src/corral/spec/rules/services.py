"""Rules about services alongside Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from corral.spec.findings import Level
from corral.spec.nodes import users_of
from corral.spec.sections.page_login import PageLogin
from corral.spec.view import Problem, Rule, View


def tracking_twice(view: View) -> Iterator[Problem]:
    """A tracking server of the cluster's and one of the user's."""
    services = view.spec.services
    if services.mlflow and services.mlflow_uri:
        message = "jobs can log to one tracking server only"
        hint = "leave out mlflow to use the server you have, or mlflow_uri to get one here"
        yield Problem(("services", "mlflow_uri"), message, hint)


def page_open(view: View) -> Iterator[Problem]:
    """A page beyond the controller's loopback that nothing encrypts, or half a certificate."""
    services = view.spec.services
    page, place = services.page, ("services", "page")
    if bool(page.certificate) != bool(page.key):
        hint = "name both files, certificate and key"
        yield Problem(place, "a certificate and its key belong together", hint)
    mesh = view.spec.network.control == "tailscale"
    if services.ui and page.listen == "control" and not page.certificate and not mesh:
        message = "logins would cross the network unencrypted"
        hint = "name a certificate and its key, or leave listen at loopback and use a tunnel"
        yield Problem((*place, "listen"), message, hint)


def page_without_rest(view: View) -> Iterator[Problem]:
    """The page asks slurmrestd."""
    if view.spec.services.ui and not view.spec.slurm.rest:
        hint = "slurm: {rest: true}; where Slurm is too old for that, corral ui works without"
        yield Problem(("services", "ui"), "the page's service needs slurmrestd", hint)


_TAKEN: Final = frozenset(
    {
        *("authorization", "connection", "content-length", "content-type", "cookie", "host"),
        *("origin", "referer", "transfer-encoding", "user-agent", "x-corral-secret"),
        *("x-csrf-token", "x-forwarded-for", "x-forwarded-proto", "x-unattended"),
    }
)
"""Request headers that mean something else."""


def login_without_page(view: View) -> Iterator[Problem]:
    """Ways to log in to a page that is not there."""
    services = view.spec.services
    if services.page.login != PageLogin() and not services.ui:
        hint = "add ui: true to services, or leave login out"
        place = ("services", "page", "login")
        yield Problem(place, "ways to log in are declared, and the page is off", hint)


def login_header(view: View) -> Iterator[Problem]:
    """A proxy's header where no proxy is declared, or one that has another meaning."""
    page = view.spec.services.page
    header, place = page.login.header, ("services", "page", "login", "header")
    if header is None:
        return
    if not page.names:
        hint = "page: {names: [...]}: the names by which browsers reach the proxy"
        yield Problem(place, "a header counts behind a reverse proxy, and none is declared", hint)
    if header.header.lower() in _TAKEN:
        message = f"{header.header} means something else in a request"
        hint = "take another name, such as Remote-User, and let the proxy send it"
        yield Problem((*place, "header"), message, hint)
    if header.proxy == "root":
        message = "with root as the proxy's user, every program of root's could name a person"
        hint = "name the user of the proxy's workers: www-data for nginx"
        yield Problem((*place, "proxy"), message, hint)


def login_oidc(view: View) -> Iterator[Problem]:
    """A provider that could not send browsers back by TLS, or that is not asked for the claim."""
    page = view.spec.services.page
    oidc, place = page.login.oidc, ("services", "page", "login", "oidc")
    if oidc is None:
        return
    if not page.names:
        message = "the provider sends browsers back to a name of this page, and there is none"
        yield Problem(place, message, "page: {names: [...]}: the names by which browsers reach it")
    if page.listen == "control" and not page.certificate:
        message = "browsers would come back from the provider without TLS"
        hint = "name a certificate and its key, or leave listen at loopback behind a reverse proxy"
        yield Problem(place, message, hint)
    if oidc.claim == "email" and "email" not in oidc.scopes:
        hint = "scopes: [profile, email]"
        yield Problem((*place, "scopes"), "the claim email comes with the scope email", hint)


def page_clusters(view: View) -> Iterator[Problem]:
    """A cluster of the page that is listed twice, is this one, or has no possible port."""
    page, place = view.spec.services.page, ("services", "page", "clusters")
    names, hosts = {view.spec.name}, {name.lower() for name in page.names}
    seen = set[str]()
    for number, other in enumerate(page.clusters):
        if other.name in names:
            hint = "list each other cluster once; this one is shown anyway"
            yield Problem((*place, number, "name"), f"{other.name} is listed already", hint)
        names.add(other.name)
        host, port = _host_of(other.url), _port_of(other.url)
        if port is None:
            yield Problem((*place, number, "url"), "the port is not from 1 to 65535", "1 to 65535")
        elif f"{host}:{port}" in seen or (host in hosts and port == page.port):
            hint = "each cluster's page has its own address"
            yield Problem((*place, number, "url"), "this address is a page's already", hint)
        seen.add(f"{host}:{port}")


def page_clusters_apart(view: View) -> Iterator[Problem]:
    """Pages of which a browser sends one no login where the other one shows it."""
    page, place = view.spec.services.page, ("services", "page", "clusters")
    own = {_site_of(name.lower()) for name in page.names} or {"127.0.0.1"}
    for number, other in enumerate(page.clusters):
        if _site_of(_host_of(other.url)) not in own:
            message = f"browsers keep the login of {other.name}'s page from this one: another site"
            hint = "names of one domain, such as west.example.org and east.example.org"
            yield Problem((*place, number, "url"), message, hint)


def _host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def _port_of(url: str) -> int | None:
    parts = urlsplit(url)
    try:
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None


def _site_of(host: str) -> str:
    """What browsers roughly take for one site: the last two labels of a name, an entire address."""
    if host.replace(".", "").isdigit() or ":" in host:
        return host
    return ".".join(host.split(".")[-2:])


def notify_incomplete(view: View) -> Iterator[Problem]:
    """A relay without a sender, a login without a password, a webhook without an address."""
    notify, place = view.spec.services.notify, ("services", "notify")
    if notify is None:
        return
    if not notify.relay and not notify.webhooks:
        hint = "relay: with sender, or webhooks:, or both"
        yield Problem(place, "there is nobody to send messages to", hint)
    if bool(notify.relay) != bool(notify.sender):
        yield Problem(place, "relay and sender belong together", "name both")
    if bool(notify.user) != bool(notify.password_file):
        yield Problem(place, "user and password_file belong together", "name both")
    people = {user.name for user in users_of(view.spec)}
    seen = set[str]()
    for number, hook in enumerate(notify.webhooks):
        at = (*place, "webhooks", number)
        if bool(hook.url) == bool(hook.url_file):
            yield Problem(at, f"webhook {hook.name} needs one of url and url_file", "name one")
        if hook.name in people or hook.name in seen:
            hint = "give it another name, such as lab-chat"
            yield Problem((*at, "name"), f"{hook.name} is a user or another webhook", hint)
        seen.add(hook.name)


def notify_unencrypted(view: View) -> Iterator[Problem]:
    """A password, or messages about jobs, that cross the network unencrypted."""
    notify, place = view.spec.services.notify, ("services", "notify")
    if notify is None:
        return
    if notify.relay and notify.user and notify.tls == "off" and notify.relay not in LOOPBACK:
        hint = "tls: starttls, or a relay on the controller's loopback"
        message = "the relay's password would cross the network unencrypted"
        yield Problem((*place, "tls"), message, hint)
    for number, hook in enumerate(notify.webhooks):
        if hook.url and urlsplit(hook.url).scheme == "http" and not _is_local(hook.url):
            message = f"webhook {hook.name} would get messages about jobs unencrypted"
            yield Problem((*place, "webhooks", number, "url"), message, "an https address")


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in LOOPBACK


LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

RULES: Final = (
    Rule("mlflow-twice", Level.ERROR, "A tracking server of the cluster's own and another one.",
         ("services.mlflow", "services.mlflow_uri"), tracking_twice),
    Rule("notify-incomplete", Level.ERROR, "Messages about jobs without all that sending takes.",
         ("services.notify", "users"), notify_incomplete),
    Rule("notify-unencrypted", Level.ERROR, "A relay's password or a webhook's messages in clear.",
         ("services.notify",), notify_unencrypted),
    Rule("page-open", Level.ERROR, "A page that others on the network could listen to.",
         ("services.page", "services.page.listen"), page_open),
    Rule("page-clusters", Level.ERROR, "A cluster of the page twice, or without a possible port.",
         ("services.page.clusters", "services.page.names", "name"), page_clusters),
    Rule("page-clusters-apart", Level.WARNING, "Pages that a browser takes for other sites.",
         ("services.page.clusters", "services.page.names"), page_clusters_apart),
    Rule("page-without-rest", Level.ERROR, "The page's service without slurmrestd.",
         ("services.ui", "slurm.rest"), page_without_rest),
    Rule("login-without-page", Level.ERROR, "Ways to log in to a page that is not there.",
         ("services.page.login", "services.ui"), login_without_page),
    Rule("login-header", Level.ERROR, "A header that names people, and no proxy that sends it.",
         ("services.page.login.header", "services.page.names"), login_header),
    Rule("login-oidc", Level.ERROR, "A provider that could not send browsers back by TLS.",
         ("services.page.login.oidc", "services.page.names", "services.page.certificate"),
         login_oidc),
)  # fmt: skip
