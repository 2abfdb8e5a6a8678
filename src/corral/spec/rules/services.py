"""Rules about services alongside Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.spec.findings import Level
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


RULES: Final = (
    Rule("mlflow-twice", Level.ERROR, "A tracking server of the cluster's own and another one.",
         ("services.mlflow", "services.mlflow_uri"), tracking_twice),
    Rule("page-open", Level.ERROR, "A page that others on the network could listen to.",
         ("services.page", "services.page.listen"), page_open),
    Rule("page-without-rest", Level.ERROR, "The page's service without slurmrestd.",
         ("services.ui", "slurm.rest"), page_without_rest),
)  # fmt: skip
