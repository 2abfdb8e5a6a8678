"""What each verb does with a profile that reaches its cluster by slurmrestd alone."""

from __future__ import annotations

from pydantic import model_validator

from corral.errors import Code, CorralError
from corral.spec.client import ClientSpec
from corral.tables import Row, read_table


class RestVerb(Row):
    """A verb, or one with an option.

    Attributes:
        verb: its words.
        works: what it does there; "" where it cannot.
        why: why it cannot, a sentence without its end.
        instead: what to use.
    """

    verb: str
    works: str = ""
    why: str = ""
    instead: str = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> RestVerb:
        if bool(self.works) == bool(self.why) or bool(self.why) != bool(self.instead):
            raise ValueError("works, or why and instead")
        return self

    @property
    def line(self) -> str:
        """Its row of the guide's table."""
        outcome = self.works or f"refused: {self.why}. Use: {self.instead}"
        return f"| `{self.verb}` | {outcome} |"


def rest_verbs() -> tuple[RestVerb, ...]:
    """All of them, in the order of the guide."""
    return read_table("corral.cli", "rest_verbs.yaml", tuple[RestVerb, ...])


def refuse_without_ssh(spec: ClientSpec, verb: str) -> None:
    """Refuse a verb that needs more than slurmrestd.

    Raises:
        CorralError: FORBIDDEN.
    """
    row = next(row for row in rest_verbs() if row.verb == verb)
    raise CorralError(
        Code.FORBIDDEN,
        f"{row.why}, and profile {spec.profile.name} reaches its cluster by slurmrestd alone",
        hint=f"{row.instead.replace('`', '')}; or log in by ssh: corral login USER@HOST",
    )
