#!/bin/sh
# Keeps python packages from byte-compiling one by one while they are installed; image-late.sh does all at once.
#
# Installed as: nowhere: a hook of mmdebstrap; its text is in the digest that is the node image's tag
# (providers/containers/recipe)
# Started by: mmdebstrap, with the new root as first argument
# Runs as: root, on the machine that builds the node image
set -eu
chroot "$1" dpkg-divert --quiet --local --rename --divert /usr/bin/py3compile.corral --add /usr/bin/py3compile
ln -s true "$1"/usr/bin/py3compile
