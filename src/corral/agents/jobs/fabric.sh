#!/bin/sh
# The environment of a rank on its fabric, read on its own node: calls corral_give NAME VALUE REASON for each.
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
# Installed as: nowhere: part of a job's batch script, behind its values and the function corral_give (jobs/batch/fabric)
# Started by: each rank of the job; corral, which explains a job's settings; a batch script that reads the file with a
# group's environment
# Runs as: the job's user
# shellcheck disable=SC2016 # the shell of sh -c expands it
# shellcheck disable=SC2154 # MASTER_ADDR and corral_* are set before
corral_nic=$corral_interface corral_why='network.data.interface in the cluster file'
if [ -z "$corral_nic" ]; then
  corral_why='holds the address of the first node'
  corral_nic=$(ip -o addr show to "$MASTER_ADDR" 2>/dev/null | awk '{ print $2; exit }')
fi
if [ -z "$corral_nic" ]; then
  corral_why='the route to the first node'
  corral_nic=$(ip -o route get "$MASTER_ADDR" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
fi
if [ -n "$corral_nic" ]; then
  corral_give GLOO_SOCKET_IFNAME "$corral_nic" "$corral_why"
  corral_give NCCL_SOCKET_IFNAME "=$corral_nic" "$corral_why"
fi
corral_switches=" "
for corral_gpu in "$corral_sys"/bus/pci/devices/*; do
  case $(cat "$corral_gpu/vendor" 2>/dev/null)/$(cat "$corral_gpu/class" 2>/dev/null) in
  0x10de/0x03*) corral_switches="$corral_switches$(readlink -f "$corral_gpu" | sed -n 's|^\(.*/devices/pci[^/]*/[^/]*\)/.*|\1|p') " ;;
  esac
done
corral_near=""
for corral_device in "$corral_sys"/class/infiniband/*; do
  corral_at=$(readlink -f "$corral_device/device" | sed -n 's|^\(.*/devices/pci[^/]*/[^/]*\)/.*|\1|p')
  case $corral_switches in *" ${corral_at:-none} "*) corral_near="$corral_near ${corral_device##*/} " ;; esac
done
corral_fastest=0 corral_ports="" corral_gids="" corral_keys="" corral_where=", the fastest here"
[ -z "$corral_near" ] || corral_where=" that share a PCIe switch with a GPU"
for corral_port in "$corral_sys"/class/infiniband/*/ports/*; do
  grep -qs ACTIVE "$corral_port/state" || continue
  case $corral_fabric/$(cat "$corral_port/link_layer") in
  infiniband/InfiniBand|/InfiniBand|roce/Ethernet) ;;
  *) continue ;;
  esac
  corral_device=${corral_port%/ports/*} corral_device=${corral_device##*/}
  case ${corral_near:- $corral_device } in *" $corral_device "*) ;; *) continue ;; esac
  corral_rate=$(sed 's/[^0-9].*//' "$corral_port/rate")
  [ "${corral_rate:-0}" -ge "$corral_fastest" ] || continue
  [ "$corral_rate" = "$corral_fastest" ] || corral_ports="" corral_gids="" corral_keys=""
  corral_fastest=$corral_rate
  corral_ports="$corral_ports,$corral_device:${corral_port##*/}"
  corral_index=none
  for corral_key in "$corral_port"/pkeys/*; do
    [ -z "$corral_pkey" ] || [ "$(cat "$corral_key" 2>/dev/null)" != "$corral_pkey" ] || { corral_index=${corral_key##*/}; break; }
  done
  corral_keys="$corral_keys $corral_index"
  for corral_type in "$corral_port"/gid_attrs/types/*; do
    case $(cat "$corral_type" 2>/dev/null)/$(cat "$corral_port/gids/${corral_type##*/}" 2>/dev/null) in
    "RoCE v2"/0000:0000:0000:0000:0000:ffff:*) corral_gids="$corral_gids ${corral_type##*/}"; break ;;
    esac
  done
done
if [ -n "$corral_ports" ]; then
  corral_give NCCL_IB_HCA "=${corral_ports#,}" "active ports at $corral_fastest Gb/s$corral_where"
  if [ -n "$corral_pkey" ]; then
    corral_pkey_index=$(printf %s "${corral_keys# }" | tr ' ' '\n' | sort -u)
    case $corral_pkey_index in
    *[!0-9]*) echo "corral: no one index of PKey $corral_pkey on ${corral_ports#,} of $(uname -n)" >&2 ;;
    *) corral_give NCCL_IB_PKEY "$corral_pkey_index" 'index of network.data.pkey on all these ports' ;;
    esac
  fi
  [ -z "$corral_gid" ] || corral_give NCCL_IB_GID_INDEX "$corral_gid" 'network.data.gid_index in the cluster file'
  corral_gid_index=$(printf %s "${corral_gids# }" | tr ' ' '\n' | sort -u)
  case $corral_gid_index in
  ""|*[!0-9]*) ;;
  *) [ -n "$corral_gid" ] || corral_give NCCL_IB_GID_INDEX "$corral_gid_index" 'RoCE v2 over IPv4 on all these ports' ;;
  esac
fi
if [ -n "$corral_profile" ] && [ -r "$corral_profile" ]; then
  while IFS='=' read -r corral_name corral_value; do
    case $corral_name in
    *[!A-Z0-9_]*) ;;
    NCCL_*|LD_LIBRARY_PATH) corral_give "$corral_name" "$corral_value" 'the GPUDirect-TCPXO profile of this node' ;;
    esac
  done <<END_OF_PROFILE
$(env -i PATH="$PATH" NCCL_LIB_DIR="${corral_profile%/*}" sh -c '. "$1" >/dev/null; PATH=$2 env' \
  sh "$corral_profile" "$PATH")
END_OF_PROFILE
fi
corral_give OMP_NUM_THREADS "$corral_threads" 'CPUs of each rank'
corral_give PYTHONUNBUFFERED 1 'lines show when they are printed'
# Debian's python3-torch 2.6 is built without libuv; the other store works with every build.
corral_give USE_LIBUV 0 'works with every build of PyTorch'
