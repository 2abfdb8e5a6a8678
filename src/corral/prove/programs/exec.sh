#!/bin/sh
# Becomes a program that lies on the nodes: a job's script is a file that Corral sends.
command -v "$1" >/dev/null || {
  echo "$1 is no program on $(hostname)" >&2
  exit 127
}
exec "$@"
