"""A renewed certificate, loaded while serving: open connections keep the previous one."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl

import uvicorn

log = logging.getLogger(__name__)


def renewed(context: ssl.SSLContext, certificate: str, key: str) -> str:
    """Have new connections of a TLS context show what the files hold now.

    Args:
        context: the one that the server listens with.
        certificate: path of the certificate with its chain, PEM.
        key: path of its private key, PEM.

    Returns:
        "", or why the certificate of before stays, such as half of a pair that is being replaced.
    """
    try:
        # A context of its own first: one that fails may be left with half of the new pair.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        return str(error)
    return ""


def at_hangup(config: uvicorn.Config, certificate: str, key: str) -> None:
    """Let SIGHUP, which is what ``systemctl reload`` sends, take a renewed certificate.

    Args:
        config: of the server that listens by TLS; asked when the signal comes.
        certificate: path of the certificate with its chain.
        key: path of its private key.
    """

    def take() -> None:
        if config.ssl is None:  # not listening yet: it will read the files of now
            return
        failed = renewed(config.ssl, certificate, key)
        if failed:
            log.error("the previous certificate stays in use: %s", failed)
        else:
            log.warning("reloaded the certificate")

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, take)
