#!/bin/sh
# Functions that make, copy and rotate secrets. POSIX sh.
#
# Keys pass through variables, pipes and shell builtins: they are in no argument list.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/secrets)
# Runs as: root
# shellcheck source=src/corral/agents/state/files.sh
. state/files.sh #include

# secret_probe PATH: digest (of random bytes: it reveals nothing), mode and owner.
secret_probe() {
  [ -s "$1" ] || { echo absent; return; }
  sum_read "$1"
  mode_read "$1"
  echo "$sum $mode"
}

# secret_place PATH OWNER MODE COMMAND...: what the command prints becomes the secret; nothing does not.
secret_place() (
  path=$1 owner=$2 mode=$3
  shift 3
  umask 077 && mkdir -p "${path%/*}" && new=$(mktemp "$path.corral.XXXXXX") && "$@" >"$new" &&
    [ -s "$new" ] && chown "$owner" "$new" && chmod "$mode" "$new" && mv -f "$new" "$path" &&
    rm -f "$path".corral.??????
)

# secret_make PATH OWNER MODE SIZE
secret_make() { secret_place "$1" "$2" "$3" head -c "$4" /dev/urandom; }

# secret_receive PATH OWNER MODE
secret_receive() { secret_place "$1" "$2" "$3" from_input; }

# cloud_key_probe PATH: the first 16 digits of the digest, mode and owner.
cloud_key_probe() {
  if [ -s "$1" ]; then
    sum=$(sha256sum <"$1")
    sum=${sum%% *}
    printf '%.16s %s\n' "$sum" "$(stat -c '%a %U' "$1")"
  else
    echo absent
  fi
}

# cloud_key_receive PATH: for root alone, as is its folder.
cloud_key_receive() (
  umask 077
  mkdir -p "${1%/*}" && chmod 700 "${1%/*}" && from_input >"$1.new" && [ -s "$1.new" ] &&
    chmod 600 "$1.new" && mv -f "$1.new" "$1"
)

# jwks_write FILE OWNER: standard input becomes the file.
jwks_write() { cat >"$1.corral" && chown "$2" "$1.corral" && chmod 600 "$1.corral" && mv -f "$1.corral" "$1"; }

# jwks_phase FILE: announced, promoted, rotated, foreign or none.
jwks_phase() (
  phase=$(sed -n '1s/.*"corral":"\([a-z]*\)".*/\1/p' "$1" 2>/dev/null)
  if [ -n "$phase" ]; then echo "$phase"; elif [ -e "$1" ]; then echo foreign; else echo none; fi
)

# jwks_announce FILE KEY OWNER: a new key in addition to the one that signs.
jwks_announce() (
  jwks=$1 key=$2 owner=$3
  umask 077
  case $(jwks_phase "$jwks") in
    announced | promoted) exit 0 ;;
    rotated)
      old=$(sed -n 's/"use":"default"//; s/,}$/}/; /"exp":/!s/^{"alg".*"kid":"\([^"]*\)","k":"\([^"]*\)".*/\1 \2/p' "$jwks")
      ;;
    none) old="$(sha256sum <"$key" | cut -c1-16) $(base64 -w0 <"$key")" ;;
    *)
      echo 'slurm.jwks was written by somebody else' >&2
      exit 1
      ;;
  esac
  # shellcheck disable=SC2086 # the key's name and the key
  set -- $old
  [ $# -eq 2 ] || exit 1
  new=$(head -c 256 /dev/urandom | base64 -w0)
  kid=$(printf %s "$new" | base64 -d | sha256sum | cut -c1-16)
  {
    echo '{"corral":"announced","keys":['
    printf '{"alg":"HS256","kty":"oct","kid":"%s","k":"%s","use":"default"},\n' "$1" "$2"
    printf '{"alg":"HS256","kty":"oct","kid":"%s","k":"%s"}\n' "$kid" "$new"
    echo ']}'
  } | jwks_write "$jwks" "$owner"
)

# jwks_promote FILE OWNER: the new key signs.
jwks_promote() (
  umask 077
  case $(jwks_phase "$1") in
    promoted | rotated) exit 0 ;;
    announced) ;;
    *) exit 1 ;;
  esac
  sed -e '1s/announced/promoted/' -e '2s/,"use":"default"//' -e '3s/}$/,"use":"default"}/' "$1" |
    jwks_write "$1" "$2"
)

# jwks_retire FILE KEY OWNER SECONDS: the old key ends after these; KEY becomes the new one.
jwks_retire() (
  jwks=$1 key=$2 owner=$3
  umask 077
  case $(jwks_phase "$jwks") in
    rotated) exit 0 ;;
    promoted) ;;
    *) exit 1 ;;
  esac
  end=$(($(date +%s) + $4))
  sed -n '3s/.*"k":"\([^"]*\)".*/\1/p' "$jwks" | base64 -d >"$key.corral" && [ -s "$key.corral" ] &&
    chown "$owner" "$key.corral" && chmod 600 "$key.corral" && mv -f "$key.corral" "$key" &&
    sed -e '1s/promoted/rotated/' -e "2s/},\$/,\"exp\":$end},/" "$jwks" | jwks_write "$jwks" "$owner"
)

# secret_replace PATH OWNER MODE SIZE: new random bytes in a file's place.
secret_replace() (
  umask 077
  head -c "$4" /dev/urandom >"$1.corral" && [ -s "$1.corral" ] && chown "$2" "$1.corral" &&
    chmod "$3" "$1.corral" && mv -f "$1.corral" "$1"
)

# secret_prepare PATH OWNER MODE SIZE: nothing where there is one already.
secret_prepare() { [ -s "$1" ] || secret_replace "$@"; }

# munge_swap NEXT PATH: munged reads its key when it starts.
munge_swap() {
  if [ -s "$1" ]; then mv -f "$1" "$2"; fi && systemctl restart munge.service
}

# main_of UNIT: its main process in $process.
main_of() {
  process=$(systemctl show -p MainPID --value "$1")
  [ "${process:-0}" -gt 0 ]
}

# environment_of PROCESS: a variable a line.
environment_of() { tr '\0' '\n' <"/proc/$1/environ"; }

# without_jwks UNIT: it keeps SLURM_SACK_KEY in its environment over all reconfigures, and never looks for slurm.jwks.
without_jwks() {
  main_of "$1" && environment_of "$process" | grep -q '^SLURM_SACK_KEY=' &&
    ! environment_of "$process" | grep -q '^SLURM_SACK_JWKS='
}

# started_since UNIT FILE: it began after the file changed.
started_since() {
  main_of "$1" && read -r up _ </proc/uptime &&
    awk -v up="$up" -v now="$(date +%s.%N)" -v file="$(stat -c %.Y "$2")" -v hz="$(getconf CLK_TCK)" \
      '{ sub(/.*\) /, ""); exit !(up - $20 / hz < now - file) }' "/proc/$process/stat"
}

# reconfigured UNIT FILE: waits until it has restarted since the file changed, and restarts it if it does not.
reconfigured() (
  i=0
  until started_since "$1" "$2" 2>/dev/null; do
    i=$((i + 1))
    [ "$i" -lt 100 ] || { systemctl restart "$1" && break; exit 1; }
    sleep 0.2
  done
  if without_jwks "$1"; then systemctl restart "$1"; fi
)
