# Makes an embedded node look like an A3 Mega machine (or the controller): $1 is "controller" or a
# number, $2 the public key of the user ops. Stands in for the NICs, the metadata server, docker,
# the kernel module and the aperture devices; all else is what Corral's roles made.
set -eu
install -d -m 700 -o ops -g "$(id -g ops)" ~ops/.ssh
printf '%s\n' "$2" >~ops/.ssh/authorized_keys
chown ops ~ops/.ssh/authorized_keys && chmod 600 ~ops/.ssh/authorized_keys
command -v sudo >/dev/null || { apt-get install -y -q sudo || { apt-get update -q &&
  apt-get install -y -q sudo; }; } >/dev/null 2>&1
echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops

install_rxdm() {
  script=$(cat)
  [ "$role" != controller ] || return 0
  for when in prolog epilog; do
    printf '%s\n' "$script" >/etc/slurm/$when.d/70-rxdm
    chmod 755 /etc/slurm/$when.d/70-rxdm
  done
}

role=$1
if [ "$role" != controller ]; then
  rm -f /etc/os-release
  printf 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04 (simulated)"\n' >/etc/os-release
  for nic in enp0s12 enp6s0 enp7s0 enp13s0 enp14s0 enp134s0 enp135s0 enp141s0 enp142s0; do
    ip link show $nic >/dev/null 2>&1 || ip link add $nic mtu 8244 type veth peer name x$nic
    ip link set x$nic up
    ip link set $nic up
  done
  for i in 06 07 0d 0e 86 87 8d 8e; do mkdir -p /dev/aperture_devices/0000:$i:00.0; done
  ip addr add 169.254.169.254/32 dev lo 2>/dev/null || :
  grep -q metadata.google.internal /etc/hosts ||
    echo '169.254.169.254 metadata.google.internal' >>/etc/hosts
  base=/run/metadata/computeMetadata/v1/instance
  mkdir -p $base/attributes
  printf 'projects/123/machineTypes/a3-megagpu-8g' >$base/machine-type
  printf '/block1/rack%s/host%s' "$role" "$role" >$base/attributes/physical_host
  systemctl is-active -q metadata 2>/dev/null ||
    systemd-run -q --unit=metadata --collect python3 -m http.server --bind 169.254.169.254 \
      --directory /run/metadata 80
  cat >/usr/local/bin/docker <<'D'
#!/bin/sh
# A docker that knows the two containers of TCPXO.
d=/run/fake-docker
mkdir -p $d
echo "$*" >>$d/calls
name=$(printf '%s\n' "$*" | sed -n 's/.*--name[ =]\([^ ]*\).*/\1/p')
case $* in
run*nccl-installer*)
  mkdir -p /var/lib/tcpxo/lib64
  cat >/var/lib/tcpxo/lib64/nccl-env-profile.sh <<'P'
export NCCL_FASTRAK_CTRL_DEV=eth0
export NCCL_FASTRAK_IFNAME=eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8
export NCCL_SOCKET_IFNAME=eth0
export NCCL_CROSS_NIC=0
export NCCL_TUNER_CONFIG_PATH=${NCCL_LIB_DIR}/a3plus_tuner_config.textproto
export NCCL_NVLSTREE_MAX_CHUNKSIZE=131072
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
P
  ;;
run*--detach*) [ -e $d/broken ] || echo "Buffer manager initialization complete" >$d/$name.log
  [ -e $d/$name.log ] || echo "rx_buffer.cc] waiting for GPU memory" >$d/$name.log ;;
"container logs "*) cat "$d/$3.log" ;;
"logs "*) for a in "$@"; do [ ! -e "$d/$a.log" ] || cat "$d/$a.log"; done ;;
"container list"*) for f in "$d"/receive-datapath-manager-*.log; do
  [ ! -e "$f" ] || basename "$f" .log; done ;;
"container stop"*) shift 2; for n; do rm -f "$d/$n.log"; done ;;
esac
exit 0
D
  printf '#!/bin/sh\n[ "$1" = import-helper ] || exec /sbin/modprobe "$@"\n' >/usr/local/bin/modprobe
  printf '#!/bin/sh\nexit 0\n' >/usr/local/bin/gcloud
  printf '#!/bin/sh\necho 24.04\n' >/usr/local/bin/lsb_release
  [ -x /usr/bin/curl ] || { # where slurm-gcp's prolog calls it
    printf '#!/bin/sh\nfor u; do :; done\nexec python3 -c "%s" "$u"\n' \
      'import sys,urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1]).read().decode())' \
      >/usr/bin/curl
    chmod 755 /usr/bin/curl
  }
  chmod 755 /usr/local/bin/*
fi
