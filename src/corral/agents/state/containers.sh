#!/bin/sh
# Functions that install Enroot and compile Pyxis. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (inspect/machine, inspect/rules, state/system/enroot)
# Runs as: root
# shellcheck source=src/corral/agents/state/nvidia.sh
. state/nvidia.sh #include

# get NAME...: slim images leave headers out of every package (dpkg.cfg's path-exclude).
get() {
  DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get install -y -q --no-install-recommends \
    -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold \
    -o 'Dpkg::Options::=--path-include=/usr/include/*' "$@" >&2
}
get_or_update() { get "$@" || { apt_update && get "$@"; }; }

# enroot_probe FILE...: lines "wanted NAME VERSION" of these, and "installed NAME VERSION".
enroot_probe() (
  for file in "$@"; do
    [ -e "$file" ] || continue
    # shellcheck disable=SC2046 # its two lines on one
    echo wanted $(dpkg-deb -f "$file" Package Version | sed 's/.*: //')
  done
  dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' enroot enroot+caps 2>/dev/null || :
)

# enroot_install FILE...: AppArmor before 4.0 cannot read the package's profile, and logs it at each boot.
enroot_install() (
  profile=/etc/apparmor.d/enroot off=/etc/apparmor.d/disable
  get_or_update --allow-downgrades "$@" || exit 1
  apparmor_parser -QT $profile 2>/dev/null || [ ! -e $profile ] ||
    { mkdir -p $off && ln -sf $profile $off/enroot; } || :
)

# nobody_unshares: whether users may make a user namespace. As nobody: root may where users may not.
nobody_unshares() { runuser -u nobody -- timeout 10 unshare -Ur true; }

# userns_probe: "yes", or the settings that may forbid user namespaces.
userns_probe() (
  if nobody_unshares 2>/dev/null; then
    echo yes
    exit
  fi
  for key in user/max_user_namespaces kernel/unprivileged_userns_clone kernel/apparmor_restrict_unprivileged_userns; do
    [ ! -e "/proc/sys/$key" ] || echo "$key $(cat "/proc/sys/$key")"
  done
)

# sysctl_write FILE TEXT
sysctl_write() { printf %s "$2" >"$1" && sysctl -q -p "$1"; }

# pyxis_source DIGEST: what a plugin is made from: Slurm refuses one of any other maintenance release.
pyxis_source() { echo "$1 $(sinfo -V)"; }

# pyxis_probe PLUGIN STAMP DIGEST: "current", or what it was made from.
pyxis_probe() {
  if [ ! -s "$1" ]; then
    echo absent
  elif [ "$(cat "$2" 2>/dev/null)" = "$(pyxis_source "$3")" ]; then
    echo current
  else
    echo "made from $(cat "$2" 2>/dev/null)"
  fi
}

# pyxis_make PLUGIN STAMP DIGEST SOURCE LIKE HEADERS TOOL...: with the headers of the package LIKE's version, and of
# no other: Slurm would refuse what is compiled against that.
pyxis_make() (
  plugin=$1 stamp=$2 digest=$3 source=$4 like=$5 headers=$6
  shift 6
  version=$(dpkg-query -W -f '${Version}' "$like") || exit 1
  get_or_update "$@" "$headers=$version" || {
    echo "no $headers $version is available, which Pyxis is compiled against: the headers of this Slurm" >&2
    exit 1
  }
  folder=$(mktemp -d) || exit 1
  trap 'rm -rf "$folder"' EXIT
  tar -xf "$source" -C "$folder" --strip-components=1 && make -s -C "$folder" >&2 && mkdir -p "${plugin%/*}" &&
    install -m 644 "$folder/spank_pyxis.so" "$plugin.new" && mv -f "$plugin.new" "$plugin" &&
    pyxis_source "$digest" >"$stamp"
)
