"""Runs a command in a separate terminal and draws what it left on the screen as SVG.

    .venv/bin/python .ci/record.py --last 26 docs/img/demo.svg -- ./demo

Progress is drawn over itself by cursor moves, so the output goes through a small terminal: the
picture shows what a person sees at the end, nothing is made up. Ends with the command's status.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import itertools
import operator
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

# The sequences rich, apt and ssh write: CSI, OSC (titles, links), and two-character escapes.
TOKEN = re.compile(r"\x1b\[([?>]?)([\d;]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|[\s\S]")
UNFINISHED = re.compile(r"\x1b(\[[?>\d;]*|\][^\x07\x1b]*\x1b?)?\Z")

# rich's own template names a font on a content network; a picture must not phone home. Without
# xml:space librsvg 2.54 drops a no-break space at the start of a text, and with it the alignment.
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}"
  xmlns="http://www.w3.org/2000/svg" xml:space="preserve">
<style>
.{unique_id}-matrix, .{unique_id}-title {{
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
}}
.{unique_id}-matrix {{
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
  <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


Cell = tuple[str, Style]


def runs(line: list[Cell]) -> Iterator[Cell]:
    """Neighbours of one style together: a picture with fewer, longer pieces of text."""
    for style, cells in itertools.groupby(line, key=operator.itemgetter(1)):
        yield "".join(char for char, _ in cells), style


class Screen:
    """A terminal with endless scroll-back, as far as progress displays use one."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._lines: list[list[Cell]] = [[]]
        self._row = self._column = 0
        self._decoder = AnsiDecoder()
        self._rest = ""

    def feed(self, text: str) -> None:
        """Take output as it comes; a sequence that is cut in two waits for its end."""
        text = self._rest + text
        cut = UNFINISHED.search(text)
        self._rest = cut[0] if cut else ""
        for token in TOKEN.finditer(text, 0, len(text) - len(self._rest)):
            if token[3]:
                if not token[1]:
                    self._control(token[3], token[2])
            elif not token[0].startswith("\x1b"):
                self._character(token[0])

    def lines(self) -> list[Text]:
        """What can be read, without empty lines at the end."""
        drawn = [Text.assemble(*runs(line)) for line in self._lines]
        for line in drawn:
            line.rstrip()
        while drawn and not drawn[-1].plain:
            drawn.pop()
        return drawn

    def _character(self, char: str) -> None:
        if char == "\n":
            self._move(self._row + 1, 0)
        elif char == "\r":
            self._column = 0
        elif char == "\b":
            self._column = max(0, self._column - 1)
        elif char == "\t":
            self._column = min(self._columns - 1, self._column // 8 * 8 + 8)
        elif char >= " " and (width := cell_len(char)):
            if self._column + width > self._columns:
                self._move(self._row + 1, 0)
            line = self._lines[self._row]
            line += [(" ", Style.null())] * (self._column + width - len(line))
            cells = [(char, self._decoder.style), *[("", Style.null())] * (width - 1)]
            line[self._column : self._column + width] = cells
            self._column += width

    def _control(self, action: str, numbers: str) -> None:
        first = int(numbers.partition(";")[0] or 0)
        count = max(1, first)
        if action == "m":
            list(self._decoder.decode_line(f"\x1b[{numbers}m"))
        elif action in "AB":
            self._move(self._row + (count if action == "B" else -count), self._column)
        elif action in "CD":
            column = self._column + (count if action == "C" else -count)
            self._column = min(max(0, column), self._columns - 1)
        elif action == "G":
            self._column = min(count, self._columns) - 1
        elif action in "KJ":
            self._erase(action, first)

    def _erase(self, action: str, how: int) -> None:
        line = self._lines[self._row]
        if how == 0:
            del line[self._column :]
        elif how == 1:
            line[: self._column] = [(" ", Style.null())] * min(self._column, len(line))
        else:
            line.clear()
        if action == "J" and how == 0:
            del self._lines[self._row + 1 :]

    def _move(self, row: int, column: int) -> None:
        top = max(0, len(self._lines) - self._rows)
        self._row, self._column = max(top, row), column
        self._lines += [[] for _ in range(self._row + 1 - len(self._lines))]


def play(command: list[str], screen: Screen, columns: int, rows: int) -> int:
    """Run the command in a terminal, show its output here too, and give its exit status."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        os.execvp(command[0], command)  # noqa: S606  # the user's own command, no shell
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux gives EIO when the last process has closed the terminal
            break
        if not data:
            break
        os.write(sys.stdout.fileno(), data)
        screen.feed(decoder.decode(data))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> int:
    """Record a command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("svg", type=Path)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rows", type=int, default=50, help="height of the terminal")
    parser.add_argument("--title", default="", help="left out: the command")
    parser.add_argument("--last", type=int, default=0, help="lines that are drawn; 0: all")
    parser.add_argument("command", nargs="+", help="after --")
    asked = parser.parse_args()
    screen = Screen(asked.columns, asked.rows)
    status = play(asked.command, screen, asked.columns, asked.rows)
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=asked.columns, file=nowhere)
        prompt = Text.assemble(("$ ", "green"), (" ".join(asked.command), "bold"))
        drawn = screen.lines()
        if 0 < asked.last < len(drawn):
            drawn = [Text("...", "dim"), *drawn[-asked.last :]]
        for line in [prompt, *drawn]:
            console.print(line, no_wrap=True, overflow="crop")
        title = asked.title or " ".join(asked.command)
        asked.svg.parent.mkdir(parents=True, exist_ok=True)
        asked.svg.write_text(console.export_svg(title=title, code_format=SVG))
    return status


if __name__ == "__main__":
    sys.exit(main())
