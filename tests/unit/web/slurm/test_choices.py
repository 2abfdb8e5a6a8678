"""What a job by form may choose: what is free on nodes, what is left of limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from corral.slurm.policy import Limit, Member
from corral.slurm.records import Association, Job, Node, Partition
from corral.slurm.states.nodes import NodeState
from corral.web.slurm import quota
from corral.web.slurm.choices import (
    MOST_WORDS,
    account_choices,
    filter_words,
    partition_choices,
    qos_choices,
)


def node(name: str, state: str = "IDLE", **more: Any) -> Node:
    fields = {"cpus": 8, "gres": "gpu:h200:4", "gres_used": "gpu:h200:0", "partitions": ("main",)}
    return Node(name, NodeState.parse(state), **{**fields, **more})


def test_what_is_free_is_on_nodes_that_take_jobs() -> None:
    nodes = [
        node("n1"),
        node("n2", "MIXED", cpus_used=3, gres_used="gpu:h200:1"),
        node("n3", "IDLE+DRAIN"),
        node("n4", partitions=("main", "old"), gres="", gres_used=""),
    ]
    partitions = [Partition("main", "UP", max_time=60), Partition("old", "DRAIN")]
    main, old = partition_choices(partitions, nodes, "main")
    assert (main["nodes"], main["idle"], main["max_time"]) == (4, 2, 60)
    assert (main["cpus"], main["cpus_free"]) == (32, 21)
    assert (main["gpus"], main["gpus_free"]) == (12, 7)
    assert (main["takes_jobs"], main["is_default"]) == (True, True)
    assert (old["takes_jobs"], old["is_default"], old["idle"]) == (False, False, 1)


def test_a_filter_offers_what_jobs_have_and_none_of_corrals_own() -> None:
    jobs = [
        Job(id=1, user="kim", account="lab", partition="main,long"),
        Job(id=2, user="ada", partition="main", name="secret"),
        Job(id=3, user="corral-proof", account="corral-proof", partition="corral-proof"),
    ]
    words = filter_words(jobs)
    assert words["user"] == ["ada", "kim"]
    assert words["account"] == ["lab"]
    assert words["partition"] == ["long", "main"]
    assert words["name"] == words["id"] == words["qos"] == []
    many = [Job(id=n, user=f"u{n}") for n in range(2 * MOST_WORDS)]
    assert len(filter_words(many)["user"]) == MOST_WORDS


def test_gpus_whose_use_is_unknown_are_not_free() -> None:
    (main,) = partition_choices([Partition("main")], [node("n1", gres_used="")], "")
    assert (main["gpus"], main["gpus_free"], main["takes_jobs"]) == (4, None, True)


def member(account: str, user: str = "", **more: Any) -> Member:
    parent, default = more.pop("parent", "root"), more.pop("is_default", False)
    return Member(Association(account, user, parent, **more), is_default=default)


def row(kind: str, name: str, account: str, **cells: tuple[int | None, int | None]) -> Any:
    listed = [{"what": what, "used": used, "limit": most} for what, (used, most) in cells.items()]
    return {"kind": kind, "name": name, "account": account, "cells": listed}


def test_what_is_left_is_by_the_tightest_limit_that_is_known() -> None:
    members = [
        member("lab"),
        member("vision", parent="lab"),
        member("vision", "kim", qos=("normal", "high"), default_qos="normal", is_default=True),
        member("bio", "kim", qos=("normal",)),
        member("bio", "lee"),
    ]
    limits = [
        row("user", "vision", "vision", gpus=(1, 8), jobs=(2, None)),
        row("account", "lab", "lab", gpus=(30, 32), jobs=(None, 5)),
        row("user", "bio", "bio", gpus=(9, 4), jobs=(0, 3)),
        row("qos-user", "high", "", gpus=(0, 4)),
        row("qos", "high", "", gpus=(13, 16)),
    ]
    vision, bio = accounts = account_choices("kim", members, limits)
    assert (vision["name"], vision["is_default"], vision["default_qos"]) == (
        "vision",
        True,
        "normal",
    )
    assert (vision["gpus_left"], vision["jobs_left"]) == (2, None)
    assert (bio["gpus_left"], bio["jobs_left"], bio["qos"]) == (0, 3, ["normal"])
    assert qos_choices(accounts, limits) == [
        {"name": "high", "gpus_left": 3, "jobs_left": None},
        {"name": "normal", "gpus_left": None, "jobs_left": None},
    ]
    assert account_choices("ann", members, limits) == []


def test_a_closed_account_leaves_no_job() -> None:
    """``sacctmgr modify account bio set GrpSubmitJobs=0`` closes it; ``MaxSubmitJobs=0`` a user."""
    members = [member("lab", "kim"), member("bio", "kim"), member("art", "kim")]
    limits = [
        row("user", "lab", "lab", jobs=(2, 10), submitted=(17, 20)),
        row("account", "bio", "bio", jobs=(0, None), submitted=(0, 0)),
        row("user", "art", "art", jobs=(0, 5), submitted=(3, 0)),
    ]
    left = {entry["name"]: entry["jobs_left"] for entry in account_choices("kim", members, limits)}
    assert left == {"art": 0, "bio": 0, "lab": 3}


def test_limits_for_one_partition_are_not_those_of_the_account() -> None:
    jobs = Limit("MaxJobs", "", 3), Limit("MaxJobs", "", 7)
    small = replace(member("lab", "kim"), partition="debug", limits=jobs[:1])
    every = replace(member("lab", "kim"), limits=jobs[1:])
    for members, left in (((small, every), 7), ((small,), None)):
        limits = quota.rows("kim", (), members, None, None, all_seen=True)
        (lab,) = account_choices("kim", members, limits)
        assert lab["jobs_left"] == left
