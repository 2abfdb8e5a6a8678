#!/bin/sh
# Shows a node its own GPUs of the host and no others.
#
# A privileged container has the host's device files and /proc. Where a GPU has no file, NVML and CUDA make one, as
# root may, unless ModifyDeviceFiles is 0; they skip GPUs that are not below /proc/driver/nvidia/gpus.
# libnvidia-container hides them in this way (src/nvc_mount.c).
#
# Installed as: nowhere: in front of entry.sh (providers/containers/gpus/host_gpus)
# Started by: podman, before the init of a container that is a node
# Runs as: root of that container
# shellcheck disable=SC2043,SC2066 # hosts.quote.filled puts a list in the place of @devices@ and @buses@
# shellcheck disable=SC2086 # names of devices and of the driver's programs
for f in /dev/nvidia[0-9]*; do
  g=
  for d in @devices@; do [ $d != $f ] || g=$d; done
  [ -n "$g" ] || rm -f $f
done
rm -rf /dev/nvidia-caps /dev/nvidia-modeset
p=/proc/driver/nvidia q=/run/corral-nvidia
mkdir -p $q && mount -t tmpfs -o mode=755 tmpfs $q
sed 's/^ModifyDeviceFiles: .*/ModifyDeviceFiles: 0/' $p/params > $q/params
for f in version registry; do [ ! -r $p/$f ] || cat $p/$f > $q/$f; done
for b in @buses@; do
  mkdir -p $q/gpus/$b && mount --bind $p/gpus/$b $q/gpus/$b
done
mount --rbind $q $p
# With CDI the driver is where its specification puts it, and its hooks have run.
if [ -d @folder@/lib64 ]; then
  ldconfig -n @folder@/lib64  # links of sonames, which the next one needs
  ln -sf libcuda.so.1 @folder@/lib64/libcuda.so
  for f in @folder@/bin/*; do ln -sf $f /usr/local/bin/; done
  echo @folder@/lib64 > /etc/ld.so.conf.d/corral-nvidia.conf
  ldconfig
fi
