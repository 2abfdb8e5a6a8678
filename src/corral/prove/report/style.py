"""The page's style sheet. Text colours keep 4.5 : 1 (WCAG 2.2 AA) on their grounds, in both modes.

``tests/unit/prove/test_report.py`` computes the contrasts from these variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_LIGHT: Final = """
  --ground: #ffffff; --card: #f5f7f9; --line: #c9d1d9; --ink: #1b2026; --muted: #535c66;
  --link: #0b57a8; --pass: #136c2e; --warn: #7d4e00; --fail: #b3132b; --skip: #535c66;
  --s0: #0b62b5; --s1: #b04a00; --s2: #18794e; --s3: #8a3ffc; --s4: #b3132b; --s5: #6b5900;
  --s6: #0f7285; --s7: #a2207a; --limit: #1b2026; --reference: #136c2e;"""
_DARK: Final = """
  --ground: #0e1217; --card: #171d25; --line: #3a444f; --ink: #e8edf2; --muted: #a3aeba;
  --link: #7cb8ff; --pass: #5fd07f; --warn: #e8b64c; --fail: #ff8a8a; --skip: #a3aeba;
  --s0: #6cb2ff; --s1: #ff9e57; --s2: #5fd3a0; --s3: #c3a2ff; --s4: #ff8a8a; --s5: #dcc64a;
  --s6: #5ccbe0; --s7: #f58fd0; --limit: #e8edf2; --reference: #5fd07f;"""


def _variables(text: str) -> Mapping[str, str]:
    pairs = (part.strip().split(": ") for part in text.split(";") if part.strip())
    return MappingProxyType({name: value for name, value in pairs})


LIGHT: Final = _variables(_LIGHT)
"""Variables of the light mode, ``--ground`` to ``#ffffff``."""
DARK: Final = _variables(_DARK)
"""Variables of the dark mode."""

_RULES: Final = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main, header, footer { max-width: 70rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .6rem; padding-bottom: .2rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
p { margin: .3rem 0; overflow-wrap: anywhere; }
a { color: var(--link); }
.muted, footer { color: var(--muted); }
footer { padding: 2rem 1rem 3rem; font-size: .9rem; }
.lead { font-size: 1.05rem; }
.badge { display: inline-block; min-width: 4.2em; padding: 0 .5em; border: 1.5px solid currentColor;
  border-radius: .35em; font-weight: 600; font-size: .85rem; text-align: center;
  white-space: nowrap; }
.pass { color: var(--pass); } .warn { color: var(--warn); } .fail { color: var(--fail); }
.skip { color: var(--skip); }
h1 .badge { font-size: 1.1rem; vertical-align: .15em; }
.trouble { border-left: .3rem solid var(--line); padding: .5rem .8rem; margin: .7rem 0;
  background: var(--card); border-radius: 0 .4rem .4rem 0; }
.trouble.fail { border-color: var(--fail); } .trouble.warn { border-color: var(--warn); }
.trouble > * { color: var(--ink); } .trouble .badge.fail { color: var(--fail); }
.trouble .badge.warn { color: var(--warn); }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .4rem 0;
  background: var(--card); }
details details { background: var(--ground); margin: .5rem 0; }
summary { cursor: pointer; padding: .45rem .7rem; overflow-wrap: anywhere; }
summary:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
summary .what { font-weight: 600; }
.inside { padding: 0 .8rem .7rem; }
pre { margin: .3rem 0; padding: .6rem .7rem; background: var(--ground); overflow-x: auto;
  border: 1px solid var(--line); border-radius: .3rem; font-size: .82rem; line-height: 1.4;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem; overflow-y: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word; max-width: 26rem; }
th { font-weight: 600; } td.r, th.r { text-align: right; }
.figures { display: flex; flex-wrap: wrap; gap: 1.2rem; }
figure { margin: 0; flex: 1 1 26rem; min-width: 0; max-width: 40rem; }
figcaption { font-weight: 600; margin-bottom: .3rem; overflow-wrap: anywhere; }
svg.plot, svg.heat { display: block; width: 100%; height: auto; }
svg text { font: 12.5px system-ui, sans-serif; fill: var(--ink); }
svg text.tick { fill: var(--muted); } svg .end { text-anchor: end; }
svg .middle { text-anchor: middle; }
svg text.number { font-size: 12px; }
.grid { stroke: var(--line); stroke-width: .8; }
.curve { fill: none; stroke-width: 2.2; } .point { stroke: var(--ground); stroke-width: .8; }
.level { stroke-width: 1.6; stroke-dasharray: 6 4; }
.level.limit { stroke: var(--limit); stroke-dasharray: none; }
.level.reference { stroke: var(--reference); } .level.warn { stroke: var(--warn); }
.level.fail { stroke: var(--fail); }
svg text.said { font-size: 11.5px; paint-order: stroke; stroke: var(--ground); stroke-width: 3px; }
svg text.said.limit { fill: var(--limit); } svg text.said.reference { fill: var(--reference); }
svg text.said.warn { fill: var(--warn); } svg text.said.fail { fill: var(--fail); }
rect.none { fill: none; stroke: var(--line); stroke-dasharray: 2 2; }
rect.cell.fail { stroke: var(--fail); stroke-width: 2.5; }
rect.cell.warn { stroke: var(--warn); stroke-width: 2.5; stroke-dasharray: 4 2; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; padding: 0;
  margin: .3rem 0; font-size: .88rem; } .sample { width: 28px; height: 14px; vertical-align: -2px; }
@media print { details { break-inside: avoid; } pre { max-height: none; } }
"""
_SERIES: Final = "".join(
    f".curve.s{i} {{ stroke: var(--s{i}); }} .point.s{i} {{ fill: var(--s{i}); }}\n"
    for i in range(8)
)
STYLE: Final = (
    f":root {{ color-scheme: light dark;{_LIGHT} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{{_DARK} }} }}\n{_RULES}{_SERIES}"
)
