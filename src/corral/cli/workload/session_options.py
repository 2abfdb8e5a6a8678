"""Options of a job that `corral shell` and `corral notebook` share, written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from corral.cli.workload import run as job

Verb = TypeVar("Verb", bound=Callable[..., int])


def session_options(
    *,
    gpu_type: job.GPU_TYPE = "",
    mem: job.MEM = "",
    time: job.TIME = "",
    partition: job.PARTITION = "",
    account: job.ACCOUNT = "",
    qos: job.QOS = "",
    nodelist: job.NODELIST = "",
    exclude: job.EXCLUDE = "",
    constraint: job.CONSTRAINT = "",
    licenses: job.LICENSES = "",
    exclusive: job.EXCLUSIVE = False,
    env: job.ENV = None,
    container: job.CONTAINER = "",
    mount: job.MOUNT = None,
    sbatch: job.SBATCH = None,
    user: job.USER = "",
) -> None:
    """A signature, for ``with_session_options``; nothing calls it."""


def with_session_options(before: str) -> Callable[[Verb], Verb]:
    """A verb whose ``**given`` are these options.

    Args:
        before: its own option before which they come in its help.
    """

    def taken(verb: Verb) -> Verb:
        own = inspect.signature(verb, eval_str=True).parameters
        options: dict[str, inspect.Parameter] = {}
        for name, parameter in own.items():
            if name == before:
                options.update(inspect.signature(session_options, eval_str=True).parameters)
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                options[name] = parameter
        # typer reads options from there.
        vars(verb)["__signature__"] = inspect.Signature([*options.values()])
        return verb

    return taken


def given_fields(given: dict[str, Any], **own: Any) -> dict[str, Any]:
    """Fields of ``JobSpec`` of these options and a verb's own."""
    return job.asked_fields({**given, **own})
