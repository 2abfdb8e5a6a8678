"""slurmrestd's answers about accounts, QOS, shares, reservations, licences and sdiag. Pure.

Limits and their places in an answer are in ``limits.yaml``. Commands with ``--json`` print the same
records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from corral.slurm.policy import (
    COUNTED,
    Call,
    Cycle,
    License,
    Limit,
    Member,
    Qos,
    Reservation,
    Scheduler,
    Share,
    known_limits,
)
from corral.slurm.records import Association
from corral.slurm.rest.json_values import (
    Record,
    integer,
    maybe,
    moment,
    number,
    record,
    records,
    text,
    words,
)
from corral.slurm.rest.read import unreadable

T = TypeVar("T")
PARENT: Final = 0x7FFFFFFF
"""SLURMDB_FS_USE_PARENT (slurmdb.h): the share is the parent's."""
_MINUTE: Final = 60


@dataclass(frozen=True, slots=True)
class RestQuestion(Generic[T]):
    """What Slurm is asked, by REST or by command, and how its answer is read.

    Attributes:
        what: in words, for errors.
        path: of slurmrestd, with ``{v}`` for the version, as 45.
        command: prints the same as JSON.
        read: makes the records of an answer's body, of the API version given.
        listed: the list of records that name their cluster: several may share one slurmdbd.
    """

    what: str
    path: str
    command: tuple[str, ...]
    read: Callable[[Record, int], T]
    listed: str = ""

    def of_cluster(self, body: object, cluster: str) -> Record:
        """An answer's body without the records of other clusters; all for an unknown name."""
        answer = record(body)
        if not self.listed or not cluster or not isinstance(answer.get(self.listed), list):
            return answer
        kept = [o for o in records(answer.get(self.listed)) if text(o.get("cluster")) == cluster]
        return {**answer, self.listed: kept}

    @property
    def of_accounting(self) -> bool:
        """Whether slurmdbd answers it."""
        return self.path.startswith("/slurmdb/")


def _listed(body: Record, *keys: str) -> list[Record]:
    """The list of the first of these keys that the answer has.

    Raises:
        CorralError: PARSE_FAILED, it has none of them, which does not mean that the list is empty.
    """
    for key in keys:
        if isinstance(body.get(key, ""), list | None):
            return records(body[key])
    raise unreadable(f"it has no list of {keys[0]}")


def _at(raw: Record, path: str) -> object:
    value: Any = raw
    for key in path.split("/"):
        value = record(value).get(key)
    return value


def _limits(raw: Record, kind: Literal["association", "qos"]) -> tuple[Limit, ...]:
    limits: list[Limit] = []
    for name, row in known_limits().items():
        path = row.association if kind == "association" else row.qos
        value = _at(raw, path) if path else None
        limits += [
            Limit(name, resource_of(entry), integer(entry.get("count")))
            for entry in records(value)
            if maybe(entry.get("count")) is not None
        ]
        if (amount := maybe(value)) is not None:
            limits.append(Limit(name, "", amount * (_MINUTE if row.minutes else 1)))
    return tuple(limits)


def resource_of(entry: Record) -> str:
    """The name of a trackable resource: ``cpu``, ``gres/gpu``."""
    return "/".join(part for part in (text(entry.get("type")), text(entry.get("name"))) if part)


def members(body: Record, _: int) -> tuple[Member, ...]:
    """The associations of an answer."""
    return tuple(_member(raw) for raw in _listed(body, "associations") if raw.get("account"))


def _member(raw: Record) -> Member:
    share = maybe(raw.get("shares_raw"))
    limits = _limits(raw, "association")
    plain = {limit.name: limit.value for limit in limits if not limit.resource}
    return Member(
        Association(
            account=text(raw.get("account")),
            user=text(raw.get("user")),
            parent=text(raw.get("parent_account")),
            share="parent" if share == PARENT else str(share or ""),
            tres=",".join(f"{x.resource}={x.value}" for x in limits if x.name == "GrpTRES"),
            jobs=plain.get("GrpJobs"),
            submitted=plain.get("GrpSubmitJobs"),
            qos=words(raw.get("qos")),
            default_qos=text(record(raw.get("default")).get("qos")),
        ),
        partition=text(raw.get("partition")),
        is_default=bool(raw.get("is_default")),
        limits=limits,
    )


def qos(body: Record, version: int) -> tuple[Qos, ...]:
    """The QOS of an answer (``QOS`` in v0.0.38), those of highest priority first."""
    listed = _listed(body, "qos", "QOS")
    made = (_qos(raw, version) for raw in listed if raw.get("name"))
    return tuple(sorted(made, key=lambda entry: (-entry.priority, entry.name)))


def _qos(raw: Record, version: int) -> Qos:
    preempt, limits = record(raw.get("preempt")), record(raw.get("limits"))
    modes = [mode for mode in words(preempt.get("mode")) if mode != "DISABLED"]
    return Qos(
        name=text(raw.get("name")),
        description=text(raw.get("description")),
        priority=integer(raw.get("priority")),
        preempts=words(preempt.get("list")),
        preempt_mode=",".join(modes).lower(),
        usage_factor=number(raw.get("usage_factor")),
        grace=integer(limits.get("grace_time")),
        flags=words(raw.get("flags")),
        limits=_limits(limits, "qos"),
        unreported=tuple(x.name for x in known_limits().values() if version < x.qos_since),
    )


def shares(body: Record, _: int) -> tuple[Share, ...]:
    """The fair shares of an answer."""
    listed = _listed(record(body.get("shares")), "shares")
    return tuple(_share(raw) for raw in listed if raw.get("name"))


def _share(raw: Record) -> Share:
    of_user = "USER" in words(raw.get("type"))
    name, parent = text(raw.get("name")), text(raw.get("parent"))
    raw_shares = maybe(raw.get("shares"))
    used = records(record(raw.get("tres")).get("usage"))
    seconds = {text(entry.get("name")): number(entry.get("value")) for entry in used}
    return Share(
        account=parent if of_user else name,
        user=name if of_user else "",
        raw=None if raw_shares == PARENT else raw_shares,
        part=number(raw.get("shares_normalized")),
        usage=_usage(raw),
        effective=number(raw.get("effective_usage")),
        factor=number(record(raw.get("fairshare")).get("factor")) if of_user else None,
        minutes={key: value / _MINUTE for key, value in seconds.items() if value is not None},
    )


def _usage(raw: Record) -> float | None:
    """Of all usage: not set where there is none at all; ``effective_usage`` is of the parent's."""
    return number(raw.get("usage_normalized"))


def reservations(body: Record, _: int) -> tuple[Reservation, ...]:
    """The reservations of an answer, those that begin first at the top."""
    made = (_reservation(raw) for raw in _listed(body, "reservations") if raw.get("name"))
    return tuple(sorted(made, key=lambda entry: (entry.start or 0, entry.name)))


def _reservation(raw: Record) -> Reservation:
    return Reservation(
        name=text(raw.get("name")),
        start=moment(raw.get("start_time")),
        end=moment(raw.get("end_time")),
        nodes=text(raw.get("node_list")),
        node_count=integer(raw.get("node_count")),
        cores=integer(raw.get("core_count")),
        partition=text(raw.get("partition")),
        users=words(raw.get("users")),
        accounts=words(raw.get("accounts")),
        licenses=text(raw.get("licenses")),
        flags=words(raw.get("flags")),
    )


def licenses(body: Record, _: int) -> tuple[License, ...]:
    """The licences of an answer."""
    listed = _listed(body, "licenses")
    return tuple(
        License(
            name=text(raw.get("LicenseName")),
            total=integer(raw.get("Total")),
            used=integer(raw.get("Used")),
            free=integer(raw.get("Free")),
            reserved=integer(raw.get("Reserved")),
            remote=bool(raw.get("Remote")),
        )
        for raw in listed
        if raw.get("LicenseName")
    )


def scheduler(body: Record, _: int) -> Scheduler:
    """What sdiag prints."""
    raw = record(body.get("statistics"))
    if not raw:
        raise unreadable("it has no statistics")
    exits = {key: record(raw.get(key)) for key in ("schedule_exit", "bf_exit")}
    counted = {word: maybe(raw.get(f"jobs_{word}")) for word in COUNTED}
    return Scheduler(
        since=moment(raw.get("req_time_start")),
        threads=maybe(raw.get("server_thread_count")),
        agents=maybe(raw.get("agent_queue_size")),
        agent_threads=maybe(raw.get("agent_thread_count")),
        database=maybe(raw.get("dbd_agent_queue_size")),
        jobs={word: count for word, count in counted.items() if count is not None},
        main=Cycle(
            count=maybe(raw.get("schedule_cycle_total")),
            last=maybe(raw.get("schedule_cycle_last")),
            mean=maybe(raw.get("schedule_cycle_mean")),
            longest=maybe(raw.get("schedule_cycle_max")),
            depth=maybe(raw.get("schedule_cycle_mean_depth")),
            queue=maybe(raw.get("schedule_queue_length")),
            exits=_positive(exits["schedule_exit"]),
        ),
        backfill=Cycle(
            count=maybe(raw.get("bf_cycle_counter")),
            last=maybe(raw.get("bf_cycle_last")),
            mean=maybe(raw.get("bf_cycle_mean")),
            longest=maybe(raw.get("bf_cycle_max")),
            depth=maybe(raw.get("bf_depth_mean")),
            last_depth=maybe(raw.get("bf_last_depth")),
            queue=maybe(raw.get("bf_queue_len")),
            last_at=moment(raw.get("bf_when_last_cycle")),
            exits=_positive(exits["bf_exit"]),
        ),
        backfilled=maybe(raw.get("bf_backfilled_jobs")),
        by_type=_calls(raw.get("rpcs_by_message_type"), "message_type"),
        by_user=_calls(raw.get("rpcs_by_user"), "user"),
    )


def _positive(counted: Record) -> dict[str, int]:
    return {word: integer(count) for word, count in counted.items() if integer(count)}


def _calls(listed: object, key: str) -> tuple[Call, ...]:
    calls = (
        Call(
            text(raw.get(key)),
            integer(raw.get("count")),
            integer(raw.get("average_time")),
            integer(raw.get("total_time")),
        )
        for raw in records(listed)
    )
    return tuple(sorted(calls, key=lambda call: (-call.total, call.name)))


_SACCTMGR: Final = ("sacctmgr", "--json", "show")
ASSOCIATIONS: Final = RestQuestion(
    "accounts",
    "/slurmdb/v0.0.{v}/associations/",
    (*_SACCTMGR, "associations"),
    members,
    "associations",
)
QOSES: Final = RestQuestion("QOS", "/slurmdb/v0.0.{v}/qos/", (*_SACCTMGR, "qos"), qos)
SHARES: Final = RestQuestion(
    "shares", "/slurm/v0.0.{v}/shares", ("sshare", "--all", "--json"), shares
)
RESERVATIONS: Final = RestQuestion(
    "reservations",
    "/slurm/v0.0.{v}/reservations",
    ("scontrol", "show", "reservations", "--json"),
    reservations,
)
LICENSES: Final = RestQuestion(
    "licences", "/slurm/v0.0.{v}/licenses", ("scontrol", "show", "licenses", "--json"), licenses
)
SCHEDULER: Final = RestQuestion(
    "the scheduler's figures", "/slurm/v0.0.{v}/diag/", ("sdiag", "--json"), scheduler
)
