#!/bin/sh
# Release, first step: Slurm's daemons and Corral's timers stop. Behind common.sh.
#
# Installed as: nowhere: sent to `sh -s` with the values in front
# Started by: corral (state/ledger), once it is confirmed
# Runs as: root
# Under supervisord; the mesh client last, in the background: this connection may go through it.
for f in /etc/supervisor/conf.d/corral-*.conf; do
  [ -e "$f" ] || continue
  p=${f##*/corral-}; p=${p%.conf}
  [ "$p" != tailscaled ] || continue
  supervisorctl stop "$p" >&2; pkill -x slurmstepd 2>/dev/null; report did "stopped $p"
done
if [ -e /etc/supervisor/conf.d/corral-tailscaled.conf ]; then
  (sleep 3; supervisorctl shutdown) >/dev/null 2>&1 </dev/null 9>&- &
  report did "stopped tailscaled"
fi
for t in /etc/systemd/system/corral-*.timer; do
  [ ! -e "$t" ] || systemctl stop "${t##*/}" || exit 1; done
# Slurm's daemons first. A unit that ran before Corral came runs on until the end.
for u in slurmrestd slurmd slurmctld slurmdbd; do
  if [ -e "$B"/units/$u ] && systemctl -q is-active $u; then
    systemctl stop $u && report did "stopped $u" || exit 1; fi
done
if [ -e "$B"/units/slurmd ]; then
  # slurmd's unit leaves slurmstepd behind (KillMode=process); on cgroup v2 also "slurmstepd
  # infinity" in a separate scope (cgroup_v2.html).
  for s in $(systemctl list-units --plain --no-legend '*slurmstepd.scope' | cut -d' ' -f1); do
    systemctl stop "$s"; done
  for c in /proc/[0-9]*/comm; do
    if [ "$(cat "$c" 2>/dev/null)" = slurmstepd ]; then
      c=${c#/proc/}; kill "${c%%/*}" 2>/dev/null; fi
  done
fi
