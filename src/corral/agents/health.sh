#!/bin/sh
# Corral's node health check: Slurm's HealthCheckProgram (slurm.conf(5)), run as root by slurmd.
#
# Looks at the machine, prints one line for each check (verdict, id, what was seen, with tabs
# between), drains this node with a reason that begins with the id of what fails, and undrains it
# once all checks pass, if that reason is its own. POSIX sh with the system's own tools, no Python.
#
#   corral-health          look, and drain or undrain (what slurmd runs)
#   corral-health --look   look only: nothing is changed and nothing is remembered
#
# What is declared of this node is in the file below, one "key value" a line; what was learned
# of it is in the folder: `best` (what links once reached) may be deleted after a change of hardware.
#
# Installed as: /usr/local/sbin/corral-health on compute nodes (roles/slurm/health)
# Started by: slurmd, as slurm.conf's HealthCheckProgram
# Runs as: root
# shellcheck disable=SC2015 # A && B || C where B cannot fail
set -u
PATH=${CORRAL_HEALTH_PATH:+$CORRAL_HEALTH_PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
conf=${CORRAL_HEALTH_CONF:-/etc/corral/health.conf}
kept=${CORRAL_HEALTH_KEPT:-/var/lib/corral/health}
run=${CORRAL_HEALTH_RUN:-/run/corral-health}
tab=$(printf '\t')
patience=40 # tenths of a second for all that may hang: nvidia-smi, file servers, the controller
grace=60    # seconds after a job's end for its processes to go

only_check=
case ${1-} in
  '') ;;
  --look) only_check=yes ;;
  *) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

# shellcheck source=src/corral/agents/slurm-nodes.sh
. slurm-nodes.sh #include
# shellcheck source=src/corral/agents/folder-read-only.sh
. folder-read-only.sh #include

node='' auth='' gpus=0 files='' mounts='' skip='' memory=0 fabric='' at_most=25 drains=yes sys=/sys proc=/proc
spool=/var/spool/slurmd
checks='gpus ecc remap pcie xid nvlink ib mounts clock disk memory spool services leftover'
if [ -r "$conf" ]; then
  while read -r key value; do
    case $key in
      node) node=$value ;; auth) auth=$value ;; gpus) gpus=$value ;; file) files="$files $value" ;;
      mount) mounts="$mounts $value" ;; skip) skip="$skip $value " ;; memory_mib) memory=$value ;;
      fabric) fabric=$value ;; at_most) at_most=$value ;; drain) drains=$value ;;
      spool) spool=$value ;; sys) sys=$value ;; proc) proc=$value ;;
    esac
  done <"$conf"
fi
node=${node:-${SLURMD_NODENAME:-$(hostname -s)}}

mkdir -p "$run" 2>/dev/null && chmod 700 "$run" 2>/dev/null
work=$(mktemp -d "$run/look.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
: >"$work/results"
: >"$work/seen"
cat "$kept/best" >"$work/best" 2>/dev/null
begun=

# result VERDICT ID WORDS: ok, warn, fail or none (nothing to look at here).
result() { printf '%s\thealth.%s\t%s\n' "$1" "$2" "$(printf %s "$3" | tr -c '[:print:]' ' ' | cut -c1-300)" >>"$work/results"; }
wants() { case $skip in *" health.$1 "*) return 1 ;; esac }
# begin NAME COMMAND...: in the background, since nothing ends a process that waits for a dead device.
begin() {
  name=$1
  begun="$begun $name"
  shift
  (
    timeout -s KILL 4 "$@" >"$work/$name" 2>"$work/$name.err" </dev/null
    echo $? >"$work/$name.tmp" && mv "$work/$name.tmp" "$work/$name.status"
  ) >/dev/null 2>&1 &
}
# status NAME: its exit status, "late" when it gave none in time.
status() { cat "$work/$1.status" 2>/dev/null || echo late; }
# seen KEY VALUE: remembered as the best this machine has shown, if it is better.
seen() { echo "$1 $2" >>"$work/seen"; }
best() { awk -v k="$1" '$1 == k { print $2; f = 1 } END { if (!f) print 0 }' "$work/best"; }
number() { case $1 in '' | *[!0-9]*) return 1 ;; esac }

# --- all that may be slow is begun at once
smi=$(command -v nvidia-smi) || smi=
if [ "$gpus" -gt 0 ] && [ -n "$smi" ]; then
  begin gpus "$smi" --format=csv,noheader,nounits --query-gpu=index,pci.bus_id,pstate,pcie.link.width.current,pcie.link.width.max,pcie.link.gen.current,pcie.link.gen.max,ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.volatile.total
  if wants remap; then begin remap "$smi" --format=csv,noheader,nounits --query-remapped-rows=gpu_bus_id,remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure; fi
  if wants nvlink; then begin nvlink "$smi" nvlink --status; fi
  if wants leftover; then begin apps "$smi" --format=csv,noheader,nounits --query-compute-apps=pid,gpu_bus_id; fi
fi
i=0
for mount in $mounts; do
  i=$((i + 1))
  wants mounts && begin "mount$i" stat -f -c '%T %b' "$mount"
done
if wants clock; then begin config env SLURM_TIME_FORMAT=%s sh -c 'scontrol show config; date +%s >&2'; fi
begin self scontrol show node "$node" -o
wants xid && begin kernel dmesg
wants disk && begin disks df -Pkl / /tmp /var /var/log /run "$spool"
wants disk && begin inodes df -Pil / /tmp /var /var/log "$spool"

left=$patience
while [ "$left" -gt 0 ]; do
  late=
  for name in $begun; do [ -e "$work/$name.status" ] || late=$name; done
  [ -n "$late" ] || break
  sleep 0.1
  left=$((left - 1))
done

# --- checks
check_gpus() {
  [ "$gpus" -gt 0 ] || { result none gpus 'no GPU is declared here'; return; }
  gone=
  for file in $files; do [ -c "$file" ] || gone="$gone $file"; done
  [ -z "$gone" ] || { result fail gpus "of $gpus GPUs these have no device file:$gone"; return; }
  [ -n "$smi" ] || { result ok gpus "$gpus device files; no nvidia-smi here"; return; }
  code=$(status gpus)
  [ "$code" != late ] && [ "$code" != 137 ] || { result fail gpus 'nvidia-smi gives no answer in 4 s'; return; }
  answering=$(grep -c '^ *[0-9][0-9]*, *[0-9A-Fa-f]\{4,8\}:' "$work/gpus")
  # Counted before its status is looked at: with one GPU lost it lists the others and fails.
  if [ "$answering" -lt "$gpus" ]; then
    why=$(grep -hv '^ *[0-9][0-9]*,' "$work/gpus" "$work/gpus.err" | head -n 1)
    result fail gpus "$answering of $gpus GPUs answer${why:+: $why}"
  elif [ "$code" != 0 ]; then
    result fail gpus "nvidia-smi fails with status $code: $(head -n 1 "$work/gpus.err")"
  else
    result ok gpus "$answering of $gpus GPUs"
  fi
}

# readable NAME ID: whether there is something to judge; prints a result where there is none.
readable() {
  [ "$gpus" -gt 0 ] && [ -n "$smi" ] || { result none "$2" 'no NVIDIA GPU here'; return 1; }
  [ "$(status "$1")" = 0 ] || { result none "$2" 'nvidia-smi does not report it'; return 1; }
}

check_ecc() {
  readable gpus ecc || return
  # 20 million corrected errors: the line of azurehpc-health-checks for DRAM.
  awk -F', *' '
    $8 ~ /^[0-9]+$/ { counted++; if ($8 > 0) bad = bad " GPU " $1 " (" $2 "): " $8 " uncorrected errors;" }
    $9 ~ /^[0-9]+$/ && $9 > 20000000 { bad = bad " GPU " $1 " (" $2 "): " $9 " corrected errors;" }
    END { if (bad) print "fail" bad; else if (counted) print "ok no uncorrected memory error"; else print "none the GPUs do not count ECC errors" }
  ' "$work/gpus" >"$work/ecc"
  verdict_of ecc
}

check_remap() {
  readable remap remap || return
  awk -F', *' '
    NF >= 5 { n++ }
    NF >= 5 && $5 ~ /^(Yes|1)$/ { bad = bad " GPU " $1 ": remapping a row failed, the card must be replaced;" }
    NF >= 5 && $4 ~ /^(Yes|1)$/ { bad = bad " GPU " $1 ": a row waits to be remapped, the GPU needs a reset;" }
    NF >= 5 && $2 + $3 > 10 { many = many " GPU " $1 ": " $2 + $3 " rows are remapped, more than 10;" }
    END { if (bad) print "fail" bad; else if (many) print "warn" many; else if (n) print "ok no row waits or failed"; else print "none the GPUs remap no rows" }
  ' "$work/remap" >"$work/remapped"
  verdict_of remap remapped
}

check_pcie() {
  readable gpus pcie || return
  # Below its maximum is a fault where this GPU once had more, or where all its peers have more:
  # boards that give a slot half its lanes are not a fault. Generations only count in P0: an idle card
  # of the GeForce kind goes down to 1.
  awk -F', *' -v best="$work/best" -v seen="$work/seen" '
    BEGIN { while ((getline line < best) > 0) { split(line, p, " "); known[p[1]] = p[2] } }
    $4 ~ /^[0-9]+$/ && $5 ~ /^[0-9]+$/ {
      n++; gpu[n] = $1 " (" $2 ")"; width[n] = $4; most[n] = $5; key[n] = "width." $2
      if (known[key[n]] + 0 < $4) print key[n], $4 >> seen
      if ($4 + 0 >= $5 + 0) full++
      if ($3 == "P0" && $6 ~ /^[0-9]+$/) {
        if (known["gen." $2] + 0 > $6) bad = bad " GPU " gpu[n] " runs at PCIe generation " $6 ", once at " known["gen." $2] ";"
        else if ($6 + 0 < $7 + 0) less = less " GPU " gpu[n] " runs at PCIe generation " $6 " of " $7 ";"
        if (known["gen." $2] + 0 < $6) print "gen." $2, $6 >> seen
      }
    }
    END {
      for (i = 1; i <= n; i++) {
        if (width[i] + 0 >= most[i] + 0) continue
        if (known[key[i]] + 0 > width[i]) bad = bad " GPU " gpu[i] " has " width[i] " PCIe lanes, once " known[key[i]] ";"
        else if (n >= 4 && full == n - 1) bad = bad " GPU " gpu[i] " has " width[i] " PCIe lanes, all others " most[i] ";"
        else less = less " GPU " gpu[i] " has " width[i] " of " most[i] " PCIe lanes, as always;"
      }
      if (bad) print "fail" bad; else if (less) print "warn" less; else if (n) print "ok all lanes of all GPUs"; else print "none the GPUs do not report their lanes"
    }
  ' "$work/gpus" >"$work/pcie"
  verdict_of pcie
}

# Xid to action: corral.roles.slurm.health writes the table here (corral/inspect/xids.yaml).
xids='@XIDS@'
check_xid() {
  [ "$gpus" -gt 0 ] || { result none xid 'no GPU is declared here'; return; }
  [ "$(status kernel)" = 0 ] || { result none xid 'the kernel log cannot be read'; return; }
  acknowledged=$(cat "$run/acknowledged" 2>/dev/null || echo 0)
  awk -v table="$xids" -v after="$acknowledged" -v last="$work/xid.last" '
    BEGIN { n = split(table, rows, " "); for (i = 1; i <= n; i++) { split(rows[i], r, "="); todo[r[1]] = r[2]; gsub("_", " ", r[3]); act[r[1]] = r[3] } }
    # As the message itself: the kernel names files that users made, "segfault at 0 ... in FILE[...]".
    /^\[ *[0-9]+\.[0-9]+\] ?(\[ *[TC][0-9]+\] ?)?NVRM: Xid / && match($0, /NVRM: Xid \([^)]*\): [0-9]+/) {
      text = substr($0, RSTART, RLENGTH); id = text; sub(/.*: /, "", id)
      gpu = text; sub(/^[^(]*\(/, "", gpu); sub(/\).*/, "", gpu); sub(/^PCI:/, "", gpu)
      at = $0; sub(/^[^[]*\[ */, "", at); sub(/\].*/, "", at)
      if (at + 0 <= after + 0) next
      if (!(id in todo)) { other = other " " id; top = at; next }
      out = (todo[id] == "drain") || (todo[id] == "fatal" && $0 ~ / Fatal( |$)/)
      if (todo[id] == "derived") { out = ($0 ~ /recovery action changed/); if ($0 ~ /\(None\)[^(]*$/) { out = 0; delete worst["154 " gpu] } }
      if (out) { if (!((id " " gpu) in worst)) order[++m] = id " " gpu; worst[id " " gpu] = act[id] }
      else jobs++
      top = at
    }
    END {
      for (i = 1; i <= m; i++) if (order[i] in worst) { split(order[i], p, " "); bad = bad " Xid " p[1] " on GPU " p[2] ", " worst[order[i]] ";" }
      print top + 0 > last
      if (bad) print "fail" bad; else if (other) print "warn Xids to check:" other; else print "ok no Xid that takes a node out" (jobs ? " (" jobs " of jobs)" : "")
    }
  ' "$work/kernel" >"$work/xid"
  verdict_of xid
}

check_nvlink() {
  readable nvlink nvlink || return
  awk -v best="$work/best" -v seen="$work/seen" '
    BEGIN { while ((getline line < best) > 0) { split(line, p, " "); known[p[1]] = p[2] } }
    /^GPU [0-9]+:/ { g = $2; sub(/:.*/, "", g); if (!(g in up)) { up[g] = 0; order[++n] = g } }
    /Link [0-9]+:/ && /GB\/s/ { up[g]++; if (up[g] > most) most = up[g] }
    END {
      for (i = 1; i <= n; i++) {
        g = order[i]; once = known["nvlink." g] + 0
        if (up[g] > once) print "nvlink." g, up[g] >> seen
        if (up[g] < once) bad = bad " GPU " g " has " up[g] " NVLinks up, once " once ";"
        else if (up[g] > 0 && up[g] < most) bad = bad " GPU " g " has " up[g] " NVLinks up, others " most ";"
      }
      if (bad) print "fail" bad; else if (most) print "ok " most " NVLinks up on each GPU that has some"; else print "none no NVLink here"
    }
  ' "$work/nvlink" >"$work/nvlinks"
  verdict_of nvlink nvlinks
}

check_ib() {
  now=$(date +%s) up=0 bad='' flaps='' odd=''
  for port in "$sys"/class/infiniband/*/ports/*; do
    [ -r "$port/state" ] || continue
    device=${port%/ports/*} device=${device##*/} which="$device.${port##*/}"
    read -r _ state <"$port/state"
    read -r rate _ <"$port/rate"
    rate=${rate%%.*} once=$(best "ib.$which")
    if [ "$state" = ACTIVE ]; then
      up=$((up + 1))
      seen "ib.$which" "${rate:-0}"
      [ "${rate:-0}" -ge "$once" ] || bad="$bad $which runs at $rate Gb/s, once at $once;"
      # The kernel's default LID of the subnet manager is 0: none has ever spoken to this port.
      case $(cat "$port/link_layer" 2>/dev/null)/$(cat "$port/sm_lid" 2>/dev/null) in
      InfiniBand/0x0|InfiniBand/0) bad="$bad $which sees no subnet manager;" ;;
      esac
    elif [ "$once" -gt 0 ]; then
      bad="$bad $which is $state, once it was up at $once Gb/s;"
    fi
    # Errors of the cable or the other end; a warning, for a link with some may still be fast.
    for counter in symbol_error port_rcv_errors local_link_integrity_errors excessive_buffer_overrun_errors; do
      errors=$(cat "$port/counters/$counter" 2>/dev/null)
      number "$errors" || continue
      flaps="$flaps$which.$counter $now $errors
"
      was=$(awk -v w="$which.$counter" -v old=$((now - 86400)) '$1 == w && $2 >= old { print $3; exit }' "$kept/flaps" 2>/dev/null)
      [ -z "$was" ] || [ $((errors - was)) -lt 100 ] || odd="$odd $which: $((errors - was)) more $counter within 24 hours;"
    done
    downed=$(cat "$port/counters/link_downed" 2>/dev/null)
    number "$downed" || continue
    flaps="$flaps$which $now $downed
"
    # 5 in 24 hours: what Azure's and Meta's checks take for a bad cable.
    first=$(awk -v w="$which" -v old=$((now - 86400)) '$1 == w && $2 >= old { print $3; exit }' "$kept/flaps" 2>/dev/null)
    [ -z "$first" ] || [ $((downed - first)) -lt 5 ] || bad="$bad $which lost its link $((downed - first)) times within 24 hours;"
  done
  [ -n "$only_check" ] || [ -z "$flaps" ] || {
    mkdir -p "$kept"
    { awk -v old=$((now - 86400)) '$2 >= old' "$kept/flaps" 2>/dev/null; printf %s "$flaps"; } >"$work/flaps"
    mv "$work/flaps" "$kept/flaps"
  }
  if [ -n "$bad" ]; then result fail ib "${bad# }"
  elif [ -n "$odd" ]; then result warn ib "${odd# }"
  elif [ "$up" -gt 0 ]; then result ok ib "$up ports up"
  elif [ "$fabric" = infiniband ]; then result fail ib 'InfiniBand is declared and no port is up'
  else result none ib 'no RDMA port here'; fi
}

check_mounts() {
  [ -n "$mounts" ] || { result none mounts 'no shared folder is declared'; return; }
  i=0 bad=''
  for mount in $mounts; do
    i=$((i + 1))
    code=$(status "mount$i")
    if ! awk -v m="$mount" '$2 == m { f = 1 } END { exit !f }' "$proc/mounts"; then bad="$bad $mount is not mounted;"
    elif [ "$code" = late ] || [ "$code" = 137 ]; then bad="$bad $mount gives no answer in 4 s;"
    elif [ "$code" != 0 ]; then bad="$bad $mount: $(head -n 1 "$work/mount$i.err" | sed 's/.*: //');"
    fi
  done
  if [ -n "$bad" ]; then result fail mounts "$bad"; else result ok mounts "all answer:$mounts"; fi
}

check_clock() {
  theirs=$(sed -n '1s/.*as of \([0-9]*\).*/\1/p' "$work/config" 2>/dev/null)
  ours=$(tail -n 1 "$work/config.err" 2>/dev/null)
  number "$theirs" && number "$ours" || { result none clock 'the controller did not report its time'; return; }
  off=$((ours - theirs))
  size=${off#-}
  # Full seconds; a message of Slurm's is refused after 300 s, and time servers keep milliseconds.
  if [ "$size" -gt 5 ]; then result fail clock "the clock is $off s from the controller's"
  else result ok clock "within $size s of the controller's clock"; fi
}

check_disk() {
  # Less than 5 % free and less than 2 GiB: 5 % of a large disk are plenty.
  { sed 's/^/k /' "$work/disks"; sed 's/^/i /' "$work/inodes"; } 2>/dev/null | awk '
    $1 == "k" && $5 ~ /^[0-9]+$/ && $3 > 0 && !(("k" $7) in met) { met["k" $7] = 1; n++
      if ($5 * 20 < $3 && $5 < 2097152) bad = bad " " $7 " has " int($5 / 1024) " MiB of " int($3 / 1024) " left;" }
    $1 == "i" && $5 ~ /^[0-9]+$/ && $3 > 0 && !(("i" $7) in met) { met["i" $7] = 1
      if ($5 * 100 < $3 && $5 < 100000) bad = bad " " $7 " has " $5 " inodes of " $3 " left;" }
    END { if (bad) print "fail" bad; else if (n) print "ok " n " file systems have room"; else print "none df listed no file system" }
  ' >"$work/disk"
  verdict_of disk
}

check_memory() {
  total=$(awk '$1 == "MemTotal:" { print int($2 / 1024) }' "$proc/meminfo")
  errors=$(cat "$sys"/devices/system/edac/mc/mc*/ue_count 2>/dev/null | awk '{ n += $1 } END { print n + 0 }')
  if [ "$errors" -gt 0 ]; then result fail memory "$errors uncorrected errors of the machine's memory since it booted"
  elif number "$total" && [ "$total" -lt "$memory" ]; then result fail memory "$total MiB are there, $memory are declared"
  else result ok memory "$total MiB"; fi
}

check_spool() {
  bad=
  for folder in "$spool" /tmp; do
    if [ ! -d "$folder" ]; then bad="$bad $folder is not there;"; continue; fi
    if folder_read_only "$folder"; then bad="$bad $folder cannot be written: read-only file system;"; continue; fi
    # A name that is new: users could put a link or a FIFO of theirs under one that they know.
    file=$(mktemp "$folder/.corral-health.XXXXXXXXXX" 2>/dev/null) && (echo x >"$file") 2>/dev/null ||
      bad="$bad $folder cannot be written;"
    [ -z "$file" ] || rm -f "$file"
  done
  if [ -n "$bad" ]; then result fail spool "$bad"; else result ok spool "$spool and /tmp can be written"; fi
}

check_services() {
  bad=''
  count=0
  for unit in munge nvidia-fabricmanager nvidia-persistenced; do
    # Debian's package enables munge without starting it, where Slurm has its own key as well.
    if [ "$unit" = munge ] && [ "$auth" != munge ]; then continue; fi
    [ "$(systemctl is-enabled "$unit" 2>/dev/null)" = enabled ] || continue
    count=$((count + 1))
    state=$(systemctl is-active "$unit" 2>/dev/null)
    case $state in active | activating | reloading) ;; *) bad="$bad $unit is $state;" ;; esac
  done
  if [ -n "$bad" ]; then result fail services "$bad"
  elif [ "$count" -gt 0 ]; then result ok services "$count services running"
  else result none services 'none of those that GPUs and jobs need is enabled here'; fi
}

check_leftover() {
  # Processes in the cgroup of a job (proctrack/cgroup), and those that hold a GPU. Not those that are
  # just ending: when Slurm calls a job completed, a thread of it may still release its GPU's memory
  # (the process a zombie without memory, for about a second on H200, seen).
  # Slurm's own cgroups (version 2, then 1): below user@ a user may make one of any name.
  grep -Hs '/job_[0-9]' "$proc"/[0-9]*/cgroup | sed -n -e '\#/user@#d' \
    -e 's#^.*/\([0-9]*\)/cgroup:[0-9]*:[^:]*:.*slurmstepd\.scope/job_\([0-9][0-9]*\).*#\1 \2#p' \
    -e 's#^.*/\([0-9]*\)/cgroup:[0-9]*:[^:]*:.*/slurm[^/]*/uid_[0-9]*/job_\([0-9][0-9]*\).*#\1 \2#p' |
    sort -u >"$work/of_jobs"
  bare=
  if [ -s "$work/apps" ]; then
    # shellcheck disable=SC2013 # words: a process id each
    for pid in $(sed -n 's/^ *\([0-9][0-9]*\),.*/\1/p' "$work/apps" | sort -u); do
      [ -d "$proc/$pid" ] && [ "$(stat -c %u "$proc/$pid")" != 0 ] || continue
      case $(cat "$proc/$pid/statm" 2>/dev/null) in '0 '*) continue ;; esac
      grep -q "^$pid " "$work/of_jobs" || bare="$bare $pid"
    done
  fi
  ended=
  if [ -s "$work/of_jobs" ]; then
    # All jobs, not -w: of a job that is COMPLETING on other nodes, slurmctld reports those nodes only
    # (_pack_job in Slurm 25.11's job_mgr.c), while its slurmstepd here still ends.
    if ! SLURM_TIME_FORMAT=%s timeout -s KILL 3 squeue -h -t all -o '%A %T %e' >"$work/queue" 2>/dev/null; then
      result none leftover 'the controller did not list the jobs'
      return
    fi
    # A job that is PENDING again was requeued; its end is unknown.
    ended=$(awk -v late="$(($(date +%s) - grace))" '
      FILENAME == ARGV[1] && $2 ~ /^(CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|TIMEOUT|BOOT_FAIL|LAUNCH_FAILED|RECONFIG_FAIL|REVOKED)$/ { if ($3 + 0 > late) runs[$1] = 1; next }
      FILENAME == ARGV[1] { if ($2 != "PENDING") runs[$1] = 1; next }
      !($2 in runs) { printf " %s (job %s)", $1, $2 }' "$work/queue" "$work/of_jobs")
  fi
  if [ -n "$ended" ]; then result fail leftover "processes of jobs that have ended:$ended"
  elif [ -n "$bare" ]; then result fail leftover "processes outside of any job hold a GPU:$bare"
  else result ok leftover 'none'; fi
}

# verdict_of ID [FILE]: a file whose first word is the verdict.
verdict_of() {
  read -r verdict words <"$work/${2:-$1}" || { verdict=none words='awk gave nothing'; }
  result "$verdict" "$1" "${words%;}"
}

for check in $checks; do
  if wants "$check"; then "check_$check"; fi
done
sed 's/;$//' "$work/results" >"$work/all"
cat "$work/all"
[ -z "$only_check" ] || exit 0

# --- what it means for Slurm
# A check that other machines can spoil must fail twice running: a file server that restarts, or a
# driver that is slow once, takes no node out.
twice=' health.mounts health.clock health.services health.leftover '
awk -F"$tab" '$1 == "fail" { print $2 }' "$work/all" >"$work/failing"
: >"$work/strikes"
grave=
while read -r id; do
  before=$(awk -v k="$id" '$1 == k { print $2 }' "$run/strikes" 2>/dev/null)
  count=$((${before:-0} + 1))
  echo "$id $count" >>"$work/strikes"
  need=1
  case $twice in *" $id "*) need=2 ;; esac
  grep -q "^fail${tab}health.gpus${tab}nvidia-smi gives no answer" "$work/all" && [ "$id" = health.gpus ] && need=2
  [ "$count" -lt "$need" ] || grave="$grave $id"
done <"$work/failing"
mv "$work/strikes" "$run/strikes"
cp "$work/all" "$run/.last" && mv "$run/.last" "$run/last"

if [ -s "$work/seen" ]; then
  mkdir -p "$kept"
  sort "$work/best" "$work/seen" | awk '{ if ($2 + 0 > top[$1] + 0) top[$1] = $2 } END { for (k in top) print k, top[k] }' |
    sort >"$work/merged"
  cmp -s "$work/merged" "$kept/best" || { cp "$work/merged" "$kept/.best" && mv "$kept/.best" "$kept/best"; }
fi

notice() { logger -t corral-health -p daemon.warning -- "$*" 2>/dev/null; echo "# $*"; }
[ "$(status self)" = 0 ] || { [ -z "$grave" ] || notice "the controller does not answer:$grave"; exit 0; }
reason=$(drained_nodes <"$work/self" | cut -d ' ' -f 3-)
out=${reason:+yes} ours=
case $reason in health.[a-z]*:*) ours=yes ;; esac

# Resumed by a person although an Xid is still in the kernel's log: then it counts no longer.
if [ -z "$out" ] && [ -s "$run/drained_for_xid" ]; then mv "$run/drained_for_xid" "$run/acknowledged"; exit 0; fi

if [ -z "$grave" ]; then
  # Healthy again means that nothing fails at all, not that it failed only once so far.
  if [ -n "$ours" ] && [ ! -s "$work/failing" ]; then
    timeout 10 scontrol update nodename="$node" state=undrain && rm -f "$run/drained_for_xid" &&
      notice "healthy again, undrained; it was: $reason"
  fi
  exit 0
fi

first=${grave# } first=${first%% *} more=$(($(printf '%s\n' "$grave" | wc -w) - 1))
words=$(awk -F"$tab" -v k="$first" '$2 == k { print $3 }' "$work/all")
why="$first: $words"
[ "$more" -eq 0 ] || why="$why (and $more more)"
why=$(printf %s "$why" | tr '"' "'" | cut -c1-240)
[ "$drains" = yes ] || { notice "only reported, drain is off: $why"; exit 0; }
if [ -n "$out" ]; then
  # Somebody else's reason stays as it is; our own is kept true.
  [ -z "$ours" ] || [ "${reason%%:*}" = "$first" ] ||
    timeout 10 scontrol update nodename="$node" state=drain reason="$why"
  exit 0
fi
nodes_to_drain <"$work/self" | grep -q . || exit 0

# No more than a share of the cluster is ever out for this program's reasons: a cause that all nodes
# have (the file server, a bad update) takes out that share and no more; the rest is reported.
others() {
  timeout 10 scontrol show nodes -o >"$work/nodes" 2>/dev/null || return 1
  total=$(node_states <"$work/nodes" | wc -l)
  most=$((total * at_most / 100))
  [ "$most" -gt 0 ] || most=1
  # Oldest first, and by name among those of one second; scontrol writes the time behind the reason.
  drained_nodes <"$work/nodes" | awk '$3 ~ /^health\.[a-z]+:$/ { print $2, $1 }' | sort >"$work/out"
  sick=$(wc -l <"$work/out")
}
others || exit 0
if [ "$sick" -ge "$most" ]; then
  notice "not drained, $sick of $total nodes are out for such reasons already (at most $most): $why"
  exit 0
fi
timeout 10 scontrol update nodename="$node" state=drain reason="$why" || exit 0
case $grave in *health.xid*) cat "$work/xid.last" >"$run/drained_for_xid" ;; esac
notice "drained: $why"
# Others may have thought the same in this moment: all look again, and the later ones give way.
sleep 1
others || exit 0
if [ "$sick" -gt "$most" ] && ! head -n "$most" "$work/out" | grep -q " $node\$"; then
  timeout 10 scontrol update nodename="$node" state=undrain && rm -f "$run/drained_for_xid" &&
    notice "undrained, others were first: $sick of $total nodes would be out (at most $most): $why"
fi
