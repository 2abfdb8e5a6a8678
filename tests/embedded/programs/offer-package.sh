#!/bin/sh
# offer-package.sh VERSION KIND: a repository of the node's own, and no other, offers the package corral-test in this version. KIND is
# good, or bad: then it brings a service that fails at each boot.
set -e
repo=/opt/repo units=/opt/repo/tree/etc/systemd/system
rm -rf $repo
mkdir -p $repo/tree/DEBIAN $units/multi-user.target.wants
printf '%s\n' 'Package: corral-test' "Version: $1" 'Architecture: all' 'Maintainer: x <x@example.org>' 'Description: x' \
  >$repo/tree/DEBIAN/control
if [ "$2" = bad ]; then
  printf '%s\n' '[Service]' 'ExecStart=/bin/false' '[Install]' 'WantedBy=multi-user.target' >$units/corral-bad.service
  ln -s ../corral-bad.service $units/multi-user.target.wants/corral-bad.service
fi
cd $repo
dpkg-deb -b tree corral-test.deb >/dev/null
{
  dpkg-deb -f corral-test.deb
  echo 'Filename: ./corral-test.deb'
  echo "Size: $(stat -c %s corral-test.deb)"
  echo "SHA256: $(sha256sum <corral-test.deb | cut -d' ' -f1)"
} >Packages
mkdir -p /root/lists
mv /etc/apt/sources.list /etc/apt/sources.list.d/* /root/lists/ 2>/dev/null || :
echo "deb [trusted=yes] file:$repo ./" >/etc/apt/sources.list.d/test.list
apt-get update -q >/dev/null
