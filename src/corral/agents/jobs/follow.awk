# Follows a job: its state by squeue, its log files as they grow (src/corral/jobs/follow.py has the lines
# that it prints). POSIX awk: runs with mawk (Debian, Ubuntu), gawk and busybox. LC_ALL=C makes length()
# count bytes.
#
# Installed as: nowhere: it is an argument of awk on the controller
# Started by: corral (jobs/control, jobs/follow), which follows a job, and the page
# Runs as: the job's user
function squeue(   line, got, part, key) {
  got = ""
  while ((ask | getline line) > 0) if (got == "") got = line
  close(ask)
  asked = 0
  if (got ~ /Invalid job id/) { state = "GONE"; return }
  if (split(got, part, mark) < fields) {
    if (got != shown) print "w " got
    shown = got
    return
  }
  state = part[at[1]]
  if (state == "PENDING") first = ""  # starts again: who failed before is past
  key = state "|" part[at[2]] "|" part[at[3]] "|" part[at[4]]
  if (key != shown) print "s " got
  shown = key
}
function name(log_) { return log_ == "b" ? "batch.log" : "rank-" log_ ".log" }
function drain(log_, last,   want, got, line, cmd) {
  want = size[log_] - off[log_]
  if (want <= 0) return
  cmd = "tail -c +" (off[log_] + 1) " " name(log_) " | head -c " want
  got = 0
  while ((cmd | getline line) > 0) {
    got += length(line) + 1
    if (got > want && !last) { got += bar(log_, line) - length(line) - 1; break }
    if (skip[log_]) { skip[log_] = 0; continue }
    if (log_ == "b") batch(line)
    else print "o " log_ " " line
  }
  close(cmd)
  off[log_] += got
  print "p " log_ " " off[log_]
}
# A bar writes no line feed for hours: its pieces are printed as they come, and the last one is read
# again until it ends. Gives how many bytes are done with.
function bar(log_, line,   part, n) {
  n = split(line, part, "\r")
  if (n < 2 || log_ == "b") return 0
  print "r " log_ " " (part[n] == "" ? part[n - 1] : part[n])
  return length(line) - length(part[n])
}
function use(   line, cmd, rows) {
  while ((steps | getline line) > 0) { print "u " line; rows++ }
  close(steps)
  if (!rows) print "u -"
  if (folder == "") return
  # Fresh ones alone: a job that was requeued has those of its last run (seen).
  cmd = "find . -maxdepth 1 -name 'gpus-[0-9]*' ! -name '*.new' -newermt '-60 seconds'"
  cmd = cmd " -exec cat {} + 2>/dev/null; : > followed"
  while ((cmd | getline line) > 0) print "g " line
  close(cmd)
}
function poll(nap,   cmd, line, part, log_) {
  cmd = "sleep " nap
  if (folder != "") cmd = cmd "; wc -c batch.log rank-*.log ended 2>/dev/null"
  while ((cmd | getline line) > 0) {
    split(line, part, " ")
    log_ = part[2]
    if (log_ == "ended") ended = 1
    else if (log_ == "batch.log") size["b"] = part[1] + 0
    else if (log_ ~ /^rank-[0-9]+[.]log$/) {
      gsub(/[^0-9]/, "", log_)
      if (!(log_ in size)) { seen++; order[seen] = log_ }
      size[log_] = part[1] + 0
    }
  }
  close(cmd)
}
# srun: error: node[1-2]: tasks 1-2: Exited with exit code 1
function batch(line,   part) {
  held[++holding] = line
  if (first != "" || line !~ /^srun: error: [^ ]+: tasks? [0-9]/) return
  split(line, part, /: |: tasks? /)
  first = part[4]; nodes = part[3]; how = line
  sub(/.*: tasks? [^:]*: */, "", how)
  print "f " first " " nodes " " how
  sub(/[^0-9].*/, "", first)
}
function drain_all(last,   i, log_) {
  if (quiet) return
  if (once) for (log_ in size) if (size[log_] - off[log_] > limit) {
    off[log_] = size[log_] - limit; skip[log_] = 1
  }
  holding = 0
  drain("b", last)
  if (first != "") drain(first, last)
  for (i = 1; i <= seen; i++) if (order[i] != first) drain(order[i], last)
  for (i = 1; i <= holding; i++) print "b " held[i]
}
BEGIN {
  ask = ENVIRON["ask"]; mark = ENVIRON["mark"]
  fields = split(ENVIRON["at"], at, " ") ? at[5] : 0
  folder = ENVIRON["folder"]; steps = ENVIRON["steps"]
  going = "^(" ENVIRON["going"] ")$"; quiet = ENVIRON["quiet"]; once = ENVIRON["once"]
  limit = ENVIRON["limit"]; n = split(ENVIRON["offsets"], from, " ")
  for (i = 1; i <= n; i++) { split(from[i], part, ":"); off[part[1]] = part[2] + 0 }
  squeue()
  alive = 0
  while (!once && (state ~ going || state == "")) {
    # Who waits for a short job, or for the end, waits for this nap; hours of training do not.
    nap = ended && ending < 2 ? 0.05 : followed < 30 && !ended ? 0.1 : 0.25
    poll(nap)
    asked += nap; alive += nap
    if (seen) followed += nap
    if (ended) ending += nap
    drain_all(0)
    if (alive >= 5) {
      print "h"; alive = 0; beat++
      if (beat % 2 && ran && state == "RUNNING" && !quiet) use()
    }
    fflush()
    # After the batch script's end only slurmctld's word is missing: it comes within a moment, but where
    # an epilog holds the node.
    # The first log reports that the job runs: asked once then, and not before the usual time again.
    if (seen && !ran) { ran = 1; squeue(); if (!quiet) system(": > followed") }
    else if (asked >= (ended ? (ending < 2 ? 0.1 : 1) : state == "PENDING" ? 1 : 2)) squeue()
    if (state == "PENDING") ended = ending = 0
  }
  poll(0)
  drain_all(1)
  fflush()
}
