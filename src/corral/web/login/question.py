"""What the page asks the program of root's that makes tokens."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

SECRET_HEADER: Final = "x-corral-secret"  # noqa: S105  # the header's name
LONGEST_NAME: Final = 256
LONGEST_SECRET: Final = 4096
LONGEST: Final = 1 << 16
"""Bytes of one question."""

Text = Annotated[str, Field(max_length=4096)]
Secret = Annotated[str, Field(max_length=LONGEST_SECRET, repr=False)]


class _Ask(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ByHeader(_Ask):
    """A reverse proxy names the person, and shows its secret."""

    do: Literal["header"]
    user: Annotated[str, Field(max_length=LONGEST_NAME)]
    secret: Secret


class ForProvider(_Ask):
    """Where the OpenID provider is; no login."""

    do: Literal["provider"]


class ByCode(_Ask):
    """The OpenID provider sent a browser back.

    Attributes:
        code: from the address.
        verifier: of the challenge that the browser went away with (PKCE).
        nonce: that must be in the ID token.
        redirect: where the provider was to send the browser.
    """

    do: Literal["code"]
    code: Secret
    verifier: Secret
    nonce: Text
    redirect: Text


class ByPassword(_Ask):
    """A person's name and password, for PAM."""

    do: Literal["password"]
    user: Annotated[str, Field(max_length=LONGEST_NAME)]
    password: Secret


class Question(BaseModel):
    """One question."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    ask: Annotated[ByHeader | ForProvider | ByCode | ByPassword, Field(discriminator="do")]
