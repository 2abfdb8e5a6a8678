#!/bin/sh
# Functions for what an NVIDIA driver needs around its packages. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/system/nvidia)
# Runs as: root
# shellcheck disable=SC2086,SC2046 # lists of package names
# shellcheck source=src/corral/agents/state/files.sh
. state/files.sh #include
# shellcheck source=src/corral/agents/state/packages.sh
. state/packages.sh #include

# apt_get OPTION... NAME...
apt_get() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends --allow-change-held-packages \
    -o DPkg::Lock::Timeout=300 "$@" >&2
}

# archives COMPONENTS: lines for apt with these of each archive whose component main is in use. indextargets reads both styles of source
# files (apt-get(8)); a Signed-By that is a key itself has line breaks, which a one-line source cannot hold.
archives() {
  # shellcheck disable=SC2016 # apt's own variables
  apt-get indextargets --format '$(COMPONENT)|$(SIGNED_BY)|$(REPO_URI)|$(RELEASE)' 'Created-By: Packages' | sort -u |
    while IFS='|' read -r component key address release; do
      [ "$component" = main ] || continue
      case $key in /*) options="[signed-by=$key] " ;; *) options= ;; esac
      echo "deb $options$address $release $1"
    done
}

# components_add FILE PACKAGE NAME...: of the archives in use; apt offers the package then.
components_add() (
  file=$1 package=$2
  shift 2
  new=$(mktemp "$file.XXXXXX") && archives "$*" >"$new" && [ -s "$new" ] && chmod 644 "$new" &&
    mv -f "$new" "$file" && apt_update &&
    LC_ALL=C apt-cache policy "$package" | grep -q 'Candidate: [0-9]'
)

# keyring_install FILE: a package with a repository's address and key.
keyring_install() {
  DEBIAN_FRONTEND=noninteractive dpkg -i "$1" >&2 && rm -f "$1" && apt_update
}

# keyring_fetch MACHINE WHY FILE ADDRESS SUM: by apt's own helper, which checks the digest.
keyring_fetch() {
  is_machine "$1" "$2" && /usr/lib/apt/apt-helper download-file "$4" "$3" "$5" >&2 && keyring_install "$3"
}

# keyring_copy MACHINE WHY FILE PATH
keyring_copy() { is_machine "$1" "$2" && cp "$4" "$3" && keyring_install "$3"; }

# headers_probe: of the kernel that runs.
headers_probe() { if [ -e "/lib/modules/$(uname -r)/build" ]; then echo present; else echo absent; fi; }

# headers_install: of the running kernel, and the metapackage with each kernel's one. linux-image-generic is a
# metapackage, linux-image-6.8.0-149-generic a kernel: a new kernel without headers would boot without a driver.
headers_install() (
  metas=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'linux-image-*' 2>/dev/null |
    sed -n 's/^installed linux-image-\([a-z].*\)$/linux-headers-\1/p' | grep -v unsigned)
  apt_get "linux-headers-$(uname -r)" $metas || { apt_update && apt_get "linux-headers-$(uname -r)" $metas; }
)

# driver_version: of the installed libraries, whatever flavour of packages brought them; "" for none.
driver_version() (
  library=$(readlink -f /usr/lib/*-linux-gnu/libnvidia-ml.so.1 | head -n 1)
  echo "${library##*.so.}"
)

# part_names PACKAGE: it, and its name without the driver's branch, which NVIDIA left out from some branch on.
part_names() {
  echo "$1"
  case $1 in *-[0-9]*) echo "${1%-*}" ;; esac
}

# part_probe PACKAGE: lines "driver VERSION" and "part VERSION", upstream's part of each.
part_probe() (
  echo "driver $(driver_version)"
  for name in $(part_names "$1"); do
    part=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$name" 2>/dev/null)
    case $part in
      "installed "*)
        part=${part#installed }
        echo "part ${part%%-*}"
        break
        ;;
    esac
  done
)

# part_install PACKAGE [UNIT]: at the driver's version; its unit starts with the machine.
part_install() (
  driver=$(driver_version)
  for name in $(part_names "$1"); do
    version=$(LC_ALL=C apt-cache madison "$name" | awk -F' *[|] *' -v d="$driver" 'index($2, d "-") == 1 { print $2; exit }')
    [ -z "$version" ] || break
  done
  [ -n "$version" ] || {
    echo "no source offers $1 of version $driver" >&2
    exit 1
  }
  apt_get --allow-downgrades "$name=$version" && if [ $# -gt 1 ]; then systemctl enable -q "$2"; fi
)

# reboot_required_by_driver: "driver:LOADED:INSTALLED" where they differ, "nouveau" where that is loaded in its place.
reboot_required_by_driver() (
  installed=$(driver_version)
  case $installed in
    [0-9]*.*)
      loaded=$(cat /sys/module/nvidia/version) || loaded=none
      [ "$installed" = "$loaded" ] || echo "driver:$loaded:$installed"
      [ ! -d /sys/module/nouveau ] || echo nouveau
      ;;
  esac
)
