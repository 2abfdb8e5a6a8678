#!/bin/sh
# The environment of a rank on its fabric, read on its own node: calls give NAME VALUE REASON for each.
#
# The interface is the declared one, else the one that holds the first node's address, else the one
# that leads there: a machine's other networks (docker0, a tailnet) never carry the job. "=" and the
# port make NCCL take exactly these and not all that begin so.
# RDMA: active ports of the declared kind at the highest rate, so that a slower port for storage or
# management never limits a collective (NCCL splits a message over all it may use). Where some share
# a PCIe switch with a GPU, those alone: what is left is for storage, and its data would cross CPUs.
# PKey: NCCL wants the index in the port's table (ibv_modify_qp), people know the value.
# RoCE v2 over IPv4: the index has to be the same on all ports, or NCCL is left to find it.
# The root port in a device's path is above the switch (PCI: lspci -t).
#
# Installed as: nowhere: part of a job's batch script, behind its values and the function give (jobs/batch/fabric)
# Started by: each rank of the job; corral, which explains a job's settings; a batch script that reads the file with a
# group's environment
# Runs as: the job's user
# shellcheck disable=SC2016 # the shell of sh -c expands it
# shellcheck disable=SC2154 # MASTER_ADDR and corral_* are set before
nic=$corral_interface why='network.data.interface in the cluster file'
if [ -z "$nic" ]; then
  why='holds the address of the first node'
  nic=$(ip -o addr show to "$MASTER_ADDR" 2>/dev/null | awk '{ print $2; exit }')
fi
if [ -z "$nic" ]; then
  why='the route to the first node'
  nic=$(ip -o route get "$MASTER_ADDR" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
fi
if [ -n "$nic" ]; then
  give GLOO_SOCKET_IFNAME "$nic" "$why"
  give NCCL_SOCKET_IFNAME "=$nic" "$why"
fi
switches=" "
for gpu in "$corral_sys"/bus/pci/devices/*; do
  case $(cat "$gpu/vendor" 2>/dev/null)/$(cat "$gpu/class" 2>/dev/null) in
  0x10de/0x03*) switches="$switches$(readlink -f "$gpu" | sed -n 's|^\(.*/devices/pci[^/]*/[^/]*\)/.*|\1|p') " ;;
  esac
done
near=""
for device in "$corral_sys"/class/infiniband/*; do
  at=$(readlink -f "$device/device" | sed -n 's|^\(.*/devices/pci[^/]*/[^/]*\)/.*|\1|p')
  case $switches in *" ${at:-none} "*) near="$near ${device##*/} " ;; esac
done
fastest=0 ports="" gids="" keys="" where=", the fastest here"
[ -z "$near" ] || where=" that share a PCIe switch with a GPU"
for port in "$corral_sys"/class/infiniband/*/ports/*; do
  grep -qs ACTIVE "$port/state" || continue
  case $corral_fabric/$(cat "$port/link_layer") in
  infiniband/InfiniBand|/InfiniBand|roce/Ethernet) ;;
  *) continue ;;
  esac
  device=${port%/ports/*} device=${device##*/}
  case ${near:- $device } in *" $device "*) ;; *) continue ;; esac
  rate=$(sed 's/[^0-9].*//' "$port/rate")
  [ "${rate:-0}" -ge "$fastest" ] || continue
  [ "$rate" = "$fastest" ] || ports="" gids="" keys=""
  fastest=$rate
  ports="$ports,$device:${port##*/}"
  index=none
  for key in "$port"/pkeys/*; do
    [ -z "$corral_pkey" ] || [ "$(cat "$key" 2>/dev/null)" != "$corral_pkey" ] || { index=${key##*/}; break; }
  done
  keys="$keys $index"
  for type in "$port"/gid_attrs/types/*; do
    case $(cat "$type" 2>/dev/null)/$(cat "$port/gids/${type##*/}" 2>/dev/null) in
    "RoCE v2"/0000:0000:0000:0000:0000:ffff:*) gids="$gids ${type##*/}"; break ;;
    esac
  done
done
if [ -n "$ports" ]; then
  give NCCL_IB_HCA "=${ports#,}" "active ports at $fastest Gb/s$where"
  if [ -n "$corral_pkey" ]; then
    # shellcheck disable=SC2086 # a list
    pkey_index=$(printf '%s\n' $keys | sort -u)
    case $pkey_index in
    *[!0-9]*) echo "corral: no one index of PKey $corral_pkey on ${ports#,} of $(uname -n)" >&2 ;;
    *) give NCCL_IB_PKEY "$pkey_index" 'index of network.data.pkey on all these ports' ;;
    esac
  fi
  [ -z "$corral_gid" ] || give NCCL_IB_GID_INDEX "$corral_gid" 'network.data.gid_index in the cluster file'
  # shellcheck disable=SC2086 # a list
  gid_index=$(printf '%s\n' $gids | sort -u)
  case $gid_index in
  ""|*[!0-9]*) ;;
  *) [ -n "$corral_gid" ] || give NCCL_IB_GID_INDEX "$gid_index" 'RoCE v2 over IPv4 on all these ports' ;;
  esac
fi
if [ -n "$corral_profile" ] && [ -r "$corral_profile" ]; then
  while IFS='=' read -r name value; do
    case $name in
    *[!A-Z0-9_]*) ;;
    NCCL_*|LD_LIBRARY_PATH) give "$name" "$value" 'the GPUDirect-TCPXO profile of this node' ;;
    esac
  done <<END_OF_PROFILE
$(env -i PATH="$PATH" NCCL_LIB_DIR="${corral_profile%/*}" sh -c '. "$1" >/dev/null; PATH=$2 env' \
  sh "$corral_profile" "$PATH")
END_OF_PROFILE
fi
give OMP_NUM_THREADS "$corral_threads" 'CPUs of each rank'
give PYTHONUNBUFFERED 1 'lines show when they are printed'
# Debian's python3-torch 2.6 is built without libuv; the other store works with every build.
give USE_LIBUV 0 'works with every build of PyTorch'
