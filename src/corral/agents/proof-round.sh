#!/bin/sh
# Corral's scheduled proof, the part that runs on the controller (corral-proof.timer). POSIX sh.
#
# One round: each idle node is measured by a job of the user corral-proof in the partition of the same
# name (lowest priority tier, preempted by any other job, slurm.conf(5)). A node whose figure is far
# below its peers' or its own past, twice, is drained; a node that this program drained is measured
# again behind its own reservation and undrained when it is healthy.
#
#   corral-proof-round         a round now
# Results: /var/lib/corral/proof/rounds/TIME, which corral prove --history reads.
#
# Installed as: /usr/local/sbin/corral-proof-round on the controller (roles/services/proof)
# Started by: corral-proof.timer
# Runs as: root
# shellcheck disable=SC2015 # A && B || C where B cannot fail
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
# shellcheck source=src/corral/agents/slurm-nodes.sh
. slurm-nodes.sh #include
# shellcheck source=src/corral/agents/node-address.sh
. node-address.sh #include
# shellcheck source=src/corral/agents/slurmctld.sh
. slurmctld.sh #include
conf=${CORRAL_PROOF_CONF:-/etc/corral/proof.conf}
folder=${CORRAL_PROOF_FOLDER:-/var/lib/corral/proof}
program=${CORRAL_PROOF_NODE:-/usr/local/lib/corral/proof-node.sh}
joint=${CORRAL_PROOF_GROUP:-/usr/local/lib/corral/proof-group.sh}
user=corral-proof
at_once=8
rounds=60

minutes=10 drains=yes at_most=25 mounts='' mib=128 interface=''
: "${TMPDIR:=/tmp}"
mkdir -p "$folder/rounds" "$folder/testing" || exit 1
exec 9>"$folder/lock"
flock -n 9 || { echo 'another round is running'; exit 0; }
work=$(mktemp -d) || exit 1
while read -r key value; do
  case $key in
    minutes) minutes=$value ;; drain) drains=$value ;; at_most) at_most=$value ;; mib) mib=$value ;;
    interface) interface=$value ;;
    mount) mounts="$mounts $value" ;; node) echo "$value" >>"$work/nodes" ;;
  esac
done <"$conf"
now=$(date +%s) port=$now
: >"$work/round"
notice() { logger -t corral-proof -- "$*" 2>/dev/null; echo "$*"; }

# put_back NODE: a test behind a reservation ends, or was cut off: drained as before.
put_back() {
  timeout 20 scontrol update nodename="$1" state=drain reason="$(cat "$folder/testing/$1")" 2>/dev/null
  timeout 20 scontrol delete reservationname="corral-proof-$1" 2>/dev/null
  rm -f "$folder/testing/$1"
}
leave() {
  for marker in "$folder"/testing/*; do [ ! -e "$marker" ] || put_back "${marker##*/}"; done
  rm -rf "$work"
}
trap leave EXIT
trap 'exit 1' HUP INT TERM
for marker in "$folder"/testing/*; do [ ! -e "$marker" ] || put_back "${marker##*/}"; done

ping_is_up "$(timeout 20 scontrol ping)" || { notice 'slurmctld does not answer'; exit 1; }

# became NAME: the state that a job ended in.
became() {
  tries=0
  while [ "$tries" -lt 20 ]; do
    became_state=$(timeout 20 squeue -h -a -u "$user" --name="$1" -t all -o %T | tail -n 1)
    [ "$became_state" = COMPLETING ] || break
    sleep 0.5
    tries=$((tries + 1))
  done
  echo "$became_state"
}
# last_line FILE: a program's own last line; what Slurm and PyTorch's clearing up (W1122 ...) print
# after it is only that it ended.
last_line() {
  { grep -vE 'Exited with exit code|^(slurmstepd|srun)[:-]|^(\[rank[0-9]+\]:)?\[W[0-9]{4} ' "$1" || cat "$1"; } | tail -n 1 | tr -c '[:print:]\n' ' ' | cut -c1-200
}
# measure NODE [OPTION...]: figures into $work/NODE; what came of it into $work/NODE.word.
measure() {
  at=$1
  shift
  named=corral-proof-$at-$now
  gpus=$(awk -v n="$at" '$1 == n { print $3 }' "$work/nodes")
  [ "${gpus:-0}" -eq 0 ] || set -- "$@" "--gres=gpu:$gpus"
  # shellcheck disable=SC2086 # mounts are words
  (cd / && timeout $((minutes * 60 + 60)) runuser -u "$user" -- env -i PATH="$PATH" LC_ALL=C \
    srun --quiet --immediate=20 --partition=corral-proof --nodelist="$at" --nodes=1 --ntasks=1 \
    --exclusive --cpu-bind=none --mem=0 --time="$minutes" --job-name="$named" --chdir=/ "$@" \
    sh -s -- "$mib" $mounts) <"$program" >"$work/$at" 2>"$work/$at.err"
  code=$?
  if [ "$code" -eq 0 ] && grep -q '^figure ' "$work/$at"; then word=measured
  # srun reports it in many ways, as the job may just have been starting; slurmctld in one.
  elif [ "$(became "$named")" = PREEMPTED ]; then word=preempted
  elif grep -qiE 'immediate|Unable to allocate|busy' "$work/$at.err"; then word=busy
  else word=broken
  fi
  echo "$word" >"$work/$at.word"
}

# slot NODES: the file of what these reach together; a list of many names is too long to be a name.
slot() { echo "$work/of-$(printf '%s\n' "$1" | cksum | tr ' ' -)"; }
# fewest_cpus NODES: those that jobs may use on the smallest of them.
fewest_cpus() {
  timeout 20 scontrol show node "$1" -o | node_cpus | awk '!least || $1 < least { least = $1 } END { print least + 0 }'
}
# share CPUS RANKS: the processors of each rank. With --exclusive alone srun gives a rank a single one
# (seen with 24.11), on which the threads of NCCL take turns.
share() { [ "$1" -ge "$2" ] && echo $(($1 / $2)) || echo 1; }
# together NODES: what these reach in collectives, of a job over all of them; as measure does.
together() {
  few=$(printf '%s\n' "$1" | tr ',' '\n' | wc -l)
  first=${1%%,*}
  named=corral-proof-all-$now
  kept=$(slot "$1")
  port=$((20000 + (port + 1) % 10000)) # another one each time: the one before may be closing still
  ranks=$(awk -v n="$first" '$1 == n { print ($3 > 0 ? $3 : 1) }' "$work/nodes")
  gpus=$(awk -v n="$first" '$1 == n && $3 > 0 { print $3 }' "$work/nodes")
  cpus=$(fewest_cpus "$1")
  address=$(corral_node_address "$first")
  set -- "$1" ${interface:+"NCCL_SOCKET_IFNAME=$interface" "GLOO_SOCKET_IFNAME=$interface"}
  at=$1
  shift
  (cd / && timeout $((minutes * 60 + 60)) runuser -u "$user" -- env -i PATH="$PATH" LC_ALL=C \
    MASTER_ADDR="$address" MASTER_PORT="$port" "$@" \
    srun --quiet --immediate=20 --partition=corral-proof --nodelist="$at" --nodes="$few" \
    --ntasks-per-node="$ranks" --cpus-per-task="$(share "$cpus" "$ranks")" --exclusive \
    --cpu-bind=none --mem=0 --time="$minutes" --kill-on-bad-exit=1 --job-name="$named" --chdir=/ ${gpus:+"--gres=gpu:$gpus"} \
    sh -s) <"$joint" >"$kept" 2>"$kept.err"
  code=$?
  if [ "$code" -eq 0 ] && grep -q '^figure ' "$kept"; then word=measured
  elif [ "$code" -eq 0 ]; then word=none # no PyTorch there
  elif [ "$(became "$named")" = PREEMPTED ]; then word=preempted
  elif grep -qiE 'immediate|Unable to allocate|busy' "$kept.err"; then word=busy
  else word=broken
  fi
  echo "$word" >"$kept.word"
}
# patiently NODES: together, again while they are busy: what ran before may be ending there still.
patiently() {
  for pause in 1 3 9 0; do
    together "$1"
    [ "$word" = busy ] && [ "$pause" -gt 0 ] || return 0
    sleep "$pause"
  done
}
# reach NODES: measured now unless they were already; where that could not be, prints why and fails.
reach() {
  [ -e "$(slot "$1").word" ] || patiently "$1"
  case $(cat "$(slot "$1").word") in
    measured) return 0 ;;
    preempted | busy) echo 'who it is was not found: a job of somebody came first' ;;
    *) echo "who it is was not found: $1 was not measured: $(last_line "$(slot "$1").err")" ;;
  esac
  return 1
}
# rate_of NODES: their $figure; where wrong results are sought, 1 for right ones and 0 for wrong ones.
rate_of() {
  awk -v f="$figure" '$1 != "figure" { next } $2 ~ /_wrong$/ && $3 > 0 { wrong = 1 } $2 == f { rate = $3 }
    END { print f == "wrong" ? !wrong : rate + 0 }' "$(slot "$1")"
}
slower() { awk -v a="$1" -v b="$2" -v s="${3:-0.7}" 'BEGIN { exit !(a < s * b) }'; }
# part NODES FROM TO: some of them.
part() { printf '%s\n' "$1" | tr ',' '\n' | sed -n "$2,$3p" | paste -s -d , -; }
# narrow NODES WHY: who of them makes all slow, or wrong, by halves and then by pairs, and where to look.
narrow() {
  set=$1 good='' figure=${2%% *}
  case $2 in *' wrong results of '*) figure=wrong ;; esac
  while count=$(printf '%s\n' "$set" | tr ',' '\n' | wc -l) && [ "$count" -ge 4 ]; do
    left=$(part "$set" 1 $((count / 2))) right=$(part "$set" $((count / 2 + 1)) "$count")
    reach "$left" && reach "$right" || return 0
    rate=$(rate_of "$set") a=$(rate_of "$left") b=$(rate_of "$right")
    if slower "$a" "$b"; then set=$left good=${right%%,*}
    elif slower "$b" "$a"; then set=$right good=${left%%,*}
    elif slower "$rate" "$a" 0.6; then # larger rings lose some of their speed anyway
      [ "$figure" != wrong ] || { echo "$left and $right are wrong only together: look at what joins them"; return; }
      echo "$left ($a GB/s) and $right ($b GB/s) are slow only together: look at what joins them, a switch or the trunk between two"
      return
    elif [ "$count" -gt 5 ]; then
      echo "$left and $right are so each alone: more than one node, or what all of them share, a switch or settings"
      return
    else break # few enough for pairs
    fi
  done
  [ "$count" -gt 2 ] || [ -n "$good" ] || { echo "$set: with two nodes it is unknown which"; return; }
  : >"$work/pairs"
  for node in $(echo "$set${good:+,$good}" | tr ',' ' '); do
    for peer in $(echo "$set${good:+,$good}" | tr ',' ' '); do
      [ "$node" != "$peer" ] || break # each two once
      reach "$peer,$node" || return 0
      echo "$peer $node $(rate_of "$peer,$node")" >>"$work/pairs"
    done
  done
  awk -v good="$good" -v wrong="$([ "$figure" != wrong ] || echo 1)" '
    function add(text) { printf "%s%s", n++ ? "; " : "", text }
    { one[NR] = $1; two[NR] = $2; rate[NR] = $3
      if ($3 > top) top = $3
      for (i = 1; i <= 2; i++) { if (!($i in best)) { best[$i] = 0; name[++names] = $i }; if ($3 > best[$i]) best[$i] = $3 } }
    END {
      for (i = 1; i <= names; i++) if (best[name[i]] < 0.7 * top && name[i] != good) {
        bad[name[i]]
        add(name[i] (wrong ? " gives wrong results with every other node: look at its memory and its GPUs" : " is slow with every other node (" best[name[i]] " of " top " GB/s): look at its card, cable and port"))
      }
      for (i = 1; i <= NR; i++) if (rate[i] < 0.7 * top && !(one[i] in bad) && !(two[i] in bad))
        add(one[i] " and " two[i] (wrong ? " give wrong results together" : " reach " rate[i] " GB/s, other pairs " top " GB/s") ": look at the path between them")
      if (!n) add("no node and no two of them stand out: look at what all share, a switch or settings")
    }' "$work/pairs"
}

# judge NODE: "" when healthy, else what is wrong. Peers are nodes of the same group; 2 of them, or
# 3 earlier rounds of the node, are needed to judge. GPUs differ by a few percent; disks and
# processors that others use too, by more.
judge() {
  awk -v node="$1" -v nodes="$work/nodes" -v past="$folder/figures" '
    function median(list, n,  i, j, t) {
      for (i = 1; i < n; i++) for (j = i + 1; j <= n; j++) if (list[j] < list[i]) { t = list[i]; list[i] = list[j]; list[j] = t }
      return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    }
    BEGIN {
      while ((getline line < nodes) > 0) { split(line, p, " "); group[p[1]] = p[2] }
      while ((getline line < past) > 0) {
        split(line, p, " ")
        if (p[2] == node) own[p[3]] = own[p[3]] " " p[4]; else if (node in group && group[p[2]] == group[node]) last[p[3] " " p[2]] = p[4]
      }
    }
    $1 == "figure" { value[$2] = $3 }
    END {
      for (f in value) {
        if (f ~ /_wrong$/ && value[f] + 0 > 0) { print value[f] " wrong results of " f; exit }
        share = f ~ /^gpu/ ? 0.85 : node ~ /^all:/ ? 0.7 : 0.5
        n = 0; split("", list)
        for (k in last) { split(k, p, " "); if (p[1] == f) list[++n] = last[k] + 0 }
        if (n >= 2 && value[f] + 0 < share * (m = median(list, n))) { print f " is " value[f] ", its peers have " m; exit }
        n = split(own[f], list, " "); for (i = 1; i <= n; i++) list[i] += 0
        if (n > 9) { for (i = 1; i <= 9; i++) list[i] = list[n - 9 + i]; n = 9 }
        if (n >= 3 && value[f] + 0 < share * (m = median(list, n))) { print f " is " value[f] ", it had " m " before"; exit }
      }
    }' "$work/$1"
}
remember() { sed -n "s/^figure \\(.*\\)/$now $1 \\1/p" "$work/$1" >>"$folder/figures"; }
report() { # NODE WORD TEXT
  echo "node $1 $2 $3" >>"$work/round"
  [ "$2" = preempted ] || [ "$2" = busy ] || sed -n "s/^figure /figure $1 /p" "$work/$1" >>"$work/round"
}
listed() { timeout 20 scontrol show nodes -o >"$work/slurm" 2>/dev/null; }
ours() { drained_nodes <"$work/slurm" | awk '$3 ~ /^proof\./ { print $1 }'; }

# --- idle nodes
count=0
timeout 20 sinfo -h -N -p corral-proof -o %N >"$work/members" && listed || : >"$work/slurm"
for node in $(nodes_idle <"$work/slurm" | cut -d ' ' -f 1 | grep -xF -f "$work/members" | sort -u); do
  measure "$node" &
  count=$((count + 1))
  [ $((count % at_once)) -ne 0 ] || wait
done
wait
for file in "$work"/*.word; do
  [ -e "$file" ] || continue
  node=${file##*/} node=${node%.word}
  word=$(cat "$file") why=
  [ "$word" != measured ] || why=$(judge "$node")
  if [ -n "$why" ]; then
    # Once is not a fault: a backup, a package update, somebody's login.
    measure "$node"
    word=$(cat "$file") why=
    [ "$word" != measured ] || why=$(judge "$node")
  fi
  case $word in
    preempted | busy) report "$node" "$word" 'a job of somebody came first'; continue ;;
    broken) report "$node" broken "$(last_line "$work/$node.err")"; continue ;;
  esac
  if [ -z "$why" ]; then
    report "$node" pass healthy
    remember "$node"
    echo "$node" >>"$work/healthy"
    continue
  fi
  report "$node" fail "$why"
  listed || continue
  total=$(node_states <"$work/slurm" | wc -l) most=$((total * at_most / 100))
  [ "$most" -gt 0 ] || most=1
  if [ "$drains" != yes ] || [ "$(ours | wc -l)" -ge "$most" ]; then
    notice "$node is not healthy, not drained: $why"
  elif ! drained_nodes <"$work/slurm" | grep -q "^$node "; then
    timeout 20 scontrol update nodename="$node" state=drain reason="proof.${why%% *}: $why" &&
      notice "drained $node: $why"
  fi
done

# --- collectives over those that are healthy, as many GPUs in each as in the first
if [ -e "$work/healthy" ] && [ -r "$joint" ]; then
  all=$(awk 'FILENAME == ARGV[1] { gpus[$1] = $3; next } NR == FNR || !want { want = "x" gpus[$1] }
    want == "x" gpus[$1] { printf "%s%s", n++ ? "," : "", $1 }' "$work/nodes" "$work/healthy")
  few=$(printf '%s\n' "$all" | tr ',' '\n' | wc -l)
  if [ "$few" -ge 2 ]; then
    for _ in 1 2; do # once is not a fault
      patiently "$all"
      word=$(cat "$kept.word") why=
      [ "$word" = measured ] || break
      cp "$kept" "$work/all:$few"
      why=$(judge "all:$few")
      [ -n "$why" ] || break
    done
    case $word in
      none) ;;
      preempted | busy) echo "group $all $word a job of somebody came first" >>"$work/round" ;;
      broken) echo "group $all broken $(last_line "$kept.err")" >>"$work/round" ;;
      *)
        sed -n "s/^figure /figure $all /p" "$kept" >"$work/joint"
        if [ -z "$why" ]; then
          echo "group $all pass healthy" >>"$work/round"
          remember "all:$few"
        else
          why="$why; $(narrow "$all" "$why")"
          echo "group $all fail $why" >>"$work/round"
          notice "collectives over $all: $why"
        fi
        cat "$work/joint" >>"$work/round"
        ;;
    esac
  fi
fi

# --- nodes that this program drained: measured again where nobody else can come
listed && for node in $(ours); do
  [ ! -e "$work/$node.word" ] || continue # drained in this round
  drained_nodes <"$work/slurm" | sed -n "s/^$node [^ ]* //p" >"$folder/testing/$node"
  if timeout 20 scontrol create reservation reservationname="corral-proof-$node" users="$user" nodes="$node" \
    starttime=now duration=infinite flags=maint,ignore_jobs >/dev/null &&
    timeout 20 scontrol update nodename="$node" state=undrain; then
    # slurmctld counts an undrained node as not responding until it has pinged it.
    tries=0
    while [ "$tries" -lt 75 ] && scontrol show node "$node" -o | nodes_unanswered | grep -q .; do
      sleep 0.2
      tries=$((tries + 1))
    done
    measure "$node" "--reservation=corral-proof-$node"
    word=$(cat "$work/$node.word") why=
    [ "$word" != measured ] || why=$(judge "$node")
    if [ "$word" = measured ] && [ -z "$why" ]; then
      rm -f "$folder/testing/$node"
      timeout 20 scontrol delete reservationname="corral-proof-$node"
      report "$node" pass 'healthy again, undrained'
      remember "$node"
      notice "undrained $node: healthy again"
      continue
    fi
    report "$node" fail "${why:-not measured}"
  fi
  put_back "$node"
done

{ echo "round $now"; cat "$work/round"; echo "end $(date +%s)"; } >"$folder/rounds/.new" &&
  mv "$folder/rounds/.new" "$folder/rounds/$now"
find "$folder/rounds" -type f -name '[0-9]*' | sort | head -n -"$rounds" | while read -r old; do rm -f "$old"; done
[ ! -e "$folder/figures" ] || { tail -n 20000 "$folder/figures" >"$work/figures" && cat "$work/figures" >"$folder/figures"; }
cat "$folder/rounds/$now"
