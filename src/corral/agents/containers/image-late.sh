#!/bin/sh
# Compiles all python packages at once, when all of them are there. image-settle.sh follows.
#
# Installed as: nowhere: a hook of mmdebstrap; its text is in the digest that is the node image's tag
# (providers/containers/recipe)
# Started by: mmdebstrap, with the new root as first argument
# Runs as: root, on the machine that builds the node image
set -eu
rm "$1"/usr/bin/py3compile
chroot "$1" dpkg-divert --quiet --local --rename --remove /usr/bin/py3compile
if [ -d "$1/usr/lib/python3/dist-packages" ]; then
  chroot "$1" python3 -m compileall -q -j 0 -x /tests/ /usr/lib/python3/dist-packages
fi
