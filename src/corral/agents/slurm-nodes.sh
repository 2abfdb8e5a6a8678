#!/bin/sh
# Functions that read nodes from `scontrol --oneliner show node` on standard input: the only place where
# a program reads a node's state or reason from text. POSIX sh and awk.
#
# Free text is in several places of a line: Arch=, Version= and OS= are what slurmd sent, Reason= and Comment=
# (and what is behind them) are people's or slurmd's. "State=DOWN" in one of them states nothing: slurm/text.py
# has the same rules.
#
# Installed as: part of the programs that include it
# Started by: nobody, it defines functions
# Runs as: who runs the program

# vouched_nodes: the same lines without what slurmd sent, and State=UNKNOWN alone for a node whose line can be
# read in two ways or of which there are two lines (a line end in OS= begins the line of another node).
vouched_nodes() {
  awk '
    $1 !~ /^NodeName=./ { next }
    !seen[$1]++ { order[++count] = $1 }
    { line[$1] = seen[$1] > 1 ? $1 " State=UNKNOWN" : vouched($0) }
    END { for (i = 1; i <= count; i++) print line[order[i]] }
    # Arch ends where CoresPerSocket= begins, Version and OS where RealMemory= does.
    function vouched(text,  cores, memory, before) {
      cores = only(text, " CoresPerSocket=[0-9]+ +CPUAlloc=[0-9]")
      memory = only(text, " RealMemory=[0-9]+ AllocMem=[0-9]")
      if (cores < 0 || memory < 0 || (memory && cores > memory)) return $1 " State=UNKNOWN"
      before = substr(text, 1, memory ? memory - 1 : length(text))
      if (cores) before = $1 substr(before, cores)
      if (!memory) return before
      if (match(before, / (Version|OS)=/)) before = substr(before, 1, RSTART - 1)
      return before substr(text, memory)
    }
    # Where the only match begins, 0 without one, -1 with several.
    function only(text, pattern,  at) {
      if (!match(text, pattern)) return 0
      at = RSTART
      return match(substr(text, at + 1), pattern) ? -1 : at
    }'
}

# node_lines: NAME, STATE, time of the reason, reason, with tabs between; "-" where there is none.
node_lines() {
  vouched_nodes | awk '
    BEGIN {
      free = "(Reason|Comment|Extra|InstanceId|InstanceType|ReservationName|TLSCertTokenSet|TLSCertLastRenewal|Topology|Parameters)="
      behind = "^ " free
    }
    {
      line = $0
      tail = ""
      if (match(line, " " free)) { tail = substr(line, RSTART); line = substr(line, 1, RSTART - 1) }
      state = "-"
      n = split(line, words, " ")
      for (i = n; i > 0; i--) if (words[i] ~ /^State=./) state = substr(words[i], 7)
      # A star behind a state: the node does not answer.
      if (gsub(/[*]/, "", state)) state = state "+NOT_RESPONDING"
      when = "-"
      reason = ""
      if (tail ~ /^ Reason=/) reason_of(substr(tail, 9))
      gsub(/\t/, " ", reason)
      print substr($1, 10) "\t" state "\t" when "\t" (reason == "" ? "-" : reason)
    }
    # TEXT [USER@TIME], then further lines of the reason behind spaces, or other fields, or nothing.
    function reason_of(text,  from, rest, sign) {
      reason = text
      if (match(text, " " free)) reason = substr(text, 1, RSTART - 1)
      sub(/ +$/, "", reason)
      for (from = 1; match(substr(text, from), / \[[^][@ ]*@[^][ ]*\]/); from += RSTART + RLENGTH - 1) {
        rest = substr(text, from + RSTART + RLENGTH - 1)
        if (rest !~ /^ *$/ && rest !~ /^    / && rest !~ behind) continue
        reason = substr(text, 1, from + RSTART - 2)
        sign = substr(text, from + RSTART - 1, RLENGTH)
        when = substr(sign, index(sign, "@") + 1)
        sub(/\]$/, "", when)
        if (rest ~ /^    /) {
          if (match(rest, " " free)) rest = substr(rest, 1, RSTART - 1)
          gsub(/^ +| +$/, "", rest)
          if (rest != "") reason = reason " " rest
        }
        return
      }
    }'
}

# node_states: lines NAME STATE, as IDLE+DRAIN.
node_states() { node_lines | cut -f 1,2 | tr '\t' ' '; }

# drained_nodes: lines NAME TIME REASON of those with the flag DRAIN; "-" for a time or reason that is not known.
drained_nodes() {
  node_lines | awk -F '\t' 'index("+" $2 "+", "+DRAIN+") { print $1, $3, $4 }'
}

# nodes_unanswered: as node_states, those whose slurmd does not answer slurmctld.
nodes_unanswered() {
  node_states | awk '("+" $2 "+") ~ /[+](NOT_RESPONDING|NO_RESPOND)[+]/'
}

# nodes_not_drained: names of those without the flag DRAIN.
nodes_not_drained() {
  node_states | awk '!index("+" $2 "+", "+DRAIN+") { print $1 }'
}

# nodes_to_drain: as node_states, those that a drain is for: up, and neither people, a reboot nor power saving at work on them
# (serviced in slurm/states/node_flags.toml).
nodes_to_drain() {
  node_states | awk '("+" $2 "+") !~ /[+](DOWN|ERROR|FUTURE|MAINT|MAINTENANCE|REBOOT_ISSUED|REBOOT_REQUESTED|POWER[A-Z_]*)[+]/'
}

# nodes_silent: as node_states, those whose slurmd is not registered and answering, or whose machine goes or comes: the
# flags that slurm/states/nodes.py calls broken or powered, but for FAIL.
nodes_silent() {
  node_states | awk '("+" $2 "+") ~ /[+](NOT_RESPONDING|NO_RESPOND|INVALID|INVALID_REG|POWER_DOWN|POWERED_DOWN|POWERING_DOWN|POWERING_UP|REBOOT_REQUESTED|REBOOT_ISSUED)[+]/'
}

# nodes_idle: as node_states, those where a job starts now: idle, and with no flag but of how they came to be (as
# sinfo's word "idle"; --states=idle lists drained nodes that run nothing too, seen with 24.11).
nodes_idle() {
  node_states | awk '$2 ~ /^IDLE([+](CLOUD|DYNAMIC_NORM|DYNAMIC_FUTURE))*$/'
}

# nodes_powered_off: as node_states, those whose machine Slurm has ended, or is ending.
nodes_powered_off() {
  node_states | awk '("+" $2 "+") ~ /[+](POWERED_DOWN|POWERING_DOWN)[+]/'
}

# nodes_down: as node_states, those that are down, unknown or for later, and not drained.
nodes_down() {
  node_states | awk '("+" $2 "+") ~ /^[+](DOWN|UNKNOWN|FUTURE)[+]/ && ("+" $2 "+") !~ /[+]DRAIN[+]/'
}

# node_versions: lines NAME VERSION, of the Slurm that each slurmd registered with.
node_versions() {
  awk '
    $1 !~ /^NodeName=./ { next }
    {
      version = "-"
      for (i = 2; i <= NF && $i !~ /^OS=/; i++) if (version == "-" && $i ~ /^Version=./) version = substr($i, 9)
      print substr($1, 10), version
    }'
}

# node_cpus: for each node the CPUs that jobs may use there.
node_cpus() {
  vouched_nodes | awk '{
    split("", value)
    for (i = 2; i <= NF; i++) { split($i, pair, "="); if (!(pair[1] in value)) value[pair[1]] = pair[2] }
    print (value["CPUEfctv"] ? value["CPUEfctv"] : value["CPUTot"]) + 0
  }'
}
