# Installed as: the job's folder, next to collectives.py (api/evidence/collective_bench,
# api/evidence/node_bench)
# Started by: collectives.py
# Runs as: the user who starts the benchmark
# pyright: basic, reportMissingImports=false
# It runs under the node's own PyTorch, which is not installed where Corral is checked.
"""Lets parts of a job's nodes run an all_reduce alone, to see which part is slow.

Up to 16 nodes: each two of them. From four nodes on: all of them, their halves, the halves of
those, down to two or three nodes. What stands side by side runs at once: so many turns as a
tournament has for the pairs, and the logarithm of the number of nodes for the halves. With more
than 16 nodes the members of slow parts are then paired with a node of the fastest part.

Standard library and PyTorch only; ``collectives.py`` calls it.
"""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist

REPORT = os.environ.get("CORRAL_REPORT", "@@corral-")
PAIR = f"{REPORT}pair "
HALF = f"{REPORT}half "
EACH_TWO = 16  # nodes: with more, every two of them would take too many turns
LEAST = 4  # nodes that have halves of two
SLOW = 0.7  # of the fastest part of two or three nodes
SUSPECTS = 16


def marked_records(run, members: list) -> list:
    """What rank 0 is to write: a mark and a record for each part."""
    names = list(dict.fromkeys(member["hostname"] for member in members))
    records = []
    if 2 < len(names) <= EACH_TWO:  # noqa: PLR2004
        for turn in rounds(names):
            records += [(PAIR, part) for part in measured(run, members, turn)]
    least = []
    if len(names) >= LEAST:
        for level in levels(names):
            seen = measured(run, members, level)
            records += [(HALF, part) for part in seen]
            least += [part for part in seen if len(part["nodes"]) < LEAST]
    if len(names) > EACH_TWO:
        for pair in crossed(least):
            records += [(PAIR, part) for part in measured(run, members, [pair])]
        records += [(PAIR, part) for part in least if len(part["nodes"]) == 2]  # noqa: PLR2004
    return records if run.rank == 0 else []


def rounds(names: list) -> list:
    """All pairs, in rounds of disjoint ones: the circle method of tournaments."""
    ring = [*names, None] if len(names) % 2 else list(names)
    turns = []
    for _ in ring[1:]:
        half = [(ring[i], ring[-1 - i]) for i in range(len(ring) // 2)]
        turns.append([pair for pair in half if None not in pair])
        ring.insert(1, ring.pop())
    return turns


def levels(names: list) -> list:
    """All nodes, their halves, the halves of those: the parts of each level."""
    level, tiers = [tuple(names)], []
    while level:
        tiers.append(level)
        halves = [(p[: len(p) // 2], p[len(p) // 2 :]) for p in level if len(p) >= LEAST]
        level = [half for both in halves for half in both]
    return tiers


def crossed(least: list) -> list:
    """Members of slow parts, each with a node of the fastest part."""
    best = max(least, key=lambda part: part["bus_bw"])
    bad = [part for part in least if part["bus_bw"] < SLOW * best["bus_bw"]]
    bad.sort(key=lambda part: part["bus_bw"])
    return [(best["nodes"][0], name) for part in bad for name in part["nodes"]][:SUSPECTS]


def measured(run, members: list, parts: list) -> list:
    """GB/s of all_reduce within each of these disjoint parts, all at once; alike on all ranks."""
    here = members[run.rank]["hostname"]
    ranks = {part: [m["rank"] for m in members if m["hostname"] in part] for part in parts}
    groups = {part: dist.new_group(numbers) for part, numbers in ranks.items()}
    mine, seen = next((part for part in parts if here in part), None), None
    if mine is not None:
        count = len(ranks[mine])
        data = torch.zeros(run.options.apart // run.width, **run.kind)
        us = float("inf")
        for turns in (1, 3, 3, 3):  # the best of them: what disturbs a link only slows it down
            dist.barrier(group=groups[mine])
            start = time.perf_counter()
            for _ in range(turns):
                dist.all_reduce(data, group=groups[mine])
            if run.gpu:
                torch.cuda.synchronize()
            us = min(us, (time.perf_counter() - start) * 1e6 / turns)
        rate = run.options.apart / us / 1e3 * 2 * (count - 1) / count
        seen = {"nodes": list(mine), "bus_bw": rate, "size": run.options.apart}
    every: list = [None] * run.ranks
    dist.all_gather_object(every, seen)
    return list({tuple(part["nodes"]): part for part in every if part}.values())
