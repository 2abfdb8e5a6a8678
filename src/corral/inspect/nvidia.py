"""Questions about a machine's NVIDIA GPUs and driver, for those who pass them on. Pure."""

from __future__ import annotations

from typing import Final

from corral.hosts.quote import Script, join, sh
from corral.inspect.gpu import MINORS
from corral.inspect.question import Question, text

_SMI: Final = Script("PATH=$PATH:/usr/local/nvidia/bin; export PATH")
LISTED: Final = Question(
    "listed",
    sh("for d in /proc/driver/nvidia/gpus/*/; do [ ! -d $d ] || basename $d; done"),
    str.split,
)
"""PCI addresses of the GPUs that the kernel module has, working or not."""
CARDS: Final = Question(
    "cards",
    join(
        [
            _SMI,
            sh(
                "timeout 40 nvidia-smi --format=csv,noheader,nounits "
                "--query-gpu=pci.bus_id,uuid,name,memory.total,mig.mode.current 2>&1"
            ),
        ]
    ),
    text,
)
USERS: Final = Question(
    "users",
    join(
        [
            _SMI,
            sh(
                "timeout 40 nvidia-smi --format=csv,noheader,nounits "
                "--query-compute-apps=gpu_uuid,pid,process_name 2>/dev/null"
            ),
        ]
    ),
    text,
)
LIBRARIES: Final = Question("libraries", sh("PATH=$PATH:/sbin:/usr/sbin ldconfig -p"), text)
PROGRAMS: Final = Question(
    "programs",
    join([_SMI, sh("command -v nvidia-smi nvidia-debugdump nvidia-cuda-mps-control; :")]),
    str.split,
)
DEVICES: Final = Question(
    "device-files",
    sh("for f in /dev/nvidia* /dev/kfd; do [ ! -c $f ] || echo $f; done"),
    str.split,
)
QUESTIONS: Final = (LISTED, MINORS, CARDS, USERS, LIBRARIES, PROGRAMS, DEVICES)
