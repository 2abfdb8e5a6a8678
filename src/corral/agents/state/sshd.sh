#!/bin/sh
# Functions that change what sshd accepts, on trial, and its PAM file. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them; sshd_undo as /var/lib/corral/sshd-undo
# Started by: corral (state/network/sshd); sshd_undo by corral-sshd-undo.timer
# Runs as: root

# sshd_reload: Debian and Ubuntu call it ssh, others sshd. With a socket that starts one sshd per connection
# there is nothing to reload.
sshd_reload() {
  if systemctl cat ssh.service >/dev/null 2>&1; then
    systemctl try-reload-or-restart ssh.service
  else
    systemctl try-reload-or-restart sshd.service
  fi
}

# sshd_settings: sshd's config as it understands it. It checks for its folder even when it only tests its config
# (Debian bug 864857).
sshd_settings() {
  [ -d /run/sshd ] || mkdir -m 755 /run/sshd
  sshd -T 2>/dev/null
}

# keys_only: sshd takes no passwords.
keys_only() {
  sshd_settings | grep -cxE '(passwordauthentication|kbdinteractiveauthentication) no' | grep -qx 2
}

# keys_only_probe TIMER: "off" or "on", for passwords; "trial" while the timer's file is there.
keys_only_probe() {
  if keys_only; then echo off; else echo on; fi
  if [ -e "$1" ]; then echo trial; fi
}

# text_put PATH TEXT
text_put() { mkdir -p "${1%/*}" && printf %s "$2" >"$1.new" && mv -f "$1.new" "$1"; }

# trial_guard TIMER UNDO UNDO_TEXT SERVICE SERVICE_TEXT TIMER_FILE TIMER_TEXT: what takes the change back later.
trial_guard() {
  text_put "$2" "$3" && text_put "$4" "$5" && text_put "$6" "$7" && systemctl daemon-reload &&
    systemctl enable -q "$1" && systemctl restart "$1" && systemctl is-active -q "$1"
}

# keys_only_try DROP_IN TEXT VAIN UNDO: its guard is armed. The config is tested before sshd reads it.
keys_only_try() {
  if text_put "$1" "$2" && sshd -t >&2 && keys_only_counts "$3" && sshd_reload; then return; fi
  /bin/sh "$4"
  return 1
}

# keys_only_counts VAIN: the lines of sshd's config that win over Corral's.
keys_only_counts() {
  keys_only || {
    echo "$1" >&2
    grep -nisE '^[[:space:]]*(include|passwordauthentication|kbdinteractive|challenge)' \
      /etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf >&2
    return 1
  }
}

# trial_end UNIT DROP_IN FILE...: keys only from now on; the timer's files and what it runs go.
trial_end() (
  unit=$1 drop_in=$2
  shift 2
  [ -e "$1" ] || { keys_only; exit; }
  keys_only || exit 1
  systemctl stop "$unit.timer"
  # The timer may have been faster: then its work is done, or goes on and is waited for.
  if ! [ -e "$drop_in" ] || systemctl is-active -q "$unit.service" || ! keys_only; then
    systemctl start "$unit.service"
    exit 1
  fi
  systemctl disable -q "$unit.timer"
  rm -f "$@" && systemctl daemon-reload
)

# sshd_undo UNIT DROP_IN FILE...: what the machine runs on its own; safe to run twice.
sshd_undo() {
  unit=$1
  rm -f "$2"
  shift 2
  sshd_reload
  systemctl disable -q "$unit.timer"
  rm -f "$@"
  systemctl daemon-reload
  systemctl stop --no-block "$unit.timer" 2>/dev/null
  :
}

# pam_plain FILE: without Corral's blocks, and with what they replaced.
pam_plain() {
  awk '
    /^# corral begin/ { b = 1; next }
    /^# corral end/ { b = 0; next }
    b { if (sub(/^#corral# /, "")) print; next }
    { print }' "$1"
}

# pam_sshd FILE ACCOUNT SESSION: with both blocks. pam_slurm_adopt comes last in the account stack (its manual):
# behind the last line of that stack.
pam_sshd() {
  pam_plain "$1" | awk -v account="$2" -v session="$3" '
    { l[NR] = $0 }
    /^-?account[ \t]/ || /^@include[ \t]+common-account/ { a = NR }
    END {
      for (i = 1; i <= NR; i++) {
        if (l[i] ~ /^@include[ \t]+common-session[ \t]*$/) print session; else print l[i]
        if (i == a) print account
      }
      if (!a) print account
    }'
}

# pam_session FILE EXEMPT: pam_systemd would move the session out of the job's cgroup: those whom pam_access
# does not name (they were let in by a job) jump over it.
pam_session() {
  awk -v file="$1" -v exempt="$2" '
    BEGIN { print "# Made by Corral from " file "; see " exempt "." }
    /pam_systemd\.so/ && !/^#/ {
      print "session [success=ignore default=1] pam_access.so accessfile=" exempt " noaudit"
    }
    { print }' "$1"
}

# pam_replace FILE: standard input, which holds something, takes its place.
pam_replace() { cat >"$1.corral" && [ -s "$1.corral" ] && chmod 644 "$1.corral" && mv -f "$1.corral" "$1"; }

# adopt_module: where the module is. SchedMD's package puts it into /lib/security, where Debian's PAM looks last.
adopt_module() { ls /lib/security/pam_slurm_adopt.so /lib/*/security/pam_slurm_adopt.so /usr/lib/*/security/pam_slurm_adopt.so 2>/dev/null; }

# adopt_there SSHD SESSION
adopt_there() {
  if grep -q '^# corral begin' "$1" 2>/dev/null || [ -e "$2" ]; then echo there; else echo absent; fi
}

# adopt_probe SSHD SESSION COMMON EXEMPT ACCOUNT WITH: blocks in sshd's file, session file, module there?, does sshd ask PAM?
adopt_probe() (
  blocks=differs session=differs module=absent
  if pam_sshd "$1" "$5" "$6" | cmp -s - "$1"; then blocks=same; fi
  if pam_session "$3" "$4" | cmp -s - "$2"; then session=same; fi
  [ -z "$(adopt_module)" ] || module=there
  pam=$({ /usr/sbin/sshd -T 2>/dev/null || echo usepam unknown; } | sed -n 's/^usepam //p')
  echo "$blocks $session $module ${pam:-unknown}"
)

# adopt_put SSHD SESSION COMMON EXEMPT ACCOUNT WITH: the module must be there first: PAM refuses everybody who
# reaches a module it cannot load.
adopt_put() (
  [ -n "$(adopt_module)" ] || {
    echo 'no pam_slurm_adopt is installed' >&2
    exit 1
  }
  [ -s "$4" ] && pam_session "$3" "$4" >"$2.new" && mv -f "$2.new" "$2" &&
    pam_sshd "$1" "$5" "$6" | pam_replace "$1"
)

# adopt_take_out SSHD SESSION
adopt_take_out() { pam_plain "$1" | pam_replace "$1" && rm -f "$2"; }
