"""Why a job is pending: Slurm's words (job_state_reason.c) and what they mean to its owner."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Priority": "jobs with higher priority wait before it",
        "Resources": "it is next, and waits until enough nodes, CPUs, memory or GPUs are free",
        "Dependency": "it waits for another job (--dependency)",
        "DependencyNeverSatisfied": "the job it depends on ended otherwise: it can never start",
        "PartitionNodeLimit": "it asks for more nodes than its partition has or allows",
        "PartitionTimeLimit": "it asks for more time than its partition's MaxTime",
        "PartitionDown": "its partition is down",
        "PartitionInactive": "its partition is inactive",
        "PartitionConfig": "its partition does not allow what it asks for",
        "JobHeldAdmin": "an administrator holds it: scontrol release by an administrator",
        "JobHeldUser": "it is held: scontrol release",
        "JobHoldMaxRequeue": "it was requeued too often and is held: read its output first",
        "launch_failed_requeued_held": "its start failed and Slurm holds it: read slurmd's log on "
        "its node, then scontrol release",
        "BeginTime": "its start time has not come",
        "Licenses": "it waits for a licence",
        "Reservation": "it waits for its reservation to begin",
        "ReqNodeNotAvail": "nodes it needs are down, drained, reserved or in use",
        "SchedDefer": "it asks to start at once, and the scheduler is set to wait",
        "NodeDown": "a node it needs is down",
        "BadConstraints": "no node can ever give what it asks for",
        "SystemFailure": "Slurm itself, the file system or the network failed",
        "JobLaunchFailure": "it could not be started: read slurmd's log on its node",
        "Prolog": "its prolog is still running",
        "Cleaning": "it was requeued and its last run is still being cleaned up",
        "InvalidAccount": "its account does not exist any more; without accounting, Slurm before "
        "24.11 gives it for any pending job",
        "InvalidQOS": "its QOS does not exist any more",
        "QOSNotAllowed": "its QOS may not use this partition",
        "AccountNotAllowed": "its account may not use this partition",
        "QOSUsageThreshold": "its QOS's usage is over the threshold",
        "JobArrayTaskLimit": "its array's limit of tasks at a time is reached",
        "MaxMemPerLimit": "it asks for more memory than MaxMemPerCPU or MaxMemPerNode",
        "ReservationDeleted": "its reservation was deleted",
        "NvidiaImexChannels": "no NVIDIA IMEX channel is free",
        "FedJobLock": "another cluster of the federation is deciding",
        "MaxPoweredUpNodes": "as many nodes are powered up as are allowed",
        "MpiPortsBusy": "no port is free for its MPI ranks",
        "Constraints": "nodes with the features it asks for are in use",
        "AccountingPolicy": "a limit in accounting is reached",
        "ReservationInvalid": "its reservation cannot be used any more",
        "NonZeroExitCode": "it ended with an error",
        "RaisedSignal": "it was ended by a signal",
        "TimeLimit": "it ran into its time limit",
        "InactiveLimit": "it was idle for too long",
        "OutOfMemory": "it used more memory than it asked for",
        "DeadLine": "it cannot end before its deadline",
    }
)
"""In words, by Slurm's word."""

_FAMILIES: Final = (
    ("AssocGrp", "a limit on the running jobs of its user or account together is reached"),
    ("AssocMax", "a limit for its user or account is reached"),
    ("Association", "a limit for its user or account is reached"),
    ("QOSGrp", "a limit on the running jobs of its QOS together is reached"),
    ("QOSMax", "a limit of its QOS is reached"),
    ("QOSMin", "it asks for less than its QOS demands"),
    ("QOS", "a limit of its QOS is reached"),
    ("Max", "a limit for its user or account is reached"),
    ("BurstBuffer", "it waits for its burst buffer"),
)


_SENTENCES: Final = (
    (
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority",
        "nodes it needs are down, drained, or kept for partitions of higher priority",
    ),
)
"""Where Slurm prints a sentence (24.11, job_scheduler.c) and no word; it contains a comma."""


_LIMITS: Final = ("Assoc", "QOSGrp", "QOSMax")


def by_limit(reason: str) -> bool:
    """Whether a limit of accounting holds the job back.

    The scheduler plans no such job, so that a start time next to this reason is an estimate from
    before, and holds for nothing.
    """
    return reason.startswith(_LIMITS)


def explain(reason: str) -> str:
    """A pending reason in words: squeue's ``Resources`` or ``ReqNodeNotAvail, Unavail...``.

    An unknown word is returned as it is: later releases have more of them.
    """
    text = reason.strip().removeprefix("(").removesuffix(")")
    spaced = text.replace("_", " ")
    for begins, sentence in _SENTENCES:
        if spaced.startswith(begins):
            return sentence
    word, _, more = text.partition(",")
    if word in ("", "None", "null"):
        return ""
    words = REASONS.get(word.replace(" ", "_"))  # scontrol writes them with _, squeue with spaces
    if words is None:
        meanings = [meaning for start, meaning in _FAMILIES if word.startswith(start)]
        words = f"{meanings[0]} ({word})" if meanings else word
    return f"{words} ({more.strip()})" if more.strip() else words
