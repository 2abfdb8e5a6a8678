"""What uvicorn's log leaves out: streams that the page's end cuts off are not errors."""

from __future__ import annotations

import asyncio
import logging


def without_cut_streams() -> None:
    """Log nothing about live views that go on when the server is to end; call after uvicorn.Config.

    They never end on their own, and so each open page showed a traceback in the terminal of
    ``corral ui`` at Ctrl-C (uvicorn 0.54, timeout_graceful_shutdown).
    """
    logging.getLogger("uvicorn.error").addFilter(_logged)


def _logged(record: logging.LogRecord) -> bool:
    cut = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cut and "timeout graceful shutdown exceeded" not in record.getMessage()
