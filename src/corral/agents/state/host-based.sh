#!/bin/sh
# Functions by which people log in from node to node by the keys of the nodes. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/network/host_based)
# Runs as: root
# shellcheck source=src/corral/agents/state/sshd.sh
. state/sshd.sh #include

# host_based_probe PERSON FILE...: digest of each file, "absent" for none, "foreign" for one that Corral did not write;
# then whether sshd takes the keys of hosts for the person, and for root.
host_based_probe() (
  person=$1
  shift
  for file; do
    if host_based_ours "$file"; then
      sha256sum <"$file" | cut -d' ' -f1
    elif [ -e "$file" ]; then
      echo foreign
    else
      echo absent
    fi
  done
  [ -z "$person" ] || echo "$(host_based_for "$person") $(host_based_for root)"
)

# host_based_ours FILE
host_based_ours() { [ -f "$1" ] && head -n 1 "$1" | grep -q '^# Written by Corral '; }

# host_based_for USER: "yes" or "no", as sshd itself understands its config.
host_based_for() (
  [ -d /run/sshd ] || mkdir -m 755 /run/sshd
  sshd -T -C "user=$1,host=localhost,addr=127.0.0.1" 2>/dev/null | sed -n 's/^hostbasedauthentication //p'
)

# host_based_put PERSON KNOWN TEXT CLIENT TEXT DROP_IN TEXT HOSTS TEXT: a file without a text goes. The list of hosts is
# gone from the beginning to the end: without it sshd takes no host's key, and a run that broke off is seen.
host_based_put() (
  umask 022
  host_based_file "$8" '' && host_based_file "$2" "$3" && host_based_file "$4" "$5" && host_based_file "$6" "$7" || exit 1
  if sshd -t >&2 && host_based_counts "$1" && sshd_reload; then
    host_based_file "$8" "$9"
    exit
  fi
  host_based_file "$6" ''
  sshd_reload
  exit 1
)

# host_based_file PATH TEXT
host_based_file() {
  if [ -n "$2" ]; then text_put "$1" "$2"; elif host_based_ours "$1"; then rm -f "$1"; fi
}

# host_based_counts PERSON: nobody where people do not log in so.
host_based_counts() {
  [ -n "$1" ] || return 0
  [ "$(host_based_for root)" = no ] || {
    echo 'sshd takes the keys of hosts for root: HostbasedAuthentication is in its own config' >&2
    return 1
  }
  [ "$(host_based_for "$1")" = yes ] || {
    echo "sshd takes no keys of hosts for $1: an earlier line of its config wins, or it does not include its folder" >&2
    return 1
  }
}
