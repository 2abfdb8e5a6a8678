#!/bin/sh
# Makes the node's host key at its first start, then becomes its init.
#
# The public key is moved last: who waits for it finds a complete pair.
#
# Installed as: nowhere: the entrypoint of the container, behind stand-ins.sh or host-gpus.sh
# (providers/containers/container)
# Started by: podman, at every start of a container that is a node
# Runs as: root of that container
if ! [ -s @key@.pub ]; then
  rm -f /etc/ssh/.fresh /etc/ssh/.fresh.pub
  ssh-keygen -q -t ed25519 -N '' -C '' -f /etc/ssh/.fresh
  mv -f /etc/ssh/.fresh @key@ && mv -f /etc/ssh/.fresh.pub @key@.pub
fi
exec /sbin/init
