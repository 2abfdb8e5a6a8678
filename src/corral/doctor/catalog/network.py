"""Names, addresses, ports, MTU, mesh."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer, Mend, Source

FAILURES: Final = (
    Failure(
        "F05",
        "name-unresolvable",
        "a name does not resolve",
        "a NodeName, NodeAddr or SlurmctldHost that this machine cannot look up",
        "an address for every node (NodeAddr) and a managed block in /etc/hosts: corral apply",
        "omnia issue 261",
        Layer.NETWORK,
        symptoms=(
            r"getaddrinfo\(\) failed: (?:name or service not known|temporary failure)",
            r"unable to resolve \"(?!127\.|\(null\))[^\"]+\"",
            r"could not resolve host(?:name)?:? \S+",
        ),
        mend=Mend.APPLY,
    ),
    Failure(
        "F06",
        "loopback-own-name",
        "a node's own name stands on a loopback address",
        "installers of Debian and Ubuntu write 127.0.1.1 HOSTNAME: peers are told to come to "
        "127.0.1.1",
        "take the name off every 127.* line: corral apply; NodeAddr for each node",
        "Slurm FAQ; nebius-solutions-library issue 177",
        Layer.NETWORK,
        symptoms=(r"127\.0\.1\.1[ \t]+\S", r"listening on 127\.0\.[01]\.1 .*rendezvous"),
        where=(),
        mend=Mend.APPLY,
    ),
    Failure(
        "F18",
        "ports-blocked",
        "a port of Slurm cannot be reached",
        "a firewall drops 6817, 6818 or 6819, or srun's ports on the submit host",
        "open them between the cluster's own addresses: corral apply where it manages the "
        "firewall; set "
        "SrunPortRange",
        "SchedMD network.html",
        Layer.NETWORK,
        symptoms=(
            r"unable to contact slurm controller \(connect failure\)",
            r"timed out waiting for job step to complete",
            r"slurm_msg_sendto\w*.*no route to host",
            r"connect to .*:68(?:17|18|19).*(?:timed out|no route)",
        ),
        mend=Mend.APPLY,
    ),
    Failure(
        "F28",
        "mtu-blackhole",
        "large packets do not get through",
        "MTUs differ between the nodes, or a tunnel within a tunnel, and the answer that says so "
        "is "
        "blocked",
        "one MTU on all nodes and the switch between them; over Tailscale 1280",
        "tailscale issues 16820 and 13086",
        Layer.NETWORK,
        symptoms=(r"message too long", r"frag(?:mentation)? needed and DF set"),
    ),
    Failure(
        "F32",
        "no-tun",
        "this machine has no TUN device",
        "a rented container without NET_ADMIN",
        "join by the userspace mode, rent a virtual machine, or use the provider's own cluster "
        "network",
        "runpodctl issue 272",
        Layer.NETWORK,
        symptoms=(
            r"mknod: /dev/net/tun: operation not permitted",
            r"tstun\.new\(.*operation not permitted",
            r"/dev/net/tun (?:does not exist|: no such)",
        ),
    ),
    Failure(
        "F33",
        "no-udp",
        "the mesh works over a relay only",
        "the provider forwards TCP and HTTP and no UDP",
        "TCP-only membership and an island of its own; no DDP over it",
        "RunPod documentation, pods overview",
        Layer.NETWORK,
        symptoms=(r"udp connections are not supported", r"\bvia derp\b", r"udp is blocked"),
    ),
    Failure(
        "F34",
        "mesh-key-expired",
        "a node's mesh key has expired",
        "node keys expire by themselves, apart from the keys by which nodes join",
        "tagged nodes do not expire; corral keys rotate mesh",
        "headscale issue 1851; tailscale issue 16566",
        Layer.NETWORK,
        symptoms=(r"node key (?:has )?expired", r"key ?expiry.*(?:expired|in the past)"),
    ),
    Failure(
        "F100",
        "mesh-node-away",
        "a node is away from the mesh",
        "its tailscaled does not run, or no way leads from it to the control server",
        "look at its network and journalctl -u tailscaled; corral mesh status measures the links",
        "seen on headscale 0.29.3",
        Layer.NETWORK,
        symptoms=(
            r"not connected to tailscale; is tailscaled running",
            r"failed to connect to local tailscale",
        ),
    ),
    Failure(
        "F37",
        "duplicate-subnets",
        "two interfaces stand in one subnet",
        "the kernel answers on either: data goes out by one and comes back by the other",
        "one subnet per interface",
        "nccl issue 1581",
        Layer.NETWORK,
    ),
    Failure(
        "F54",
        "no-routable-address",
        "a machine, or a daemon on it, has no address but loopback",
        "without any other address glibc hides IPv4 from Slurm (AI_ADDRCONFIG); a unit with "
        "PrivateNetwork=yes has none",
        "give it an address (ip addr add 10.9.9.1/32 dev lo is enough for one machine); for a "
        "daemon: systemctl cat UNIT, and no PrivateNetwork",
        "seen with podman --network none",
        Layer.NETWORK,
        symptoms=(
            r"unable to resolve \"127\.0\.0\.1\"",
            r"unable to resolve \"\(null\)\"",
            r"unable to establish control machine address",
            r"creating slurm stream socket: address family not supported",
        ),
    ),
    Failure(
        "F66",
        "own-name-missing",
        "a node does not know its own name",
        "the machine's own name is not in its /etc/hosts: every answer of Slurm is late or lost",
        "the managed hosts block has all nodes, its own too: corral apply",
        "seen in a chroot on an H200 server",
        Layer.NETWORK,
        mend=Mend.APPLY,
    ),
    Failure(
        "F105",
        "hostname-differs",
        "a machine calls itself by another name than Slurm's",
        "its hostname was changed, or taken from DHCP at its last boot: slurmd looks for the node "
        "of that name in slurm.conf, finds none, and ends",
        "hostnamectl set-hostname NODE, or corral apply; then systemctl restart slurmd",
        "seen on Slurm 24.11.5; slurmd(8), -N",
        Layer.NETWORK,
        symptoms=(r"unable to determine this slurmd's nodename",),
        where=(Source.SLURMD,),
        mend=Mend.APPLY,
    ),
)
