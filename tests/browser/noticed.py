"""How soon the page names a daemon that is gone, and how late the machine is meanwhile."""

from __future__ import annotations

from typing import Any

from corral.web.slurm.poller import NOTICED_S
from tests.browser.conftest import wait_until

STEPS = 4
"""What comes one after the other until the banner is there: the pause behind a poll, the limits of
the poll and of the ping, the event. Each is as late as the machine is."""
WATCH = """() => { const banner = document.getElementById("banner");
  const watch = window.watch = { noticed: 0, late: 0, asked: 0 };
  const note = () => { if (!banner.hidden) watch.noticed ||= Date.now() / 1000; };
  new MutationObserver(note).observe(banner, { attributes: true }); note();
  const late = (begun, due) => {
    if (!watch.noticed) watch.late = Math.max(watch.late, (performance.now() - begun - due) / 1000);
  };
  const tick = (begun) => { late(begun, 100); const next = performance.now();
    if (!watch.noticed) setTimeout(() => tick(next), 100); };
  tick(performance.now() - 100);
  const ask = async () => { const begun = performance.now();
    await fetch("api/login").catch(() => {}); late(begun, 0); watch.asked += 1;
    if (!watch.noticed) setTimeout(ask, 100); };
  ask(); }"""
"""The page notes when its banner appears, and until then how late its timers are and how long a
question takes that the page's server answers alone: a busy machine delays these as the banner."""


def watch(page: Any) -> None:
    """Begin to watch, before the daemon is gone."""
    page.evaluate(WATCH)
    wait_until(page, "window.watch.asked > 2")


def assert_noticed_soon(page: Any, gone_at: float) -> None:
    """The daemon was named within NOTICED_S, and no later than this machine was late itself."""
    noticed = wait_until(page, "window.watch.noticed") - gone_at
    late = page.evaluate("window.watch.late")
    words = f"noticed after {noticed:.1f} s on a machine that was up to {late:.2f} s late"
    print(f"{words}: {page.locator('#banner').inner_text()}")
    assert noticed <= NOTICED_S + STEPS * late, words
