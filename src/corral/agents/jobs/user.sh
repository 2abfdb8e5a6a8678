#!/bin/sh
# Functions for a user's jobs: their files on shared storage, their progress, their logs. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (api/page/job_details, api/page/job_environments, api/page/job_resubmission, api/page/job_templates,
#   api/workload/notebook, inspect/jobs, inspect/slurm, inspect/storage, jobs/arrays, jobs/batch/environment, jobs/batch/image_import,
#   jobs/control, jobs/datasets, jobs/explanation, jobs/follow, jobs/function/answer, jobs/profile/recordings, jobs/upload/archive,
#   jobs/upload/user_folder), and the page
# Runs as: the user, or root for a user
# shellcheck source=src/corral/agents/folder-checks.sh
. folder-checks.sh #include
# shellcheck source=src/corral/agents/user-folders.sh
. user-folders.sh #include

# array_watch ID FORMAT GOING SECONDS: lines "q ROW" of all parts and then ".", each time they change; "h" after each pause;
# until none matches the pattern GOING. One squeue for all parts; pending parts share one line of it.
# SLURM_BITSTR_LEN=0: their numbers are not cut off after 64 characters.
array_watch() (
  export SLURM_BITSTR_LEN=0 SLURM_TIME_FORMAT=%s
  before=
  while :; do
    now=$(squeue --noheader --states=all --jobs="$1" --format="$2" 2>&1)
    case $now in *'Invalid job id'*) exit 0 ;; esac
    [ "$now" = "$before" ] || {
      printf '%s\n' "$now" | sed 's/^/q /'
      echo .
      before=$now
    }
    printf '%s\n' "$now" | grep -qE "$3" || exit 0
    sleep "$4"
    echo h
  done
)

# array_queue ID FORMAT: the same once.
array_queue() { SLURM_BITSTR_LEN=0 squeue --noheader --states=all --jobs="$1" --format="$2" 2>/dev/null | sed 's/^/q /'; }

# array_lines FOLDER: the last line of each part's first rank.
array_lines() (
  cd "$1" || exit 4
  for log in task-*/rank-0.log; do
    [ -s "$log" ] || continue
    number=${log#task-}
    printf '%s ' "${number%/*}"
    tail -c 500 "$log" | tail -n 1 | tr -d '\n'
    echo
  done
)

# array_ends FOLDER: exit status of each part that has ended.
array_ends() (
  cd "$1" || exit 4
  for file in task-*/ended; do
    number=${file#task-}
    [ ! -s "$file" ] || echo "${number%/*} $(cat "$file")"
  done
)

# job_follow FOLDER AWK SHOW ENDED NAME=VALUE...: the program follow.awk with these variables, and at its end the first line
# that the command SHOW prints and the last one of ENDED. FOLDER is "" for a job without one.
job_follow() (
  [ -z "$1" ] || cd "$1" || exit 4
  follow=$2 show=$3 ended=$4
  shift 4
  # shellcheck disable=SC2163 # NAME=VALUE
  export LC_ALL=C "$@"
  awk "$follow" || exit
  eval "$show" 2>/dev/null | head -n 1 | sed 's/^/c /'
  eval "$ended" 2>/dev/null | tail -n 1 | sed 's/^/a /'
  exit 0
)

# recordings_list FOLDER: size and name of what each rank recorded.
recordings_list() (
  cd "$1" 2>/dev/null || exit 0
  stat -c '%s %n' rank-* 2>/dev/null
  exit 0
)

# recording_read PATH BYTES: at most so many of a plain file, as base64: its user may put a link to /dev/zero or a FIFO there.
recording_read() (
  if [ ! -f "$1" ] || [ -L "$1" ]; then
    echo "no plain file" >&2
    exit 1
  fi
  timeout 300 head -c "$2" "$1" | base64 -w0
)

# answer_read FOLDER NAME BYTES: at most so many of FOLDER/NAME, as base64; nothing where it is not there. Who asks for it unpickles
# it, which may run code: folder and file are this user's, no links, and no other user may write to them.
answer_read() (
  cd "$1" || exit 1
  [ -e "$2" ] || [ -L "$2" ] || exit 0
  for path in . "$2"; do
    if [ -L "$path" ] || [ "$(stat -c %u "$path")" != "$(id -u)" ] || stat -c %A "$path" | grep -qE '^(.{5}|.{8})w'; then
      echo "$1/$path is a link or another user's, or others may write to it" >&2
      exit 1
    fi
  done
  recording_read "$2" "$3"
)

# notebook_place FOLDER PROGRAM OTHER: what the job's JupyterLab wrote about where it is, if it has; ends with OTHER where the job
# does not run PROGRAM. Its user may put a FIFO there.
notebook_place() (
  cd "$1" && [ -e "code/$2" ] || exit "$3"
  [ ! -f notebook.json ] || timeout 20 head -c 4096 notebook.json
)

# shards_kept FOLDER: size and description of each complete shard.
shards_kept() (
  cd "$1" 2>/dev/null || exit 0
  for about in .*.tar.json; do
    [ -s "$about" ] || continue
    tar=${about#.}
    tar=${tar%.json}
    [ ! -e "$tar" ] || echo "$(stat -c %s "$tar") $(tr -d '\n' <"$about")"
  done
)

# shard_put FOLDER NAME SUM SIZE DESCRIPTION: from standard input. The size comes first, so that a connection that breaks leaves
# no shard under its name.
shard_put() (
  side=.$2.json
  umask 022
  mkdir -p "$1" && cd "$1" && head -c "$4" >".$2.part" && printf '%s\n' "$3" | sha256sum -c --quiet - &&
    printf %s "$5" >"$side.new" && mv -f ".$2.part" "$2" && mv -f "$side.new" "$side"
)

# user_there USER FOLDER: "no-user", "no-storage", or nothing, and $there is set.
user_there() {
  there=
  if ! id -u "$1" >/dev/null 2>&1; then
    echo no-user
  elif [ ! -d "$2" ]; then
    echo no-storage
  else
    # shellcheck disable=SC2034 # what is asked after this reads it
    there=y
  fi
}

# paths_unread PATH...: those that this user cannot read, with the folder above that is there and what it holds. As the
# job's user: what root can read proves nothing. A folder must be entered, too.
paths_unread() (
  for path in "$@"; do
    [ -r "$path" ] && { [ ! -d "$path" ] || [ -x "$path" ]; } && continue
    above=$path
    until [ -d "${above:-/}" ]; do above=${above%/*}; done
    printf 'unread %s\nabove %s\n' "$path" "${above:-/}"
    # shellcheck disable=SC2012 # one a line
    ls -1 "${above:-/}" 2>/dev/null | head -n 500 | sed 's/^/name /'
  done
)

# contents_lacking STORE ALL: of the names on standard input; ALL where there is no store. xargs cuts the list into
# argument lists; `read` of dash takes a byte at a time.
contents_lacking() (
  cd "$1/blobs" 2>/dev/null || {
    cat >/dev/null
    echo "$2"
    exit 0
  }
  # shellcheck disable=SC2016 # the inner shell's own
  xargs sh -c 'for blob; do [ -e "$blob" ] || echo "$blob"; done' sh
)

# archive_unpack STORE USER_FOLDER NAME TOKEN: from standard input: contents to the store, files to the job's folder NAME. Contents
# come into their own folder and are checked there: a connection that broke, or a full disk, never leaves a wrong
# content under a right name. Their links in the job's folder stay valid when they are moved, as a link is to the
# content and not to the name. -f: another job of the user may have brought the same content meanwhile.
archive_unpack() (
  store=$1 user=$2 job=$2/$3 new=$1/$4
  umask 077
  mkdir -p "$store/blobs" && mkdir "$job" || exit 1
  drop() {
    rm -rf "$new" "$job"
    echo "$1" >&2
    exit 1
  }
  tar -C "$user" -xzf - || drop "the archive could not be unpacked"
  if [ -d "$new" ]; then
    (cd "$new/blobs" && sha256sum --quiet -c ../digests) || drop "a file is incomplete"
    cp -rlf "$new/blobs/." "$store/blobs/" || drop "the store could not be written"
    rm -rf "$new"
  fi
  chmod 0700 "$job"
)

# roof_guard MOUNT TOP KIND USER: fails where another user than this one could replace MOUNT/TOP/KIND.
roof_guard() (
  top=$1/$2 kind=$1/$2/$3
  if [ -e "$top" ] || [ -L "$top" ]; then
    held "$1" "$(id -u "$4")" && roots "$top" || exit 1
  fi
  if [ -e "$kind" ] || [ -L "$kind" ]; then roots "$kind" || exit 1; fi
)

# image_import_job FOLDER PARTITION MINUTES SCRIPT: a job of one task. Standard input is its own.
image_import_job() {
  command -v enroot >/dev/null || {
    echo 'enroot is not installed' >&2
    return 127
  }
  mkdir -p "$1" && srun -Q -J corral-image -p "$2" -N1 -n1 -t "$3" sh -c "$4"
}

# image_import PATH ADDRESS REGISTRY LOGIN HTTP COMMON: in that job; HTTP and COMMON are yes or no: without TLS; a folder of all
# users, where nobody may replace it. A key for the LOGIN ("" for none) comes on standard input: it is in a file of
# mode 600 on this node, in a separate folder, as long as the job runs.
image_import() (
  path=$1 part=${1%/*}/.corral-import.XXXXXXXXXX
  umask 077
  home=$(mktemp -d) || exit 1
  trap 'rm -rf "$home"' EXIT
  # shellcheck disable=SC2030 # for the program of this function alone
  export HOME="$home"
  if [ -n "$4" ]; then
    printf 'machine %s login %s password %s\n' "$3" "$4" "$(cat)" >"$home/.credentials" || exit 1
    export ENROOT_CONFIG_PATH="$home"
  fi
  [ "$5" = no ] || export ENROOT_ALLOW_HTTP=yes
  [ "$6" = no ] || held "${path%/*}" "$(id -u)" || exit 1
  folder=$(mktemp -d "$part") || exit 1
  trap 'rm -rf "$home" "$folder"' EXIT
  enroot import -o "$folder/image.sqsh" "$2" </dev/null || exit 1
  chmod 644 "$folder/image.sqsh" && mv -f -T "$folder/image.sqsh" "$path"
)

# job_extras FOLDER PROFILE ID RUNNING: MLflow's run, recordings, and, where RUNNING is yes, the environment of its first process
# that has Slurm's variables; /proc shows it to its owner alone.
job_extras() (
  if cd "$1" 2>/dev/null; then
    [ ! -r mlflow-run ] || printf 'run %s\n' "$(head -c 200 mlflow-run)"
    # shellcheck disable=SC2012 # one a line
    ls "$2" 2>/dev/null | sed 's/^/recording /'
  fi
  [ "$4" = yes ] || exit 0
  for process in $(timeout 10 scontrol listpids "$3" 2>/dev/null | sed -n 's/^\([0-9][0-9]*\) .*/\1/p'); do
    variables=$(tr '\n\0' ' \n' <"/proc/$process/environ" 2>/dev/null) || continue
    case $variables in *"SLURM_JOB_ID=$3"*)
      printf '%s\n' "$variables" | sed 's/^/env /'
      exit 0
      ;;
    esac
  done
)

# job_script ID LONGEST: its batch script, at most LONGEST bytes: slurmctld's, else accounting's. Nothing where neither has it;
# fails where one of them that may have it did not answer. scontrol (24.11) ends with status 0 in any case.
job_script() (
  unknown='' why=''
  text=$(timeout 20 scontrol write batch_script "$1" - 2>/dev/null) || unknown=1
  if [ -z "$text" ]; then
    [ -n "$unknown" ] || why=$(timeout 20 scontrol write batch_script "$1" - 2>&1 >/dev/null)
    case $why in *'Invalid job id'* | *'script not specified'* | *'script not found'*) ;; *) unknown=1 ;; esac
    kept=$(timeout 20 sacct --batch-script --jobs="$1" 2>&1)
    case $?:$kept in 0:* | *'storage is disabled'* | *'unrecognized option'*) ;; *) unknown=1 ;; esac
    # Of an array accounting has one for each task, all the same: the first.
    text=$(printf '%s\n' "$kept" | awk '
      /^--------+$/ && before ~ /^Batch Script for / { if (seen) { over = 1; exit } seen = 1; held = 0; next }
      seen && held { print before }
      { before = $0; held = 1 }
      END { if (seen && held && !over) print before }')
    [ "$text" != NONE ] || text=
  fi
  [ -z "$text" ] || unknown=
  printf '%s\n' "$text" | head -c "$2"
  [ -z "$unknown" ]
)

# job_program FOLDER PATH...: the first of them in the code that was uploaded with the job.
job_program() (
  cd "$1/code" 2>/dev/null || exit 0
  shift
  for path in "$@"; do
    [ -f "$path" ] && printf '%s/%s\n' "$(pwd -P)" "$path" && exit 0
  done
  exit 0
)

# templates_list MOUNT TOP KIND MOST LONGEST BYTES SECONDS ACCOUNT...: of each job file in MOUNT/TOP/KIND its name in base64 and its owner, and
# on the next line its text in base64 or its trouble; "more" where there are more than MOST. Folder and files must be root's, so
# that no user fills in others' forms. Then those of each account's team, in a folder of that name there; a team's files have
# BYTES together at most and are read for SECONDS, so that no team takes the others' place.
templates_list() (
  folder=$1/$2/$3 most=$4 longest=$5
  [ -e "$folder" ] || [ -L "$folder" ] || exit 0
  held "$1" 0 && roots "$1/$2" && roots "$folder" || exit 1
  if [ ! -r "$folder" ] || ! cd "$folder"; then
    echo "$folder cannot be read" >&2
    exit 1
  fi
  bytes=$6 seconds=$7
  templates_in template_trouble "$most" "$longest" $((most * longest)) 30
  shift 7
  for account; do
    team_templates "$account" "$most" "$longest" "$bytes" "$seconds"
  done
)

# templates_in TROUBLE MOST LONGEST BYTES SECONDS: the job files of the working folder that the function TROUBLE has nothing against.
templates_in() {
  count=0 total=0 until=$(($(date +%s) + $5))
  for file in ./*.yaml ./*.yml; do
    [ -e "$file" ] || [ -L "$file" ] || continue
    count=$((count + 1))
    if [ "$count" -gt "$2" ]; then
      echo more
      break
    fi
    # A file that goes meanwhile has no owner and no size: dash ends at an empty number in an expression.
    holder=$(stat -c %U "$file" 2>/dev/null) || continue
    printf 'file %s %s\n' "$(printf %s "${file#./}" | base64 -w0)" "$holder"
    if [ "$(date +%s)" -ge "$until" ]; then
      trouble="it is not read: the files before it take more than $5 s"
    else
      trouble=$("$1" "$file" "$3")
      size=$(stat -c %s "$file" 2>/dev/null) || size=0
      # Only files that are read count.
      if [ -z "$trouble" ] && [ $((total + size)) -gt "$4" ]; then
        trouble="it is not read: it and the files before it have more than $4 bytes"
      fi
      [ -n "$trouble" ] || total=$((total + size))
    fi
    if [ -n "$trouble" ]; then
      printf 'trouble %s\n' "$trouble"
    else
      # A pipe that comes in the place of a file meanwhile is not waited for.
      printf 'text %s\n' "$(timeout 2 head -c "$3" "$file" | base64 -w0)"
    fi
  done
}

# team_templates ACCOUNT MOST LONGEST BYTES SECONDS: those of an account's team, behind a line "team ACCOUNT" and, where none is taken, why.
# The folder is in root's, which nobody else can replace; root gives it to a user or a group, who alone may write there.
team_templates() (
  [ -e "$1" ] || [ -L "$1" ] || exit 0
  printf 'team %s\n' "$1"
  if [ -L "$1" ] || [ ! -d "$1" ]; then
    echo "closed it is not a plain folder"
  elif stat -c %A "$1" | grep -q '^........w'; then
    echo "closed others than its owner and group may write to it"
  elif [ ! -r "$1" ] || ! cd "./$1"; then
    echo "closed you may not read it"
  else
    # shellcheck disable=SC2030 # what is called below has them
    group=$(stat -c %g .) owner=$(stat -c %u .) shared=
    if stat -c %A . | grep -q '^.....w'; then shared=yes; fi
    templates_in team_trouble "$2" "$3" "$4" "$5"
  fi
)

# team_trouble FILE LONGEST: why it is not taken; $owner and $group are those of the folder, $shared is set where the group writes.
# shellcheck disable=SC2031 # those of team_templates
team_trouble() {
  if [ -L "$1" ] || [ ! -f "$1" ]; then
    echo "it is not a plain file"
  elif ! team_owns "$(stat -c %u "$1")" "$(stat -c %U "$1")"; then
    echo "it belongs to $(stat -c %U "$1"), who is not of the team"
  elif stat -c %A "$1" | grep -q '^........w'; then
    echo "others than the team may write to it"
  elif stat -c %A "$1" | grep -q '^.....w' && [ "$(stat -c %g "$1")" != "$group" ]; then
    echo "another group than the team's may write to it"
  elif [ ! -r "$1" ]; then
    echo "you may not read it"
  elif [ "$(stat -c %s "$1")" -gt "$2" ]; then
    echo "it is larger than $2 bytes"
  fi
}

# team_owns UID NAME: whether a file of this user is taken: root's, the folder's owner's, and where the group writes its members'.
# shellcheck disable=SC2031 # those of team_templates
team_owns() {
  [ "$1" != 0 ] && [ "$1" != "$owner" ] || return 0
  [ -n "$shared" ] && id -G "$2" 2>/dev/null | tr ' ' '\n' | grep -qx "$group"
}

# template_trouble FILE LONGEST: why it is not taken; nothing where it is.
template_trouble() {
  if [ -L "$1" ] || [ ! -f "$1" ]; then
    echo "it is not a plain file"
  elif [ "$(stat -c %u "$1")" != 0 ]; then
    echo "it belongs to $(stat -c %U "$1") and must be root's"
  elif stat -c %A "$1" | grep -qE '^(.{5}|.{8})w'; then
    echo "others than root may write to it"
  elif [ ! -r "$1" ]; then
    echo "you may not read it"
  elif [ "$(stat -c %s "$1")" -gt "$2" ]; then
    echo "it is larger than $2 bytes"
  fi
}

# environments_list MOST MOUNT...: lines "image PATH BYTES" and "python PATH", the paths in base64, of container images and Python
# environments (venv, uv, conda) in folders of these names, of the home that is on a mount and then of the mounts; "more" where
# there are more than MOST. No other folder is read: a mount may have any number of entries.
# shellcheck disable=SC2030,SC2031
environments_list() (
  most=$1 count=0
  shift
  for mount in "$@"; do
    case $HOME/ in
      "$mount"/*)
        environments_in "$HOME" .conda/envs miniconda3/envs miniforge3/envs anaconda3/envs
        break
        ;;
    esac
  done
  for mount in "$@"; do
    environments_in "$mount"
  done
)

# environments_within SECONDS LISTING: what that text prints in so many seconds; "more" where they were not enough.
environments_within() {
  within=0
  timeout "$1" sh -c "$2" || within=$?
  if [ "$within" = 124 ]; then
    echo more
  else
    return "$within"
  fi
}

# environments_in ROOT FOLDER...: what environments_list prints of the folders that are looked at anywhere, and of these.
environments_in() {
  root=$1
  shift
  for folder in images containers envs venvs "$@"; do
    for path in "$root/$folder"/*.sqsh "$root/$folder"/*/pyvenv.cfg "$root/$folder"/*/conda-meta; do
      environment_line "$path"
    done
  done
  environment_line "$root/.venv/pyvenv.cfg"
}

# environment_line PATH: of an image, or of what marks an environment.
# shellcheck disable=SC2031
environment_line() {
  case $1 in
    *.sqsh) [ -f "$1" ] && [ -r "$1" ] || return 0 ;;
    *) [ -e "$1" ] && [ -x "${1%/*}/bin/python" ] || return 0 ;;
  esac
  count=$((count + 1))
  if [ "$count" -gt "$most" ]; then
    echo more
    exit 0
  fi
  case $1 in
    *.sqsh) echo "image $(printf %s "$1" | base64 -w0) $(stat -Lc %s "$1")" ;;
    *) echo "python $(printf %s "${1%/*}" | base64 -w0)" ;;
  esac
}

# job_find ID MOUNT TOP KIND: its user, its folder, and its description, where Corral submitted it.
job_find() (
  user=$(squeue --noheader --states=all --jobs="$1" --format=%u 2>/dev/null | head -n 1)
  [ -n "$user" ] || user=$(sacct --noheader --allocations --jobs="$1" --format=User%64 2>/dev/null | awk 'END { print $1 }')
  [ -n "$user" ] || exit 0
  roof_guard "$2" "$3" "$4" "$user" || exit 1
  link=$2/$3/$4/$user/$1
  [ -L "$link" ] || exit 0
  echo "$user"
  readlink "$link"
  [ "$(id -u)" = 0 ] || exec cat "$link/job.json"
  exec setpriv --reuid="$(id -u "$user")" --regid="$(id -g "$user")" --init-groups cat "$link/job.json"
)

# environment_path BASE DIGEST: where the environment of these requirements is, for this machine's Python.
environment_path() (
  tag=$(python3 -c 'import sys, platform; print("py%d.%d-%s" % (*sys.version_info[:2], platform.machine()))' 2>/dev/null) &&
    echo "$1/$2-$tag"
)

# environment_ready BASE DIGEST NO_PYTHON: its path where it is complete; the marker is written last: one without it was cut off
# and is made again. Ends with NO_PYTHON where there is no Python.
environment_ready() (
  umask 022
  cd "$1" || exit 1
  environment=$(environment_path "$1" "$2") || exit "$3"
  [ ! -e "$environment/.complete" ] || echo "$environment"
)

# environment_make BASE DIGEST NO_PYTHON FAILED RUNNER SETTINGS SIZE LENGTH: on standard input come exports of SETTINGS bytes, which
# pip gets and may hold passwords, pip's zip of SIZE bytes and the requirements of LENGTH. venv without pip: Debian splits ensurepip off into python3-venv. Where the node has no
# pip (or one before 22.3, which knows no --python), this machine's own is used, by the program RUNNER.
environment_make() (
  base=$1 digest=$2 no_python=$3 failed=$4 runner=$5 settings=$6 size=$7 length=$8
  umask 022
  cd "$base" || exit 1
  environment=$(environment_path "$base" "$digest") || exit "$no_python"
  exec 9>"$environment.lock"
  flock -w 600 9 || {
    echo "another process has been making $environment for 10 minutes: try again, or end it" >&2
    exit 1
  }
  complete=$(environment_ready "$base" "$digest" "$no_python") || exit
  if [ -n "$complete" ]; then
    echo "$complete"
    exit
  fi
  rm -rf "$environment" "$environment.pip"
  eval "$(head -c "$settings")"
  head -c "$size" >"$environment.zip" && head -c "$length" >"$environment.txt" || exit 1
  python3 -m venv --without-pip "$environment" || exit "$no_python"
  if python3 -m pip --python "$environment/bin/python3" --version >/dev/null 2>&1; then
    set -- python3 -m pip --python "$environment/bin/python3"
  else
    python3 -m zipfile -e "$environment.zip" "$environment.pip" || exit "$no_python"
    set -- "$environment/bin/python3" -c "$runner" "$environment.pip"
  fi
  "$@" install --no-input --disable-pip-version-check --no-warn-script-location --progress-bar off \
    -r "$environment.txt" >&2 || {
    rm -rf "$environment" "$environment.zip" "$environment.pip"
    exit "$failed"
  }
  rm -rf "$environment.zip" "$environment.pip"
  mv "$environment.txt" "$environment/requirements.txt"
  : >"$environment/.complete"
  echo "$environment"
)

# variables_put: exports from standard input go into a file of this user's alone, in a folder of this user's alone; prints the
# folder. Of a session that never began they are removed by the next call, once they are an hour old.
variables_put() (
  umask 077
  find /tmp -maxdepth 1 -name 'corral-variables.*' -user "$(id -u)" -mmin +60 -exec rm -rf {} + 2>/dev/null
  folder=$(mktemp -d /tmp/corral-variables.XXXXXXXXXX) || exit 1
  if held "$folder" "$(id -u)" && cat >"$folder/variables"; then
    echo "$folder"
  else
    rm -rf "$folder"
    exit 1
  fi
)

# variables_take FOLDER: sets what variables_put wrote there, in this shell, and removes it.
variables_take() {
  if ! held "$1" "$(id -u)" || [ ! -r "$1/variables" ]; then
    echo "the variables of --env are not there any more: run the command again" >&2
    exit 1
  fi
  # shellcheck disable=SC1091 # of this session
  . "$1/variables"
  rm -rf "$1"
}

# job_submit STORE USER_FOLDER NAME TOKEN REFUSED TASK...: its archive comes on standard input. The link leads from Slurm's number
# to the folder, whose name had to be there before the number.
job_submit() (
  user=$2 folder=$2/$3 refused=$5
  archive_unpack "$1" "$2" "$3" "$4" && cd "$folder" || exit 1
  shift 5
  [ $# = 0 ] || mkdir -m 0700 "$@" || exit 1
  id=$(sbatch --parsable job.sh) || {
    person_of_directory "${user##*/}" >&2
    exit "$refused"
  }
  id=${id%%;*}
  ln -sfn "$folder" "../$id"
  echo "$id"
)

# programs_missing NAME...
programs_missing() (
  for name in "$@"; do command -v "$name" >/dev/null || echo "$name"; done
)
