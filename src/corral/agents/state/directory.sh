#!/bin/sh
# Functions that ask the directory of people, keep its password and give members of its groups their accounts. POSIX sh.
#
# Passwords pass through variables, pipes and shell builtins: they are in no argument list.
#
# Installed as: nowhere: sent in front of a call of one of them; and in corral-group-accounts and corral-member-folders
# Started by: corral (state/system/directory, state/own_secret); corral-group-accounts, corral-member-folders
# Runs as: root
# shellcheck source=src/corral/agents/state/files.sh
. state/files.sh #include
# shellcheck source=src/corral/agents/state/sshd.sh
. state/sshd.sh #include
# shellcheck source=src/corral/agents/folder-checks.sh
. folder-checks.sh #include
# shellcheck source=src/corral/agents/user-folders.sh
. user-folders.sh #include
# shellcheck source=src/corral/agents/state/people-saved.sh
. state/people-saved.sh #include

# directory_port URI: its host and port.
directory_port() (
  rest=${1#*://}
  case $1 in ldaps://*) port=636 ;; *) port=389 ;; esac
  case $rest in *:*) port=${rest##*:} ;; esac
  echo "${rest%%:*} $port"
)

# directory_open URI: something listens there.
directory_open() {
  # shellcheck disable=SC2016,SC2046 # bash expands it; host and port
  timeout 3 bash -c ': </dev/tcp/"$0"/"$1"' $(directory_port "$1") 2>/dev/null
}

# directory_ask URI BASE DN PASSWORD CA TLS: ok; else silent, untrusted, refused, baseless or failed, and the sentence.
directory_ask() (
  uri=$1 base=$2 dn=$3 password=$4 ca=$5 tls=$6
  command -v ldapsearch >/dev/null || { echo 'failed cannot be asked: ldapsearch is not installed'; exit 0; }
  set -- -x -LLL -o nettimeout=3 -l 5 -H "$uri" -s base -b "$base"
  case $uri:$tls in ldap:*:on) set -- "$@" -ZZ ;; esac
  [ -z "$dn" ] || set -- "$@" -D "$dn" -y "$password"
  [ -z "$ca" ] || export LDAPTLS_CACERT="$ca"
  export LDAPTLS_REQCERT=demand
  output=$(timeout 15 ldapsearch "$@" 1.1 2>&1)
  status=$?
  case $status in
    0) echo ok ;;
    49 | 48) echo 'refused refuses the password: correct directory.bind_dn, or the file that directory.password_file names' ;;
    32) echo "baseless has no entry $base that it shows: correct directory.base, or what directory.bind_dn may read" ;;
    *)
      if ! directory_open "$uri"; then
        echo 'silent does not answer: look at the server, its port in directory.uris and firewalls on the path'
      elif [ $status = 255 ] || [ $status = 1 ]; then
        echo 'untrusted has no certificate that is good here: directory.ca is the file of its authority, directory.uris the name that it has'
      else
        printf 'failed answers: %s\n' "$output" | head -n 1
      fi
      ;;
  esac
)

# directory_answers BASE DN PASSWORD CA TLS URI...: "URI WORD SENTENCE" each.
directory_answers() (
  base=$1 dn=$2 password=$3 ca=$4 tls=$5
  shift 5
  for uri in "$@"; do echo "$uri $(directory_ask "$uri" "$base" "$dn" "$password" "$ca" "$tls")"; done
)

# directory_group NAME: its entry as the directory has it now, past both caches of SSSD.
directory_group() {
  sss_cache -g "$1" >/dev/null 2>&1 || :
  SSS_NSS_USE_MEMCACHE=NO timeout 20 getent -s sss group "$1"
}

# directory_known GROUP...: as directory_answers, by what SSSD knows.
directory_known() (
  for group in "$@"; do
    if timeout 20 getent -s sss group "$group" >/dev/null 2>&1; then
      echo "$group ok"
    else
      echo "$group unknown is a group that SSSD does not know: correct directory.groups, or restart sssd"
    fi
  done
)

# directory_gate BASE DN PASSWORD CA TLS URI...: fails with what they answer where no server is ok.
directory_gate() (
  answers=$(directory_answers "$@")
  ! printf '%s\n' "$answers" | grep -q ' ok$' || exit 0
  printf '%s\n' "$answers" | sed 's/ [a-z]* / /' >&2
  exit 1
)

# password_sums FILE...: digests of the files, which stay on this machine.
password_sums() { sha256sum "$@" 2>/dev/null || :; }

# password_probe MARK FILE...: the fingerprint of the password, as long as the files are what was written then.
password_probe() (
  mark=$1
  shift
  [ -s "$mark" ] || { echo absent; exit 0; }
  if [ "$(sed 1d "$mark")" = "$(password_sums "$@")" ] && ! stat -c '%U %A' "$mark" "$@" | grep -qvE '^root -rw-[r-]-----$'; then
    head -n 1 "$mark"
  else
    echo changed
  fi
)

# password_receive MARK FINGERPRINT DOMAIN CONF FILE: the first line of the next secret, for SSSD and for ldapsearch.
password_receive() (
  mark=$1 fingerprint=$2 domain=$3 conf=$4 file=$5
  umask 077
  password=$(from_input | head -n 1) || exit 1
  [ -n "$password" ] || { echo 'the password file of the directory is empty' >&2; exit 1; }
  mkdir -p "${mark%/*}" "${conf%/*}" &&
    printf %s "$password" >"$file.new" && mv -f "$file.new" "$file" &&
    printf '# Written by Corral.\n[domain/%s]\nldap_default_authtok = %s\n' "$domain" "$password" >"$conf.new" &&
    mv -f "$conf.new" "$conf" &&
    { echo "$fingerprint" && password_sums "$conf" "$file"; } >"$mark.new" && mv -f "$mark.new" "$mark"
)

# secret_receive MARK FINGERPRINT FILE GROUP: the first line of the next secret, which root and a service's group read.
secret_receive() (
  mark=$1 fingerprint=$2 file=$3 group=$4
  umask 077
  secret=$(from_input | head -n 1) || exit 1
  [ -n "$secret" ] || { echo 'the file of the secret is empty' >&2; exit 1; }
  mkdir -p "${file%/*}" && chgrp "$group" "${file%/*}" && chmod 750 "${file%/*}" &&
    printf '%s\n' "$secret" >"$file.new" && chgrp "$group" "$file.new" && chmod 640 "$file.new" && mv -f "$file.new" "$file" &&
    { echo "$fingerprint" && password_sums "$file"; } >"$mark.new" && mv -f "$mark.new" "$mark"
)

# keys_foreign COMMAND: another command that sshd asks for keys, and the files that name one. sshd takes the first that it reads, so
# with another one either its users or the directory's would be locked out.
keys_foreign() (
  asked=$(sshd_settings | sed -n 's/^authorizedkeyscommand //p')
  case $asked in '' | none | "$1") exit 0 ;; esac
  files=$(grep -lisE '^[[:space:]]*authorizedkeyscommand[[:space:]=]' /etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf | tr '\n' ' ')
  echo "$asked ${files% }"
)

# keys_probe PATH TEXT COMMAND: on, other or off; and, where the keys are to be asked by COMMAND, what keys_foreign prints.
keys_probe() {
  if ! [ -e "$1" ]; then echo off; elif [ "$(cat "$1")" = "$2" ]; then echo on; else echo other; fi
  [ -z "$3" ] || keys_foreign "$3"
}

# keys_on PATH TEXT COMMAND: sshd asks by it once it has read its settings again, which it would not start with where they are
# wrong; only where sshd then does ask by it.
keys_on() {
  file_write "$1" root:root 644 "$2" && keys_asked "$3" && sshd -t >&2 && sshd_reload && return
  rm -f "$1"
  return 1
}

# keys_asked COMMAND: whether sshd asks by it for keys.
keys_asked() {
  sshd_settings | grep -qxF "authorizedkeyscommand $1" || {
    echo "sshd does not ask for keys by $1: an earlier line of its config wins, or it does not include that folder" >&2
    return 1
  }
}

# keys_off PATH
keys_off() { rm -f "$1" && sshd_reload; }

# homes_exposed PATH: who could replace the folder of homes, or what is in it; nothing where nobody but root could.
homes_exposed() (
  held "$1" 0 2>&1 || exit 0
  roots "$(readlink -f -- "$1")" 2>&1 || :
)

# homes_probe PATH: "absent", "root", or "!" with who could replace it.
homes_probe() (
  if ! [ -e "$1" ] && ! [ -L "$1" ]; then echo absent; exit 0; fi
  exposed=$(homes_exposed "$1")
  echo "${exposed:+! }${exposed:-root}"
)

# homes_make PATH: the folder itself must be made here: mkdir fails where somebody was faster.
homes_make() (
  mkdir -p "${1%/*}/" && mkdir -m 755 "$1" || exit 1
  exposed=$(homes_exposed "$1")
  [ -z "$exposed" ] || { echo "$exposed" >&2; exit 1; }
)

# pam_profile_probe PATTERN: on where a line of common-session has it.
pam_profile_probe() { if grep -qs "$1" /etc/pam.d/common-session; then echo on; else echo off; fi; }

# pam_profile_on NAME PATTERN
pam_profile_on() (
  DEBIAN_FRONTEND=noninteractive pam-auth-update --enable "$1" || exit 1
  [ "$(pam_profile_probe "$2")" = on ] || {
    echo 'pam-auth-update left /etc/pam.d/common-session as it was: it has changes by hand' >&2
    exit 1
  }
)

# pam_profile_off NAME FILE
pam_profile_off() { DEBIAN_FRONTEND=noninteractive pam-auth-update --remove "$1" && rm -f "$2"; }

# group_members GROUP: a name a line.
group_members() (
  entry=$(directory_group "$1") || exit 1
  printf '%s\n' "${entry##*:}" | tr , '\n' | grep . || :
)

# member_fault USER GROUP: why the member gets no account, "" where nothing is wrong; "gone" where the person is not known.
member_fault() (
  user=$1 group=$2
  case $user in
    [!a-z_]* | *[!a-z0-9_.-]*)
      echo "$user, a member of $group, has a name that Slurm cannot hold: lower-case letters, digits, _, . and -"
      exit 0
      ;;
  esac
  # SSSD itself knows nobody of these names and numbers since its last start (corral-directory-local).
  if own=$(getent -s files passwd "$user"); then
    echo "$user, a member of $group, has the name of a user of this machine ($(printf '%s\n' "$own" | cut -d: -f3)): take one of them out"
    exit 0
  fi
  entry=$(timeout 20 getent -s sss passwd "$user") || { echo gone; exit 0; }
  uid=$(printf '%s\n' "$entry" | cut -d: -f3)
  if own=$(getent -s files passwd "$uid"); then
    echo "uid $uid of $user in the directory is ${own%%:*}'s on this machine: give one of them another number"
  fi
)

# associations CLUSTER: "ACCOUNT|USER|DEFAULT QOS|MOST JOBS" each. Members are closed by GrpSubmitJobs, which means the same
# as MaxSubmitJobs for a user without others below: so the latter is a person's, and what it closes stays closed.
associations() { timeout 30 sacctmgr -nP show assoc "cluster=$1" format=Account,User,DefaultQOS,GrpSubmitJobs; }

# members_of_groups GROUP:ACCOUNT:QOS...: "listed ACCOUNT USER", "want ACCOUNT USER QOS", "unread ACCOUNT", and problems.
members_of_groups() (
  for entry in "$@"; do
    group=${entry%%:*} rest=${entry#*:}
    account=${rest%%:*} qos=${rest#*:}
    members=$(group_members "$group") || {
      echo "unread $account"
      echo "problem $group is a group that SSSD does not know: correct directory.groups; where the directory does not answer, see corral doctor"
      continue
    }
    set -f # names are not patterns
    for user in $members; do
      echo "listed $account $user"
      fault=$(member_fault "$user" "$group")
      case $fault in
        '') echo "want $account $user ${qos:--}" ;;
        gone) ;;
        *) echo "problem $fault" ;;
      esac
    done
    set +f
  done
)

# accounts_compare: what differs, of the wanted members and, behind an empty line, the associations.
# "close USER ACCOUNT STAYING ALL": who is in no group of the account, how many members may submit in it, and in all accounts
# together. Only members of a group that could be read are missed, only people of the directory (from_directory), and
# nobody whom a group lists: an entry that is not shown now does not mean that they left.
accounts_compare() {
  awk '
    !second && $0 == "" { second = 1; FS = "|"; next }
    !second && $1 == "problem" { print; next }
    !second && $1 == "ours" { ours[$2] = 1; next }
    !second && $1 == "unread" { unread[$2] = 1; next }
    !second && $1 == "listed" { listed[$2 "|" $3] = 1; next }
    !second && $1 == "want" { k = $2 "|" $3; if (!(k in qos)) { qos[k] = $4; order[++n] = k } next }
    second && $2 != "" { have[$1 "|" $2] = 1; default_qos[$1 "|" $2] = $3; most[$1 "|" $2] = $4; any[$2] = 1; list[++m] = $1 "|" $2 }
    END {
      for (i = 1; i <= n; i++) {
        k = order[i]; split(k, part, "|")
        if (!(k in have)) { print "add", part[2], part[1], qos[k], (part[2] in any ? "more" : "first"); any[part[2]] = 1; continue }
        if (most[k] == "0") print "open", part[2], part[1]
        else { staying[part[1]]++; all++ }
        if (qos[k] != "-" && default_qos[k] != qos[k]) print "qos", part[2], part[1], qos[k]
      }
      for (i = 1; i <= m; i++) {
        k = list[i]; split(k, part, "|")
        if ((part[1] in ours) && !(part[1] in unread) && !(k in listed) && most[k] != "0") print "close", part[2], part[1], staying[part[1]] + 0, all + 0
      }
    }'
}

# from_directory: of lines "close USER ACCOUNT" those of people of the directory; all others pass.
from_directory() {
  while read -r verb user rest; do
    if [ "$verb" = close ]; then
      ! getent -s files passwd "$user" >/dev/null || continue
      timeout 20 getent -s sss passwd "$user" >/dev/null || continue
    fi
    printf '%s\n' "$verb $user $rest"
  done
}

# group_accounts_pending CLUSTER GROUP:ACCOUNT:QOS...: what is to be done, a line each; problems too.
group_accounts_pending() (
  cluster=$1
  shift
  have=$(associations "$cluster") || { echo 'problem slurmdbd gives no answer'; exit 0; }
  {
    for entry in "$@"; do
      rest=${entry#*:}
      echo "ours ${rest%%:*}"
    done
    members_of_groups "$@"
    echo
    printf '%s\n' "$have"
  } | accounts_compare | from_directory
)

# group_account_do CLUSTER VERB USER ACCOUNT QOS HOW: one line of the above.
group_account_do() (
  cluster=$1 verb=$2 user=$3 account=$4 qos=$5 how=$6
  there="cluster=$cluster"
  case $verb in
    add)
      set -- "$user" "account=$account" "$there"
      [ "$how" != first ] || set -- "$@" "DefaultAccount=$account"
      timeout 60 sacctmgr -iQ add user "$@" >&2 || [ -n "$(timeout 30 sacctmgr -nP show assoc "user=$user" "account=$account" "$there")" ] || exit 1
      [ "$qos" = - ] || group_account_do "$cluster" qos "$user" "$account" "$qos" ''
      ;;
    open | close)
      most=-1
      [ "$verb" = open ] || most=0
      timeout 60 sacctmgr -iQ modify user where "name=$user" "account=$account" "$there" set "GrpSubmitJobs=$most" >&2
      ;;
    qos) timeout 60 sacctmgr -iQ modify user where "name=$user" "account=$account" "$there" set "qos+=$qos" "DefaultQOS=$qos" >&2 ;;
  esac
)

# group_accounts SEEN CLUSTER GROUP:ACCOUNT:QOS...: all of it; fails with the problems once the rest is done. Who is missing
# now is closed where SEEN, lines of "USER ACCOUNT", has them: the directory has shown it twice.
group_accounts() (
  seen=$1
  shift
  pending=$(group_accounts_pending "$@") || exit 1
  { printf '%s\n' "$seen" '' "$pending"; } | closes_seen | group_accounts_do "$1"
)

# group_accounts_timed FILE CLUSTER GROUP:ACCOUNT:QOS...: as group_accounts, with nobody to look at it: FILE has who was missing
# in the run before.
group_accounts_timed() (
  file=$1
  shift
  pending=$(group_accounts_pending "$@" | closes_braked) || exit 1
  seen=$(cat "$file" 2>/dev/null) || :
  printf '%s\n' "$pending" | awk '$1 == "close" { print $2, $3 }' >"$file.new" && mv -f "$file.new" "$file" || exit 1
  { printf '%s\n' "$seen" '' "$pending"; } | closes_seen | group_accounts_do "$1"
)

# closes_braked: of the lines of group_accounts_pending no "close" of an account that would lose more than three people and
# more than a quarter at once, but a problem: so many seldom leave, and a directory may answer in part. None at all where
# all accounts together would lose so many members: a partial answer may leave out a few of each.
closes_braked() {
  awk '
    function many(gone, here) { return gone > 3 && 4 * gone > gone + here }
    function problem(gone, here, what) {
      printf "problem %d of %d %s at once, so none of them is closed: ", gone, gone + here, what
      print "look at what the directory answers (getent group); if they have left, corral up closes them"
    }
    $1 != "close" { print; next }
    { line[++n] = $0; account[n] = $3; staying[$3] = $4; leaving[$3]++; all = $5 }
    END {
      for (i = 1; i <= n; i++) {
        a = account[i]
        if (many(leaving[a], staying[a])) {
          if (!named[a]++) problem(leaving[a], staying[a], "people are missing from the groups of account " a)
        } else if (!many(n, all)) print line[i]
        else if (!rest++) problem(n, all, "members of all accounts are missing from their groups")
      }
    }'
}

# closes_seen: of lines "USER ACCOUNT", an empty line and those of group_accounts_pending: the latter, where "close" is "missing"
# for who is not among the former.
closes_seen() {
  awk '
    !second && $0 == "" { second = 1; next }
    !second { seen[$1 " " $2] = 1; next }
    $1 == "close" && !(($2 " " $3) in seen) { $1 = "missing" }
    { print }'
}

# group_accounts_do CLUSTER: the lines of closes_seen.
group_accounts_do() {
  failed=0 done=
  while read -r verb user account qos how; do
    case $verb in
      '') ;;
      problem)
        echo "$user $account $qos $how" >&2
        failed=1
        ;;
      missing) echo "$user is missing from the groups of account $account: closed at the next run, unless listed again" ;;
      *)
        echo "$verb $user $account"
        group_account_do "$1" "$verb" "$user" "$account" "$qos" "$how" </dev/null || failed=1
        done=1
        ;;
    esac
  done
  [ -z "$done" ] || people_saved || failed=1
  return "$failed"
}

# members_without FOLDER TOP KINDS GROUP:ACCOUNT:QOS...: people of the groups who lack a folder of jobs in FOLDER/TOP/KIND, a line
# each. None where FOLDER/TOP is not there yet, as below a mount point without its mount, or where root may not
# write; nor where others could replace the folder, which corral run then refuses.
members_without() (
  folder=$1 top=$2 kinds=$3
  shift 3
  [ -d "$folder/$top" ] && [ -w "$folder/$top" ] && held "$folder" 0 2>/dev/null || exit 0
  members_of_groups "$@" | awk '$1 == "want" && !seen[$3]++ { print $3 }' | while read -r user; do
    for kind in $kinds; do
      [ -e "$folder/$top/$kind/$user" ] || { echo "$user"; break; }
    done
  done
)

# members_folders FOLDER TOP KINDS GROUP:ACCOUNT:QOS...: makes them; fails with what is in the way once the rest is done.
members_folders() (
  folder=$1 top=$2 kinds=$3 failed=0
  for user in $(members_without "$@"); do
    for kind in $kinds; do
      roof_make "$folder" "$top" "$kind" "$user" 'cannot be made' || failed=1
    done
  done
  exit "$failed"
)
