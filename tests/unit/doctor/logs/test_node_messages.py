"""What daemons on a node print, together with what users see of it: the node's line is the cause.

Lines are made of the format strings of Slurm 25.11 (24.05 where it prints another), with the
places of values filled.
"""

from __future__ import annotations

import pytest

from corral.doctor.logs.diagnosis import explain
from corral.doctor.model import Severity

AT = "[2026-03-03T10:00:00.123] "
CASES = {
    "dbus": (
        "F2102",
        "slurmd: error: cgroup_dbus_attach_to_scope: cannot connect to dbus system daemon: Failed "
        "to connect to socket /run/dbus/system_bus_socket: No such file or directory\n"
        "slurmd: error: cannot initialize cgroup directory for stepds: if the scope /sys/fs/cgroup/"
        "system.slice/slurmstepd.scope already exists it means the associated cgroup directories "
        "disappeared and the scope entered in a failed state.\n"
        "slurmd: error: Couldn't load specified plugin name for cgroup/v2: Plugin init() callback "
        "failed\nslurmd: error: cannot create cgroup context for cgroup/v2\n"
        "slurmd: error: Unable to initialize cgroup plugin\nslurmd: error: slurmd initialization "
        "failed",
    ),
    "scope left over": (
        "F1228",
        "slurmd: error: The unit may already exist or we got an error: Unit slurmstepd.scope "
        "already exists.\nslurmd: fatal: systemd scope for slurmstepd could not be set.",
    ),
    "no cgroup left": (
        "F1234",
        "slurmstepd: error: common_cgroup_instantiate: unable to create cgroup "
        "'/sys/fs/cgroup/memory/slurm/uid_1001' : No space left on device\n"
        "slurmstepd: error: Failed to invoke task plugins: one of task_p_pre_setuid functions "
        "returned error\nsrun: error: Task launch for StepId=71.0 failed on node n3: Slurmd could "
        "not set up environment for batch job",
    ),
    "layout": (
        "F1267",
        f"{AT}error: task/affinity: _task_layout_lllp_block: only 32 bits in avail_map for 64 "
        "tasks!\nsrun: error: Task launch for StepId=71.0 failed on node n3: Unable to layout "
        "tasks on given cpus\nsrun: error: Application launch failed: Unable to layout tasks on "
        "given cpus",
    ),
    "mpi plugin": (
        "F1300",
        f"{AT}error: mpi_conf_send_stepd: unable to resolve MPI plugin offset from plugin_id=104. "
        "This error usually results from a job being submitted against an MPI plugin which was not "
        f"compiled into slurmd but was for job submission command.\n{AT}error: "
        f"_send_slurmstepd_init: mpi_conf_send_stepd(9, 104) failed: No error\n{AT}error: Unable "
        "to init slurmstepd",
    ),
    "older slurmstepd": (
        "F1262",
        f"slurmstepd: fatal: slurmstepd: problem with unpack of slurmd_conf\n{AT}error: "
        "_handle_return_code: Can not read return code from slurmstepd: No such file or directory",
    ),
    "prolog timed out": (
        "F1256",
        f"{AT}error: prolog killed by signal 9 output:\n{AT}error: JobId=71 prolog failed "
        "status=0:9\nReason=Prolog error [root@2026-03-03T10:00:01]",
    ),
    "prolog path": (
        "F1255",
        f"{AT}error: prolog: Unable to create list of paths [/etc/slurm/prolog.d/*]\n{AT}error: "
        "JobId=71 prolog failed status=255:0",
    ),
    "task prolog": (
        "F1259",
        "slurmstepd: error: TaskProlog failed status=1\nsrun: error: n3: task 0: Exited with exit "
        "code 1",
    ),
    "spank plugin": (
        "F515",
        "slurmstepd: error: spank: required plugin demo.so: task_init() failed with rc=-1\n"
        "slurmstepd: error: Failed to invoke spank plugin stack",
    ),
    "namespace folder": (
        "F1329",
        "[71.extern] error: _mount_private_dirs: /scratch mount failed, No such file or directory\n"
        "[71.extern] error: _create_ns: namespace setup failed in child\n[71.extern] error: "
        "_spawn_job_container: namespace_g_stepd_create(JobId=71): Unspecified error",
    ),
    "namespace folder of 24.05": (
        "F1329",
        "[71.extern] error: _mount_private_dirs: /scratch mount failed, No such file or directory\n"
        "[71.extern] error: _create_ns: waitpid failed\n[71.extern] error: _spawn_job_container: "
        "container_g_stepd_create(71): Unspecified error",
    ),
    "unkillable": (
        "F84",
        "slurmstepd: error: *** STEP 71.0 STEPD TERMINATED ON n3 AT 2026-03-03T10:00:00 DUE TO JOB "
        "NOT ENDING WITH SIGNALS ***",
    ),
    "spool folder of slurmd": (
        "F863",
        "[71.batch] error: mkdir(/srv/spool/job00071): No such file or directory\n[71.batch] "
        "error: batch script setup failed for JobId=71 on n3: Unspecified error",
    ),
    "state folder of slurmctld": (
        "F74",
        f"{AT}fatal: mkdir(/var/spool/slurm/ctld): No such file or directory",
    ),
    "ports of srun": (
        "F1266",
        "srun: error: net_stream_listen_ports: all ports in range (60001, 60020) exhausted, cannot "
        "establish listening port\nsrun: fatal: unable to initialize stdio listen socket: "
        "Operation not permitted",
    ),
    "options of a plugin": (
        "F1212",
        "slurmd: error: _parse_next_key: Parsing error at unrecognized key: ProfileHDF5Dir\n"
        "slurmd: fatal: Could not open/read/parse acct_gather.conf file "
        "/etc/slurm/acct_gather.conf.  Many times this is because you have defined options for "
        "plugins that are not loaded.  Please check your slurm.conf file and make sure the plugins "
        "for the options listed are loaded.",
    ),
    "energy counters": (
        "F1342",
        f"{AT}error: MSR register problem (/dev/cpu/0/msr): No such file or directory\n{AT}error: "
        "_get_joules_task: device /dev/cpu/#/msr not opened energy data cannot be collected.",
    ),
}


@pytest.mark.parametrize(("cause", "text"), CASES.values(), ids=CASES)
def test_the_line_of_the_node_is_the_cause(cause: str, text: str) -> None:
    assert explain(text).findings[0].failure.id == cause
    backwards = "\n".join(reversed(text.split("\n")))
    assert explain(backwards).findings[0].failure.id == cause


def test_a_warning_accounts_for_its_own_line() -> None:
    """Before, the same line was named a second time, first, by the kind of its words."""
    text = "slurmctld: error: AuthInfo=cred_expire=1 invalid"
    (diagnosis,) = explain(text).findings
    assert (diagnosis.failure.id, diagnosis.severity) == ("F1288", Severity.WARNING)
    report = explain(f"{text}\nfrob: error: plan not found")
    assert [diagnosis.failure.id for diagnosis in report.findings] == ["F926", "F1288"]
