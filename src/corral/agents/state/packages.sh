#!/bin/sh
# Functions that install and hold packages of apt, and bring them as files. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (apply/readiness, state/packages, state/pyenv)
# Runs as: root
# shellcheck disable=SC2046,SC2086,SC2317 # lists of package names, which hold no spaces, and of apt's options; what a trap calls
# shellcheck source=src/corral/agents/state/files.sh
. state/files.sh #include
# shellcheck source=src/corral/agents/slurm-nodes.sh
. slurm-nodes.sh #include

# installed NAME...: all of them.
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null | grep -cx installed)" -ge $# ]; }

# missing NAME...: those that are not installed, one a line.
missing() { for package in "$@"; do installed "$package" || echo "$package"; done; }

# apt_update
apt_update() { apt-get update -q -o DPkg::Lock::Timeout=300 >&2; }

# apt_update_once: only where apt has read no list yet.
apt_update_once() {
  command -v apt-get >/dev/null || return 0
  for list in /var/lib/apt/lists/*Release; do [ ! -s "$list" ] || return 0; done
  echo read
  apt_update
}

# without_starts COMMAND...: no package starts a service. policy-rc.d 101: slurmd must not start before its
# configuration is there (Debian Policy 9.3.3.1, invoke-rc.d(8)); needrestart would restart it as well.
without_starts() (
  export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
  policy=/usr/sbin/policy-rc.d
  [ -e $policy ] || {
    printf '#!/bin/sh\n# corral\nexit 101\n' >$policy
    chmod 755 $policy
  }
  clean() { grep -qx '# corral' $policy 2>/dev/null && rm -f $policy; }
  trap clean EXIT
  "$@"
)

# packages_install NAME... -- ALONG...: the first where one is missing, and with them what is missing of the second.
packages_install() (
  names=
  while [ "$1" != -- ]; do
    names="$names $1"
    shift
  done
  shift
  ! installed $names || exit 0
  # One that is there already is not named: apt would bring it to a newer version.
  without_starts packages_get "$names" $(missing "$@")
)

# packages_get NAMES MORE...: dpkg --configure -a fixes what a power cut left; what was unpacked before what
# it depends on, only apt-get -f does. Held ones too: Corral holds what it installs. A configuration file that
# the owner has there already stays: dpkg would ask.
packages_get() {
  names=$1
  shift
  get() {
    apt-get install -y -q --no-install-recommends --allow-change-held-packages -o DPkg::Lock::Timeout=300 \
      -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold -f $names "$@"
  }
  { dpkg --force-confdef --force-confold --configure -a || :; } &&
    { get "$@" || { apt_update && { get "$@" || get; }; }; } >&2
}

# node_pause REASON: it takes no new jobs. A node that somebody drained keeps its reason; one that Slurm
# does not know has no jobs.
node_pause() (
  node=$(uname -n)
  if shown=$(timeout 30 scontrol -o show node "$node" 2>/dev/null) && ! printf '%s\n' "$shown" | drained_nodes | grep -q .; then
    timeout 30 scontrol update "NodeName=$node" State=DRAIN "Reason=$1" >&2
  fi
)

# slurm_install SLURMS FAMILY TARGET... -- MORE...: one apt run, refused when it would remove anything but what
# the pattern SLURMS matches. TARGET are NAME=VERSION, and NAME- of another family: apt keeps what conflicts
# with none of those. Of MORE, NAME=VERSION of the same set, those come that the machine has already:
# Slurm may need newer libraries, which break others of the same build (libpmix2t64 and libhwloc15, seen).
slurm_install() (
  slurms=$1 family=$2 targets='' more=''
  shift 2
  while [ "$1" != -- ]; do
    targets="$targets $1"
    shift
  done
  shift
  for package in "$@"; do
    ! installed "${package%%=*}" || more="$more $package"
  done
  [ "$family" != schedmd ] || more="$more $(distribution_library)"
  without_starts slurm_get "$slurms" $targets $more
)

# distribution_library: apt's words that remove Debian's libslurm when SchedMD's Slurm comes: slurm-smd brings
# the same files when both are of one release, and does not name a conflict (24.11.5, seen). apt removes it
# after unpacking, so dpkg must be allowed to overwrite the files.
distribution_library() (
  library=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'libslurm[0-9]*' 2>&1 | sed -n 's/^installed \(.*\)/\1-/p')
  [ -z "$library" ] || echo "$library -o Dpkg::Options::=--force-overwrite"
)

# slurm_get SLURMS TARGET...: slim images leave headers out (dpkg.cfg's path-exclude): Pyxis wants Slurm's.
slurm_get() {
  slurms=$1
  shift
  targets=$*
  apt() {
    apt-get "$@" -q --no-install-recommends --allow-change-held-packages -o DPkg::Lock::Timeout=300 \
      -o Dpkg::Options::=--force-confold -o 'Dpkg::Options::=--path-include=/usr/include/*' -f $targets
  }
  dpkg --configure -a >&2 || :
  simulated=$(apt install -s) || { apt_update && simulated=$(apt install -s); } || return 1
  removed=$(printf '%s\n' "$simulated" | sed -n 's/^Remv \([^ ]*\).*/\1/p' | grep -vxE "$slurms" || :)
  [ -z "$removed" ] || {
    echo "apt would remove" $removed >&2
    return 1
  }
  apt install -y >&2
}

# packages_free PATTERN...: names of those that are installed and not held.
packages_free() {
  dpkg-query -W -f '${db:Status-Want} ${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    awk '$1 != "hold" && $2 == "installed" { print $3 }' | sort -u
}

# packages_hold PATTERN...
packages_hold() (
  free=$(packages_free "$@")
  [ -z "$free" ] || apt-mark hold $free >&2
)

# debs_probe FOLDER SOURCES: "complete" when all files and their index are there and apt reads them.
debs_probe() (
  if cd "$1" && [ -s Packages ] && sha256sum -c --quiet --status SHA256SUMS && grep -qsF "$1" "$2"; then
    echo complete
  else
    echo absent
  fi
)

# files_receive SUMS FILE...: from standard input into this folder, with their digests in a file SHA256SUMS.
files_receive() (
  sums=$1
  shift
  for file in "$@"; do
    from_input >"$file" || exit 1
  done
  printf %s "$sums" >SHA256SUMS && sha256sum -c --quiet SHA256SUMS
)

# deb_index FILE...: as apt reads it in a file Packages.
deb_index() (
  for file in "$@"; do
    dpkg-deb -f "$file" >.c && [ -s .c ] && cat .c &&
      printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" \
        "$(sha256sum <"$file" | cut -d' ' -f1)" || exit 1
  done
  rm -f .c
)

# debs_receive FOLDER SOURCES LINE SUMS FILE...: other sets of Corral go: they would be offered by nobody and
# fill the disk.
debs_receive() (
  folder=$1 sources=$2 line=$3 sums=$4
  shift 4
  umask 022
  rm -rf "$folder.new" && mkdir -p "$folder.new" && cd "$folder.new" && files_receive "$sums" "$@" &&
    deb_index "$@" >Packages && chmod 755 . && cd / || exit 1
  for other in "${folder%/*}"/*; do
    [ "$other" = "$folder.new" ] || rm -rf "$other"
  done
  mv "$folder.new" "$folder" && mkdir -p "${sources%/*}" &&
    printf '%s\n' '# Written by Corral.' "$line" >"$sources.corral" && mv -f "$sources.corral" "$sources" &&
    apt-get update -q -o DPkg::Lock::Timeout=300 -o Dir::Etc::sourcelist="$sources" \
      -o Dir::Etc::sourceparts=/dev/null -o APT::Get::List-Cleanup=0 >&2
)

# python_make FOLDER DIGEST SUMS WHEEL...: an environment of these wheels, which come on standard input.
# --without-pip: Debian keeps ensurepip in a separate package (python3-venv), and a wheel of pip runs as it is.
# --no-deps: the lock is complete, and pip need not think about it.
python_make() (
  folder=$1 digest=$2 sums=$3
  shift 3
  umask 022
  rm -rf "$folder" && mkdir -p "$folder/wheels" && cd "$folder/wheels" && files_receive "$sums" "$@" &&
    cd / && python3 -m venv --without-pip "$folder" || exit 1
  set -- "$folder"/wheels/pip-*.whl
  "$folder/bin/python" "$1/pip" --disable-pip-version-check --no-input install --quiet --no-index --no-deps \
    --no-cache-dir --root-user-action=ignore "$folder"/wheels/*.whl && rm -rf "$folder/wheels" &&
    printf '%s\n' "$digest" >"$folder/.corral.new" && mv -f "$folder/.corral.new" "$folder/.corral"
)
