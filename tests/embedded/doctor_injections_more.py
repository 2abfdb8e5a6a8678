"""More failures made to happen on a running embedded cluster. Data; see doctor_injections."""

from __future__ import annotations

from dataclasses import replace

from tests.embedded.injection import N1, Injection, drained
from tests.embedded.prove_breaks import CONF, CTL, DOWN, RECONFIGURE, UP, edit, restore, wrapper

from corral.hosts.quote import sh

SMI = "/usr/local/bin/nvidia-smi"
_NO_SMI = {N1: sh("rm -f {p}", p=SMI)}

MORE_INJECTIONS: tuple[Injection, ...] = (
    Injection(
        "F02",
        "a clock 10 minutes ahead",
        {N1: wrapper("/usr/local/bin/date", 'exec /usr/bin/date -d "+600 seconds" "$@"')},
        {N1: sh("rm -f /usr/local/bin/date")},
        (N1,),
    ),
    Injection(
        "F85",
        "an epilog that fails",
        {
            CTL: sh(
                "{edit} && ({reconfigure}) && {{ timeout 40 srun -w node1 true; true; }}",
                edit=edit(CONF, "$aEpilog=/bin/false"),
                reconfigure=RECONFIGURE,
            )
        },
        {
            CTL: sh(
                "{restore}; ({reconfigure}); scontrol update nodename=node1 state=resume; true",
                restore=restore(CONF),
                reconfigure=RECONFIGURE,
            )
        },
        (N1,),
    ),
    Injection(
        "F101",
        "somebody else listens on slurmd's port",
        {
            N1: sh(
                "systemctl stop slurmd && systemd-run -q --unit=corral-test-port "
                "python3 -m http.server 6818 && "
                "timeout 20 sh -c 'until ss -ltn | grep -q :6818; do sleep 0.1; done'; "
                "systemctl start slurmd; true"
            )
        },
        {
            N1: sh(
                "systemctl stop corral-test-port; systemctl reset-failed slurmd;"
                " systemctl start slurmd"
            )
        },
        (N1,),
    ),
    replace(drained("F83", "Not responding"), do={CTL: DOWN}, undo={CTL: UP}),
    Injection(
        "F24",
        "the driver's library is of another release",
        {
            N1: wrapper(
                SMI,
                "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
            )
        },
        _NO_SMI,
        (N1,),
    ),
    Injection(
        "F76",
        "the driver sees no GPU",
        {N1: wrapper(SMI, "echo 'No devices were found'; exit 6")},
        _NO_SMI,
        (N1,),
    ),
)
