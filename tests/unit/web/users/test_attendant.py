"""Who answers sudo while the page runs: only with what `corral ui` passed, for its machines."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic import ValidationError

from corral.hosts.target import SshTarget
from corral.passwords import LOGIN, SUDO, accompanied, person
from corral.web.settings import Settings, Sudo
from corral.web.users.audit import attendant

MINE = SshTarget("10.0.0.5", user="kim", via=SshTarget("gate", user="kim"))
OTHERS = (
    ("n1", replace(MINE, address="203.0.113.9")),
    ("n1", replace(MINE, user="thief")),
    ("n1", replace(MINE, port=2222)),
    ("n1", replace(MINE, via=None)),
    ("n1", replace(MINE, via=SshTarget("gate2", user="kim"))),
    ("n2", MINE),  # no host key is pinned under that name
)


def sudo() -> Sudo:
    return Sudo.model_validate({"password": "s3cret", "machines": [MINE.place("n1")]})


def answer(place: str, kind: str = SUDO) -> str | None:
    return asyncio.run(person().password(kind, "sudo password of kim", place))


def test_a_machine_of_the_file_has_the_password_and_no_other() -> None:
    with accompanied(attendant(sudo())):
        assert answer(MINE.place("n1")) == "s3cret"
        assert answer(replace(MINE, options=("-o", "Ciphers=x")).place("n1")) == "s3cret"
        for node, other in OTHERS:
            assert answer(other.place(node)) is None
        assert answer("", LOGIN) is None
    with accompanied(attendant(None)):
        assert answer(MINE.place("n1")) is None
        assert "CORRAL_SUDO_PASSWORD_FILE" in person().hint


def test_the_password_is_in_no_representation() -> None:
    settings = Settings(cluster="lab", rest="commands:", sudo=sudo())
    assert "s3cret" not in repr(settings) + str(settings) + settings.model_dump_json()
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate_json(
            '{"cluster": 1, "sudo": {"password": "s3cret"}, "x": "s3cret"}'
        )
    assert "s3cret" not in str(caught.value)
