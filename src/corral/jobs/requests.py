"""What a job asks of Slurm by name: account, QOS, nodes, times, mail. Pure.

Each is a field of ``JobSpec`` with a pattern, an option of sbatch and salloc, and is read back from
an ``#SBATCH`` line (``field_of``). A value that sbatch takes and the pattern does not, such as a
file of node names, goes to sbatch as it stands. Checked against sbatch(1) of Slurm 24.11.7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from corral.errors import CorralError
from corral.spec.slurm.hostlist import expand
from corral.spec.values import HOST_LIST

_NAME: Final = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}"
_CLOCK: Final = "([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?"
_BEGIN: Final = (
    r"^(now(\+[0-9]{1,9}((second|minute|hour|day|week)s?)?)?"
    r"|today|tomorrow|midnight|noon|elevenses|fika|teatime"
    rf"|{_CLOCK}|[0-9]{{4}}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(T{_CLOCK})?)$"
)
_LICENSE: Final = rf"{_NAME}(@{_NAME})?(:[1-9][0-9]{{0,8}})?"
_MAIL: Final = (
    r"^[A-Za-z0-9_][A-Za-z0-9._%+-]{0,63}(@[A-Za-z0-9.-]{1,253})?(:[A-Za-z0-9_,]{1,200})?$"
)
EVENTS: Final = frozenset(
    {"BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT", "TIME_LIMIT"}
    | {"TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS"}
)
"""What Slurm mails about; it ignores words that it does not know (proc_args.c)."""


def _hosts(text: str) -> str:
    try:
        expand(text, strict=True)
    except CorralError as error:
        raise ValueError(error.message) from error
    return text


def _events(text: str) -> str:
    _, colon, events = text.partition(":")
    unknown = [word for word in events.split(",") if word.upper() not in EVENTS] if colon else []
    if unknown:
        raise ValueError(f"unknown event {unknown[0]!r}: one of {', '.join(sorted(EVENTS))}")
    return text


AccountName = Annotated[str, Field(pattern=f"^{_NAME}$")]
QosNames = Annotated[str, Field(pattern=f"^{_NAME}(,{_NAME}){{0,15}}$")]
Hosts = Annotated[str, Field(pattern=HOST_LIST.pattern, max_length=1000), AfterValidator(_hosts)]
# What the features' names leave for operators: & | * , [ ] ( ).
Constraint = Annotated[str, Field(pattern=r"^[A-Za-z0-9_\[(][A-Za-z0-9_.:=+&|*,\[\]()-]{0,999}$")]
After = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}(_[0-9]{1,7})?(:(ok|any))?$")]
Begin = Annotated[str, Field(pattern=_BEGIN)]
Mail = Annotated[str, Field(pattern=_MAIL), AfterValidator(_events)]
Licenses = Annotated[str, Field(pattern=f"^{_LICENSE}(,{_LICENSE}){{0,15}}$")]

FIELDS: Final = MappingProxyType(
    {
        **{name: name for name in ("account", "qos", "nodelist", "exclude", "constraint")},
        **{name: name for name in ("begin", "licenses", "exclusive")},
        "dependency": "after",
        "mail-user": "mail",
        "mail-type": "mail",
    }
)
"""The field of ``JobSpec`` by sbatch's option."""

SHARED_GPU: Final = re.compile(r"shard:(?:[A-Za-z0-9_.-]+:)?[1-9][0-9]{0,6}")
"""A value of ``--gres`` that goes to sbatch as it stands: a part of a GPU that others share."""


def option_in(sbatch: tuple[str, ...], option: str) -> str | None:
    """The option of that name, None where it is not given."""
    return next((each for each in sbatch if each.partition("=")[0] == option), None)


def _dependency(value: str) -> tuple[str, ...]:
    """``afterok:12:13,afterany:14`` as values of ``after``.

    Raises:
        ValueError: it is another kind, such as ``singleton`` or one of several (``?``).
    """
    after: list[str] = []
    for term in value.split(","):
        kind, *numbers = term.split(":")
        how = {"afterok": "ok", "afterany": "any"}.get(kind)
        if how is None or not numbers:
            raise ValueError(term)
        after += [f"{number}:{how}" for number in numbers]
    return tuple(after)


def _alone(value: str) -> bool:
    if value:
        raise ValueError(value)
    return True


def _checked(kind: Any) -> Callable[[str], Any]:
    return TypeAdapter(kind).validate_python


_READ: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "account": _checked(AccountName),
        "qos": _checked(QosNames),
        "nodelist": _checked(Hosts),
        "exclude": _checked(Hosts),
        "constraint": _checked(Constraint),
        "begin": _checked(Begin),
        "licenses": _checked(Licenses),
        "exclusive": _alone,
        "dependency": lambda value: TypeAdapter(tuple[After, ...]).validate_python(
            _dependency(value)
        ),
    }
)


def field_of(option: str, value: str) -> tuple[str, Any] | None:
    """The field and value of an option of an ``#SBATCH`` line; None: it goes to sbatch as it is."""
    read = _READ.get(option)
    if read is None:
        return None
    try:
        return FIELDS[option], read(value)
    except (ValueError, ValidationError):
        return None


def mail_of(user: str, events: str) -> str | None:
    """``mail`` of ``--mail-user`` and ``--mail-type``; None: both go to sbatch as they are.

    Without a type Slurm mails nothing, without a user it writes to who submitted.
    """
    if not user or not events:
        return None
    try:
        return TypeAdapter(Mail).validate_python(f"{user}:{events}")
    except ValidationError:
        return None
