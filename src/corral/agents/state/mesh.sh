#!/bin/sh
# Functions that put the mesh's client on a machine and take the machine into a tailnet. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/network/mesh)
# Runs as: root
# shellcheck source=src/corral/agents/state/files.sh
. state/files.sh #include
# shellcheck source=src/corral/agents/tailnet-status.sh
. tailnet-status.sh #include

# mesh_program_probe PATH NOTE: its digest; of a file that is as Corral left it the noted one: it has 30 MB.
mesh_program_probe() (
  [ -f "$1" ] || exit 0
  if IFS= read -r noted <"$2" && [ "${noted#* }" = "$(stat -c '%s %Y' "$1")" ]; then
    echo "${noted%% *}"
  else
    sha256sum <"$1" | cut -d' ' -f1
  fi
)

# mesh_program_receive PATH NOTE DIGEST
mesh_program_receive() (
  umask 022
  mkdir -p "${1%/*}" "${2%/*}" && from_input >"$1.new" && chmod 755 "$1.new" &&
    printf '%s  %s\n' "$3" "$1.new" | sha256sum -c --quiet && mv -f "$1.new" "$1" &&
    printf '%s %s\n' "$3" "$(stat -c '%s %Y' "$1")" >"$2"
)

# mesh_probe JOINED: state, control server, who brought it in ("corral" where the file JOINED is), tags.
mesh_probe() (
  who=owner
  [ ! -e "$1" ] || who=corral
  tailnet_status | awk -v who=$who '
    !($1 in first) { first[$1] = $2 }
    $1 == "tag" && !($2 in tags) { tags[$2]; all = all (all ? "," : "") $2 }
    END {
      print first["BackendState"] ? first["BackendState"] : "absent", first["server"] ? first["server"] : "-",
        who, all ? all : "-"
    }'
)

# mesh_up SECONDS NAME OPTION...: of tailscale up.
mesh_up() (
  limit=$1 name=$2
  shift 2
  timeout $((limit + 10)) tailscale up --reset --hostname="$name" --accept-dns=false --accept-routes=false \
    --timeout="${limit}s" "$@" >&2
)

# mesh_udp: "yes" or "no", whether it reaches others by UDP.
mesh_udp() {
  case $(timeout 20 tailscale netcheck --format=json 2>/dev/null | sed -n 's/^[[:space:]]*"UDP": \([a-z]*\),*$/\1/p') in
    true) echo yes ;;
    false) echo no ;;
    *) echo unknown ;;
  esac
}

# mesh_join JOINED SECONDS NAME OPTION...: with a key that comes on standard input, in a file for root alone.
mesh_join() (
  joined=$1
  shift
  umask 077
  key=$(mktemp /run/corral-mesh.XXXXXX) || exit 1
  trap 'rm -f "$key"' EXIT
  from_input >"$key" || exit 1
  i=0
  until [ -S /run/tailscale/tailscaled.sock ] || [ $i -ge 100 ]; do
    i=$((i + 1))
    sleep 0.2
  done
  mesh_up "$@" --auth-key="file:$key" || {
    status=$?
    timeout 5 tailscale status >&2
    exit $status
  }
  mkdir -p "${joined%/*}" && mesh_udp >"$joined"
)
