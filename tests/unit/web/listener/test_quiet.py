"""The server's log at its end, with a live view open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
import uvicorn

from corral.web.listener.connections import without_cut_streams


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    logger = logging.getLogger("uvicorn.error")
    before = logger.filters[:]
    yield logger
    logger.filters[:] = before


def test_cut_streams_are_left_out_and_errors_are_not(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    uvicorn.Config("no:app", log_config=None)
    without_cut_streams()
    caplog.set_level(logging.WARNING, "uvicorn.error")
    for error in (asyncio.CancelledError("Task cancelled"), KeyError("nodes")):
        try:
            raise error
        except (asyncio.CancelledError, KeyError):
            log.exception("Exception in ASGI application\n")
    log.error("Cancel %s running task(s), timeout graceful shutdown exceeded", 1)
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["'nodes'"]
    assert len(caplog.records) == 1
