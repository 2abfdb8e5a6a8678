#!/bin/sh
# Written by Corral: what jobs and GPUs of this node use and its health, as Prometheus' text. Read-only, root.
#   corral-figures [FOLDER]   with a folder: into FOLDER/corral.prom, for the node exporter
# The label is jobid: "job" is what Prometheus calls its own.
# CORRAL_CGROUP, CORRAL_PROC and CORRAL_HEALTH_RUN stand in for /sys/fs/cgroup, /proc and /run/corral-health in tests.
#
# Installed as: /usr/local/lib/corral/figures.sh on compute nodes; else nowhere: an argument of sh -c
# (api/operations/health, inspect/jobs, roles/services/metrics, web/reference/metrics)
# Started by: corral-figures.timer; corral, which reads the figures at once; who writes the metrics' reference
# Runs as: root
LC_ALL=C
export LC_ALL
top=${CORRAL_CGROUP:-/sys/fs/cgroup}
proc=${CORRAL_PROC:-/proc}

head_of() { printf '# HELP %s %s\n# TYPE %s %s\n' "$1" "$3" "$1" "$2"; }

# Folders of jobs: cgroup v2 (slurmstepd.scope), else v1's controller of that name.
jobs_of() {
  for folder in "$top"/system.slice/*slurmstepd.scope/job_* "$top/$1"/slurm*/uid_*/job_*; do
    [ -d "$folder" ] && printf '%s\n' "$folder"
  done
}
number() { case $1 in '' | *[!0-9]*) return 1 ;; esac; }
first() { for file; do [ -r "$file" ] && { cat "$file"; return; }; done; }

memory() {
  head_of corral_job_memory_bytes gauge "Memory of a job on this node, page cache left out."
  jobs_of memory | while read -r folder; do
    job=${folder##*/job_}
    used=$(first "$folder/memory.current" "$folder/memory.usage_in_bytes")
    { number "$job" && number "$used"; } || continue
    # Cache that the kernel frees at once is not in use.
    cache=$(sed -n 's/^\(total_\)\{0,1\}inactive_file //p' "$folder/memory.stat" 2>/dev/null | tail -n 1)
    number "$cache" || cache=0
    [ "$cache" -le "$used" ] || cache=$used
    echo "corral_job_memory_bytes{jobid=\"$job\"} $((used - cache))"
  done
}

processors() {
  head_of corral_job_cpu_seconds_total counter "Processor time of a job on this node."
  jobs_of cpuacct | while read -r folder; do
    job=${folder##*/job_}
    spent=$(sed -n 's/^usage_usec //p' "$folder/cpu.stat" 2>/dev/null)
    number "$spent" || { spent=$(first "$folder/cpuacct.usage"); number "$spent" && spent=$((spent / 1000)); }
    { number "$job" && number "$spent"; } || continue
    printf 'corral_job_cpu_seconds_total{jobid="%s"} %d.%06d\n' "$job" $((spent / 1000000)) $((spent % 1000000))
  done
}

# Xids in the kernel's log: "0000:81:00 79" a line, then "known"; nothing where the log cannot be read. The message itself,
# as the kernel writes it: it names files that users made, too (health.sh).
xids() {
  log=$(timeout 5 dmesg 2>/dev/null) || return 0
  printf '%s\n' "$log" | sed -n -E 's/^\[ *[0-9]+\.[0-9]+\] ?(\[ *[TC][0-9]+\] ?)?NVRM: Xid \(PCI:([0-9A-Fa-f:]+)\): ([0-9]+).*/\2 \3/p'
  echo known
}

fields=index,uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,ecc.errors.uncorrected.volatile.total,pci.bus_id
gpus() {
  command -v nvidia-smi >/dev/null 2>&1 || return 0
  seen=$(timeout 10 nvidia-smi --query-gpu=$fields --format=csv,noheader,nounits 2>/dev/null) || return 0
  apps=$(timeout 10 nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader,nounits 2>/dev/null)
  # A process of a GPU belongs to the job in whose cgroup it is; below user@ a user may make one of
  # any name.
  owners=$(printf '%s\n' "$apps" | tr -d ' ' | while IFS=, read -r uuid pid; do
    number "$pid" || continue
    job=$(sed -n -e '\#/user@#d' -e 's#.*slurmstepd\.scope/job_\([0-9][0-9]*\).*#\1#p' \
      -e 's#.*/slurm[^/]*/uid_[0-9]*/job_\([0-9][0-9]*\).*#\1#p' "$proc/$pid/cgroup" 2>/dev/null | head -n 1)
    number "$job" && echo "$uuid $job"
  done | sort -u)
  printf '%s\n@\n%s\n@\n%s\n' "$owners" "$(xids)" "$seen" | awk '
    BEGIN {
      split("utilization_ratio memory_used_bytes memory_total_bytes celsius watts ecc_uncorrected", name, " ")
      split("Share of time in which it worked.|Memory in use.|Memory it has.|Temperature.|Power drawn.|Uncorrected memory errors since the driver was loaded.", help, "|")
      scale[1] = 0.01; scale[2] = scale[3] = 1048576; scale[4] = scale[5] = scale[6] = 1
    }
    $0 == "@" { after++; next }
    !after { if (NF == 2) jobs[$1] = jobs[$1] " " $2; next }
    after == 1 {
      if ($0 == "known") known = 1
      else if (NF == 2) { bus = tolower($1); if (!((bus, $2) in xid)) codes[bus] = codes[bus] " " $2; xid[bus, $2]++ }
      next
    }
    {
      split($0, field, /, */)
      if (field[1] !~ /^[0-9]+$/ || field[2] !~ /^[A-Za-z0-9-]+$/) next
      for (i = 1; i <= 6; i++) if (field[i + 2] ~ /^[0-9.]+$/)
        lines[i] = lines[i] sprintf("corral_gpu_%s{gpu=\"%s\",uuid=\"%s\"} %.15g\n", name[i], field[1], field[2], field[i + 2] * scale[i])
      # nvidia-smi has 00000000:81:00.0 where the kernel has 0000:81:00.
      bus = tolower(substr(field[9], 5)); sub(/\.[0-9]+$/, "", bus)
      if (known && bus != "") {
        count = split(codes[bus], mine, " ")
        if (!count) errors = errors sprintf("corral_gpu_xids{gpu=\"%s\",uuid=\"%s\"} 0\n", field[1], field[2])
        for (j = 1; j <= count; j++) errors = errors sprintf("corral_gpu_xids{gpu=\"%s\",uuid=\"%s\",xid=\"%s\"} %d\n", field[1], field[2], mine[j], xid[bus, mine[j]])
      }
      count = split(jobs[field[2]], mine, " ")
      for (j = 1; j <= count; j++) owned = owned sprintf("corral_gpu_job{gpu=\"%s\",uuid=\"%s\",jobid=\"%s\"} 1\n", field[1], field[2], mine[j])
    }
    END {
      for (i = 1; i <= 6; i++) if (lines[i] != "") printf "# HELP corral_gpu_%s %s\n# TYPE corral_gpu_%s gauge\n%s", name[i], help[i], name[i], lines[i]
      if (errors != "") printf "# HELP corral_gpu_xids Xids of the GPU in the kernel log; without the label: there is none.\n# TYPE corral_gpu_xids gauge\n%s", errors
      if (owned != "") printf "# HELP corral_gpu_job Jobs with a process on the GPU.\n# TYPE corral_gpu_job gauge\n%s", owned
    }'
}

# What the health check saw last, as it keeps it (health.sh). Its words are in no label: each would make a series.
health() {
  last=${CORRAL_HEALTH_RUN:-/run/corral-health}/last
  [ -r "$last" ] || return 0
  when=$(stat -c %Y "$last" 2>/dev/null)
  number "$when" || return 0
  head_of corral_health_check gauge "Last result of a check of the node's health: 0 ok, 1 warning, 2 failed, -1 not applicable."
  awk -F '\t' '
    BEGIN { value["ok"] = 0; value["warn"] = 1; value["fail"] = 2; value["none"] = -1 }
    ($1 in value) && $2 ~ /^health\.[a-z]+$/ { printf "corral_health_check{check=\"%s\"} %d\n", substr($2, 8), value[$1] }
  ' "$last"
  head_of corral_health_time_seconds gauge "When the node's health was checked last."
  echo "corral_health_time_seconds $when"
}

all() { memory; processors; gpus; health; }

if [ $# -eq 0 ]; then all; exit; fi
# The exporter reads at any time: it must never find half a file.
new=$(mktemp "$1/.corral.XXXXXX") || exit 1
if all >"$new" && chmod 644 "$new" && mv -f "$new" "$1/corral.prom"; then exit 0; fi
rm -f "$new"
exit 1
