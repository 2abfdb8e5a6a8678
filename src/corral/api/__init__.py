"""The use cases: the only door for the command line and the page.

Those that touch machines are async functions and send events to an ``Emit``; ``import corral``
gives them synchronously. Names are loaded at first use, so that ``corral plan`` does not pay for
the checks of ``corral prove`` (0.1 s of imports).
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from corral.api.batch import JobHandle as JobHandle
    from corral.api.batch import JobInfo as JobInfo
    from corral.api.batch import JobOutcome as JobOutcome
    from corral.api.batch import JobSpec as JobSpec
    from corral.api.batch import RankLine as RankLine
    from corral.api.batch import Setting as Setting
    from corral.api.batch import cancel as cancel
    from corral.api.batch import explain_job as explain_job
    from corral.api.batch import is_job_file as is_job_file
    from corral.api.batch import job_fields as job_fields
    from corral.api.batch import job_script as job_script
    from corral.api.batch import job_spec as job_spec
    from corral.api.batch import job_state as job_state
    from corral.api.batch import jobs as jobs
    from corral.api.batch import logs as logs
    from corral.api.batch import parse_sweep as parse_sweep
    from corral.api.batch import run as run
    from corral.api.batch import script_fields as script_fields
    from corral.api.batch import shell_argv as shell_argv
    from corral.api.batch import submit as submit
    from corral.api.bench import Benchmark as Benchmark
    from corral.api.bench import Known as Known
    from corral.api.bench import read_benchmark as read_benchmark
    from corral.api.cloud_sets import Changed as Changed
    from corral.api.cloud_sets import Confirm as Confirm
    from corral.api.cloud_sets import account_keys as account_keys
    from corral.api.cloud_sets import firewall as firewall
    from corral.api.cloud_sets import make_volume as make_volume
    from corral.api.clouds import Sale as Sale
    from corral.api.clouds import offers as offers
    from corral.api.clusters import Origin as Origin
    from corral.api.clusters import keep_origin as keep_origin
    from corral.api.clusters import known_clusters as known_clusters
    from corral.api.clusters import looks_like_file as looks_like_file
    from corral.api.clusters import origin_of as origin_of
    from corral.api.clusters import spec_of as spec_of
    from corral.api.collective_bench import Benched as Benched
    from corral.api.collective_bench import Wanted as Wanted
    from corral.api.collective_bench import all_measured as all_measured
    from corral.api.collective_bench import bench_history as bench_history
    from corral.api.collective_bench import run_bench as run_bench
    from corral.api.commands import Said as Said
    from corral.api.commands import slurm_command as slurm_command
    from corral.api.converge import Approve as Approve
    from corral.api.converge import apply as apply
    from corral.api.converge import down as down
    from corral.api.converge import plan as plan
    from corral.api.converge import up as up
    from corral.api.costs import Cost as Cost
    from corral.api.costs import cost as cost
    from corral.api.costs import cost_of_name as cost_of_name
    from corral.api.costs import ledgers as ledgers
    from corral.api.data import DataSet as DataSet
    from corral.api.data import Fed as Fed
    from corral.api.data import bench_data as bench_data
    from corral.api.data import shard_data as shard_data
    from corral.api.diagnosis import doctor as doctor
    from corral.api.diagnosis import doctor_log as doctor_log
    from corral.api.discovery import Way as Way
    from corral.api.discovery import discover as discover
    from corral.api.elastic import drive as drive
    from corral.api.existing import Correction as Correction
    from corral.api.existing import Machine as Machine
    from corral.api.existing import Opinion as Opinion
    from corral.api.existing import adopt as adopt
    from corral.api.existing import lint_existing as lint_existing
    from corral.api.existing import machine_from_file as machine_from_file
    from corral.api.existing import write_corrections as write_corrections
    from corral.api.exporting import Exported as Exported
    from corral.api.exporting import export_ansible as export_ansible
    from corral.api.exporting import export_gcluster as export_gcluster
    from corral.api.exporting import fabric_of as fabric_of
    from corral.api.exporting import read_deepops as read_deepops
    from corral.api.figures import Reading as Reading
    from corral.api.figures import node_figures as node_figures
    from corral.api.files import lint as lint
    from corral.api.files import load as load
    from corral.api.files import rehearsal as rehearsal
    from corral.api.files import schema as schema
    from corral.api.files import starting_file as starting_file
    from corral.api.health import ClusterHealth as ClusterHealth
    from corral.api.health import node_health as node_health
    from corral.api.image_import import Imported as Imported
    from corral.api.image_import import import_image as import_image
    from corral.api.key_rotation import Rotated as Rotated
    from corral.api.key_rotation import Which as Which
    from corral.api.key_rotation import rotate_keys as rotate_keys
    from corral.api.key_rotation import rotation_of as rotation_of
    from corral.api.key_rotation import rotation_phase as rotation_phase
    from corral.api.keys import forget_host_keys as forget_host_keys
    from corral.api.keys import install_keys as install_keys
    from corral.api.machine_facts import ask_machines as ask_machines
    from corral.api.machine_return import Returning as Returning
    from corral.api.machine_return import due_back as due_back
    from corral.api.mending import Mended as Mended
    from corral.api.mending import explain_drained as explain_drained
    from corral.api.mending import explain_pending as explain_pending
    from corral.api.mending import mend as mend
    from corral.api.mending import mends as mends
    from corral.api.mesh import MeshStatus as MeshStatus
    from corral.api.mesh import apply_mesh_policy as apply_mesh_policy
    from corral.api.mesh import mesh_policy as mesh_policy
    from corral.api.mesh import mesh_status as mesh_status
    from corral.api.mesh import rotate_mesh as rotate_mesh
    from corral.api.mesh_sync import Copied as Copied
    from corral.api.mesh_sync import sync_data as sync_data
    from corral.api.node_bench import bench_gpu as bench_gpu
    from corral.api.node_bench import bench_network as bench_network
    from corral.api.node_images import build_image as build_image
    from corral.api.node_images import images as images
    from corral.api.node_images import remove_images as remove_images
    from corral.api.nodes import Outcome as Outcome
    from corral.api.nodes import drain as drain
    from corral.api.nodes import execute as execute
    from corral.api.nodes import resume as resume
    from corral.api.nodes import ssh_argv as ssh_argv
    from corral.api.overview import Status as Status
    from corral.api.overview import status as status
    from corral.api.page_server import Page as Page
    from corral.api.page_server import serve_page as serve_page
    from corral.api.past_measured import last_measured as last_measured
    from corral.api.past_proofs import Kept as Kept
    from corral.api.past_proofs import chosen_proof as chosen_proof
    from corral.api.past_proofs import compare_kept as compare_kept
    from corral.api.past_proofs import compare_proofs as compare_proofs
    from corral.api.past_proofs import fetch_rounds as fetch_rounds
    from corral.api.past_proofs import proofs as proofs
    from corral.api.past_proofs import since_last as since_last
    from corral.api.profiling import Recordings as Recordings
    from corral.api.profiling import job_profile as job_profile
    from corral.api.profiling import keep_profile as keep_profile
    from corral.api.proof import prove as prove
    from corral.api.report_pages import bench_page as bench_page
    from corral.api.report_pages import proof_page as proof_page
    from corral.api.report_pages import write_page as write_page
    from corral.api.scaling import bench_scaling as bench_scaling
    from corral.api.serving_there import reach_page as reach_page
    from corral.api.storage_bench import bench_storage as bench_storage
    from corral.api.tracking_tunnel import tracking_page as tracking_page
    from corral.api.unused_machines import Reapable as Reapable
    from corral.api.unused_machines import reap as reap
    from corral.api.unused_machines import survey as survey
    from corral.api.web_extras import Extras as Extras
    from corral.api.web_extras import job_extras as job_extras
    from corral.api.web_jobs import job_log as job_log
    from corral.api.web_jobs import job_text as job_text
    from corral.api.web_jobs import make_room as make_room
    from corral.api.web_jobs import requeue_job as requeue_job
    from corral.api.web_jobs import submit_here as submit_here
    from corral.api.web_past import history as history
    from corral.api.web_past import last_proof as last_proof
    from corral.api.web_past import lint_text as lint_text
    from corral.api.web_past import report_page as report_page
    from corral.api.web_past import reports as reports
    from corral.api.web_past import spec_text as spec_text
    from corral.api.web_past import spend_now as spend_now

_HOMES: Final = MappingProxyType(
    {
        "batch": (
            *("JobHandle", "JobInfo", "JobOutcome", "JobSpec", "RankLine", "Setting", "cancel"),
            *("explain_job", "is_job_file", "job_fields", "job_script", "job_spec", "job_state"),
            *("jobs", "logs", "parse_sweep", "run", "script_fields", "shell_argv", "submit"),
        ),
        "bench": ("Benchmark", "Known", "read_benchmark"),
        "collective_bench": ("Benched", "Wanted", "all_measured", "bench_history", "run_bench"),
        "cloud_sets": ("Changed", "Confirm", "account_keys", "firewall", "make_volume"),
        "clouds": ("Sale", "offers"),
        "elastic": ("drive",),
        "unused_machines": ("Reapable", "reap", "survey"),
        "costs": ("Cost", "cost", "cost_of_name", "ledgers"),
        "clusters": (
            *("Origin", "keep_origin", "known_clusters", "looks_like_file", "origin_of", "spec_of"),
        ),
        "converge": ("Approve", "apply", "down", "plan", "up"),
        "machine_facts": ("ask_machines",),
        "existing": (
            *("Correction", "Machine", "Opinion", "adopt", "lint_existing"),
            *("machine_from_file", "write_corrections"),
        ),
        "data": ("DataSet", "Fed", "bench_data", "shard_data"),
        "diagnosis": ("doctor", "doctor_log"),
        "discovery": ("Way", "discover"),
        "exporting": (
            *("Exported", "export_ansible", "export_gcluster", "fabric_of", "read_deepops"),
        ),
        "files": ("lint", "load", "rehearsal", "schema", "starting_file"),
        "health": ("ClusterHealth", "node_health"),
        "past_proofs": (
            *("Kept", "chosen_proof", "compare_kept", "compare_proofs", "fetch_rounds"),
            *("proofs", "since_last"),
        ),
        "past_measured": ("last_measured",),
        "report_pages": ("bench_page", "proof_page", "write_page"),
        "node_images": ("build_image", "images", "remove_images"),
        "image_import": ("Imported", "import_image"),
        "keys": ("forget_host_keys", "install_keys"),
        "node_bench": ("bench_gpu", "bench_network"),
        "scaling": ("bench_scaling",),
        "storage_bench": ("bench_storage",),
        "mesh_sync": ("Copied", "sync_data"),
        "mesh": (
            *("MeshStatus", "apply_mesh_policy", "mesh_policy", "mesh_status", "rotate_mesh"),
        ),
        "mending": ("Mended", "explain_drained", "explain_pending", "mend", "mends"),
        "nodes": ("Outcome", "drain", "execute", "resume", "ssh_argv"),
        "profiling": ("Recordings", "job_profile", "keep_profile"),
        "proof": ("prove",),
        "machine_return": ("Returning", "due_back"),
        "key_rotation": ("Rotated", "Which", "rotate_keys", "rotation_of", "rotation_phase"),
        "overview": ("Status", "status"),
        "commands": ("Said", "slurm_command"),
        "figures": ("Reading", "node_figures"),
        "page_server": ("Page", "serve_page"),
        "tracking_tunnel": ("tracking_page",),
        "serving_there": ("reach_page",),
        "web_extras": ("Extras", "job_extras"),
        "web_jobs": ("job_log", "job_text", "make_room", "requeue_job", "submit_here"),
        "web_past": (
            "history",
            "last_proof",
            "lint_text",
            "report_page",
            "reports",
            "spec_text",
            "spend_now",
        ),
    }
)
_HOME_OF: Final = MappingProxyType({n: home for home, names in _HOMES.items() for n in names})


def __getattr__(name: str) -> Any:
    """Load a use case's module when it is first asked for (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    """All use cases, loaded or not."""
    return sorted(_HOME_OF)
