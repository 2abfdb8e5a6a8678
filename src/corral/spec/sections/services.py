"""Services next to Slurm: page, metrics, MLflow; health checks, proof, prolog and epilog."""

from __future__ import annotations

from typing import Literal

from corral.spec.providers import CONTAINERS
from corral.spec.sections.page_login import PageLogin
from corral.spec.values import (
    AbsolutePath,
    Address,
    Interval,
    KeyPath,
    MailAddress,
    MailLogin,
    Model,
    Name,
    PageOrigin,
    TrackingUri,
    about,
)


class OtherPage(Model):
    """The page of another cluster."""

    name: Name = about("restart", "What this page calls that cluster.")
    url: PageOrigin = about("restart", "Address of its page, as browsers reach it.")


class Page(Model):
    """Where the controller's page listens, and by which names.

    It always listens on the controller's loopback, where ``corral ui --controller`` and a reverse
    proxy reach it.
    """

    listen: Literal["loopback", "control"] = about(
        "restart",
        "loopback: reached by a tunnel or a reverse proxy on the controller; control: on the "
        "controller's address of the control network too, by TLS, or plainly in a mesh.",
        default="loopback",
    )
    port: int = about("restart", "Its port.", default=8765, ge=1024, le=65535)
    names: tuple[Address, ...] = about(
        "restart",
        "Names by which browsers reach it: those of the certificate or of the reverse proxy.",
        default=(),
    )
    certificate: AbsolutePath | None = about(
        "restart",
        "File of the certificate and its chain on the controller, PEM (listen: control).",
        default=None,
    )
    key: AbsolutePath | None = about(
        "restart", "File of its private key there; root's alone is right.", default=None
    )
    hsts: bool = about(
        "restart",
        "Browsers that came by TLS use TLS alone for this name from then on, on every port of it "
        "(HSTS); false where another service of the same name has no TLS.",
        default=True,
    )
    clusters: tuple[OtherPage, ...] = about(
        "restart",
        "Pages of other clusters that this one shows, and that may show this one: with a switcher, "
        "an overview and one search. Each of them names this one too.",
        default=(),
    )
    login: PageLogin = about(
        "restart", "How people log in, next to Slurm's tokens.", default=PageLogin()
    )


class Webhook(Model):
    """An address that gets messages about jobs as JSON. Users choose it by name."""

    name: Name = about("none", "Name by which users choose it: sbatch --mail-user=NAME.")
    url: TrackingUri | None = about("none", "Its address.", default=None)
    url_file: KeyPath | None = about(
        "none",
        "File on this machine whose first line is the address, in place of url, where the address "
        "is a secret, as those of chats are.",
        default=None,
    )


class Notify(Model):
    """Mail and webhooks about jobs, for who asks for them by sbatch --mail-type."""

    relay: Address | None = about(
        "none", "Mail server that takes the cluster's mail; left out: no mail.", default=None
    )
    port: int = about("none", "Its port.", default=25, ge=1, le=65535)
    tls: Literal["starttls", "on", "off"] = about(
        "none",
        "starttls: the connection is encrypted before anything is sent, else nothing is; on: from "
        "its beginning (port 465); off: never.",
        default="starttls",
    )
    user: MailLogin | None = about("none", "Login there; left out: none is needed.", default=None)
    password_file: KeyPath | None = about(
        "none", "File on this machine whose first line is that login's password.", default=None
    )
    sender: MailAddress | None = about("none", "From whom the mail is (with relay).", default=None)
    domain: Address | None = about(
        "none",
        "Domain of users' mail: alice stands for alice@DOMAIN, also where a job names nobody.",
        default=None,
    )
    domains: tuple[Address, ...] = about(
        "none", "Mail goes to addresses in these domains alone; left out: to any.", default=()
    )
    webhooks: tuple[Webhook, ...] = about(
        "none", "Addresses that get JSON in place of mail.", default=()
    )


class Services(Model):
    """What runs alongside Slurm for the people who use the cluster."""

    mlflow: bool = about(
        "restart",
        "An MLflow tracking server on the controller; each job gets its address and own run.",
        default=False,
    )
    mlflow_store: Literal["sqlite", "postgresql"] = about(
        "restart",
        "Where its runs are kept, on the controller: sqlite, one file, for a lab; postgresql for "
        "many jobs at once. What the one holds does not go over into the other.",
        default="sqlite",
    )
    mlflow_uri: TrackingUri | None = about(
        "none",
        "Address of a tracking server you have already; jobs get it instead. Its password or token "
        "goes by the environment (--env MLFLOW_TRACKING_TOKEN), not into this file.",
        default=None,
    )
    ui: bool = about(
        "restart",
        "The page as a service on the controller; people log in with their Slurm token.",
        default=False,
    )
    page: Page = about("restart", "How that page is reached.", default=Page())
    metrics: bool = about(
        "restart",
        "Prometheus on the controller with figures of nodes, GPUs, jobs and Corral, alert rules, "
        "and a dashboard for Grafana.",
        default=False,
    )
    notify: Notify | None = about(
        "reload",
        "Mail and webhooks about jobs, with what an ended job used; left out: Slurm's MailProg.",
        default=None,
    )
    prometheus: TrackingUri | None = about(
        "restart",
        "Address of a Prometheus of yours that scrapes this cluster's exporters; the page draws "
        "from it, and from the controller's without it.",
        default=None,
    )


class ScheduledProof(Model):
    """A round of measurements on idle nodes, run by the controller."""

    every: Interval = about(
        "restart",
        "How often; off: never. Only idle nodes take part, at the lowest priority, and any job of "
        "a user's that needs a node ends the measurement there at once.",
        default="off",
    )
    minutes: int = about("reload", "Longest time on one node.", default=10, ge=1, le=240)
    drain: bool = about(
        "none",
        "A node far below its peers' median or its own past, twice, is drained with the figure "
        "as the reason, and resumed when a later round finds it healthy; false: only reported, as "
        f"always for {CONTAINERS} nodes, which share one machine.",
        default=True,
    )
    at_most: int = about(
        "none",
        "Percent of the nodes that may be out for this at once (one node always may).",
        default=25,
        ge=0,
        le=100,
    )


HealthCheck = Literal[
    "health.gpus",
    "health.ecc",
    "health.remap",
    "health.pcie",
    "health.xid",
    "health.nvlink",
    "health.ib",
    "health.mounts",
    "health.clock",
    "health.disk",
    "health.memory",
    "health.spool",
    "health.services",
    "health.leftover",
]


class Health(Model):
    """Slurm's HealthCheckProgram: a check of each node that takes a few seconds, without Python."""

    every: Interval = about(
        "reload", "How often each compute node checks itself; off: never.", default="5m"
    )
    drain: bool = about(
        "none",
        "A node that fails takes no new jobs, with the check's id as the reason, and takes them "
        "again automatically once all checks pass; false: failures are only "
        "reported (syslog, corral doctor).",
        default=True,
    )
    at_most: int = about(
        "none",
        "Percent of the nodes that may be out for this at once (one node always may): a cause that "
        "all nodes have, such as a file server that is away, takes out no more.",
        default=25,
        ge=0,
        le=100,
    )
    skip: tuple[HealthCheck, ...] = about(
        "none", "Checks that are left out; corral's reference lists all.", default=()
    )


class Prolog(Model):
    """Small scripts that run as root on each node of a job, in /etc/slurm/prolog.d and epilog.d.

    Scripts that somebody else puts there run too and stay. The first of these fields brings Prolog=
    and Epilog= into slurm.conf, which Slurm reads again; from then on the scripts count from the
    next job and no daemon has to reread anything.
    """

    leftovers: bool = about(
        "reload",
        "After a user's last job on a node: end processes that the job left outside any login, and "
        "remove the user's files in /dev/shm, /tmp and /var/tmp and System V memory; the files "
        "stay while the user is logged in there.",
        default=True,
    )
    gpus: bool = about(
        "reload",
        "After a job: end what still computes on its GPUs, and drain the node where that fails; "
        "after one that had the entire node also reset clocks, power and compute mode.",
        default=True,
    )
    clocks: Literal["keep", "highest"] = about(
        "reload",
        "highest: for a job that has the entire node, GPUs and CPUs at their highest clocks.",
        default="keep",
    )
    drop_caches: bool = about(
        "reload",
        "After a job that had the entire node, empty the page cache, so that the next "
        "one starts under the same conditions.",
        default=False,
    )
    minutes: int = about(
        "reload",
        "How long all scripts of a job may take together; then the node is drained.",
        default=5,
        ge=1,
        le=60,
    )
