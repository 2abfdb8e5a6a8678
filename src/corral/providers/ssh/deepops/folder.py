"""DeepOps' folder config/, read from the disk."""

from __future__ import annotations

from pathlib import Path

from corral.errors import Code, CorralError, cannot_read
from corral.providers.ssh.deepops import adoption


def read_deepops(folder: Path) -> tuple[str, tuple[str, ...]]:
    """A cluster file made from DeepOps' folder config/.

    Returns:
        its text, and what could not be carried over.

    Raises:
        CorralError: NOT_FOUND, no inventory with nodes; PARSE_FAILED.
    """
    try:
        paths = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
        texts = {name: paths[name].read_text("utf-8") for name in adoption.names(paths)}
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.NOT_FOUND, cannot_read(folder, error), hint="give DeepOps' folder config/"
        ) from error
    return adoption.from_deepops(texts)
