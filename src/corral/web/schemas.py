"""What the server sends to the page, field by field; the page's types are generated from it.

``.ci/page_types`` writes ``static/js/api.d.ts``; tests compare the server's answers with the same
types, so that neither side can change alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, get_type_hints

# Not typing's: pydantic refuses that before Python 3.12; this is a dependency of pydantic's.
from typing_extensions import TypedDict

from corral.slurm.records import Job
from corral.slurm.states.jobs import EndsAbout
from corral.spec.impacts import ImpactWord
from corral.web.slurm.snapshot import NOT_SHOWN

Kind = Literal["good", "busy", "mix", "warn", "bad", "off"]


class Failure(TypedDict):
    """Why a request or a piece of work failed."""

    code: str
    message: str
    hint: NotRequired[str]
    node: NotRequired[str]
    tail: NotRequired[str]
    command: NotRequired[str]
    status: NotRequired[int | None]
    fields: NotRequired[dict[str, str]]


class Refused(TypedDict):
    """The answer of a request that failed."""

    error: Failure


class Done(TypedDict):
    """What was asked for was done."""

    ok: Literal[True]


class LoggedOut(Done):
    """The session ended; leave: where the provider's login ends, "" for nowhere."""

    leave: str


class StartedWork(TypedDict):
    """Work that goes on in the background, and the id that it has there."""

    id: str


class SubmittedJob(TypedDict):
    """The number of a job that was submitted."""

    id: int


class LoginCode(TypedDict):
    """A one-time code, and whose session it opens."""

    code: str
    user: str


class Ticket(TypedDict):
    """What opens one GET without a header."""

    ticket: str


class OtherCluster(TypedDict):
    """Another cluster that the page shows: its name, and the origin of that page."""

    name: str
    url: str


class Summary(TypedDict):
    """A cluster in a few figures, for one viewer; null: unknown."""

    cluster: str
    user: str
    at: float
    seen_at: float
    trouble: str
    nodes: int | None
    usable: int | None
    down: int | None
    drained: int | None
    gpus: int | None
    gpus_free: int | None
    running: int | None
    waiting: int | None
    mine_running: int | None
    mine_waiting: int | None


class MatchingJob(TypedDict):
    """A job that a search found."""

    id: int
    label: str
    name: str
    user: str
    state: str
    kind: Kind
    nodes: str


class MatchingNode(TypedDict):
    """A node that a search found."""

    name: str
    state: str
    kind: Kind
    reason: str


class MatchingUser(TypedDict):
    """A user whom a search found, and how many jobs of this user are running and pending."""

    name: str
    running: int
    waiting: int


class SearchResult(TypedDict):
    """What a search found: the first ones of each kind, and how many there are.

    known: Slurm has listed its jobs; users_known: accounting has listed its users; trouble: why
    newer answers do not come.
    """

    jobs: list[MatchingJob]
    jobs_total: int
    nodes: list[MatchingNode]
    nodes_total: int
    users: list[MatchingUser]
    users_total: int
    users_known: bool
    known: bool
    trouble: str


class Me(TypedDict):
    """The session, and what this server can do."""

    user: str
    role: Literal["user", "operator", "administrator"]
    owner: bool
    ends: float
    cluster: str
    clusters: list[OtherCluster]
    corral: bool
    mine: bool
    figures: bool
    storage: list[str]
    racks: bool
    node_kinds: list[tuple[Kind, str]]
    job_kinds: list[tuple[Kind, str]]
    csrf: NotRequired[str]


class NodeRow(TypedDict):
    """A node, as a row of the columns of this name."""

    name: str
    state: str
    usable: bool
    resumable: bool
    reason: str
    reason_user: str
    reason_at: int | str | None
    cpus: int
    cpus_used: int
    load: float | None
    memory: int
    memory_used: int
    memory_free: int | None
    gpus: int
    gpus_used: int | None
    gres: str
    partitions: list[str]
    features: list[str]
    island: str
    address: str
    version: str
    boot_at: int | None
    watts: int | None
    watts_most: int
    kind: Kind


class JobRow(TypedDict):
    """A job, as a row of the columns of this name."""

    id: int
    label: str
    name: str
    user: str
    state: str
    reason: str
    why: str
    account: str
    partition: str
    qos: str
    priority: int | None
    nodes: str
    node_count: int
    cpus: int
    gpus: int
    memory: int
    submit_at: int | None
    start_at: int | None
    end_at: int | None
    limit: int | None
    exit_status: int | None
    exit_signal: int
    exit: str
    held: bool
    gpus_exact: bool
    waiting: bool
    running: bool
    ended: bool
    failed: bool
    cancelled: bool
    kind: Kind


class JobRights(TypedDict):
    """What the viewer of a job may do to it; known_at: when it was seen, 0 for now."""

    ended: bool
    mine: bool
    may: bool
    forgotten: bool
    known_at: float


def _detail() -> dict[str, Any]:
    """Types of a job's row, of the other fields of its record, and of what its viewer may do."""
    record = {name: kind for name, kind in get_type_hints(Job).items() if name not in NOT_SHOWN}
    return record | get_type_hints(JobRow) | get_type_hints(JobRights)


if TYPE_CHECKING:
    JobDetail = dict[str, Any]
else:  # a field of the record is declared there alone
    JobDetail = TypedDict("JobDetail", _detail())
    JobDetail.__doc__ = "One job, with what its viewer may do to it."


class PartitionRow(TypedDict):
    """A row of the partitions table; null: no limit."""

    name: str
    state: str
    nodes: str
    node_count: int
    max_time: int | None
    max_nodes: int | None


class Shown(TypedDict):
    """How many jobs each tab of the queue has."""

    all: int
    running: int
    waiting: int


class Counts(TypedDict):
    """The figures at the top of the page."""

    nodes: int
    usable: int
    gpus: int
    gpus_used: int
    gpus_used_exact: bool
    cpus: int
    cpus_used: int
    jobs: dict[str, int]
    shown: Shown
    partitions: list[PartitionRow]


class Head(TypedDict):
    """The state of Slurm's daemons.

    seen_at: when Slurm answered last; jobs_at: when all of each job was read last. From 5,000 jobs
    on a poll has the states of all and each job whose state changed.
    """

    rev: int
    nodes_rev: int
    jobs_rev: int
    seen_at: float
    jobs_at: float
    trouble: str
    unread: str
    release: str
    complete: bool
    counts: Counts
    at: NotRequired[float]


class LiveState(Head):
    """An event of the cluster: its state, and rows that are new, where they are few.

    columns: of jobs, in the first event; nodes, jobs: rows; again: events before were left out.
    """

    columns: NotRequired[list[str]]
    nodes: NotRequired[list[list[object]]]
    nodes_gone: NotRequired[list[str]]
    jobs: NotRequired[list[list[object]]]
    jobs_gone: NotRequired[list[int]]
    again: NotRequired[bool]


class LiveAge(TypedDict):
    """An event while nothing changes: how old the state is, as in its head, and the time now."""

    seen_at: float
    jobs_at: float
    at: float


class Rows(TypedDict):
    """Records as rows of named columns."""

    columns: list[str]
    rows: list[list[object]]


class Nodes(Rows):
    """All nodes."""

    nodes_rev: int


class NodeColumns(TypedDict):
    """All nodes; values: of each column, those of all nodes."""

    nodes_rev: int
    columns: list[str]
    values: list[list[object]]


class StateCount(TypedDict):
    """How many tasks of an array are in a state."""

    state: str
    kind: Kind
    count: int


class ArrayRow(TypedDict):
    """An array in a list: exact: no task is left out; alike: all tasks have the same resources.

    ``running``: some of its tasks are.
    """

    array: str
    tasks: int
    exact: bool
    alike: bool
    ended: bool
    running: bool
    counts: list[StateCount]


class Jobs(Rows):
    """One page of the queue; arrays: of rows that stand for one, by their id."""

    jobs_rev: int
    total: int
    jobs: NotRequired[int]
    arrays: NotRequired[dict[str, ArrayRow]]


class JobWords(TypedDict):
    """What a filter of jobs may be made of: its keys, each with the values that jobs have of it."""

    words: dict[str, list[str]]


class UserCount(TypedDict):
    """A user's number of jobs in a selection."""

    user: str
    count: int


class ChosenJobs(TypedDict):
    """A selection of jobs; others: jobs of other users, which are left out.

    nodes: where those of them run, as a hostlist; "" where none has begun.
    """

    targets: list[str]
    tasks: int
    exact: bool
    users: list[UserCount]
    others: int
    nodes: str
    node_count: int


class FailedOne(TypedDict):
    """A job or node of several that was not changed, and why."""

    name: str
    message: str
    hint: str


class BulkResult(TypedDict):
    """What was done to several jobs or nodes."""

    done: list[str]
    failed: list[FailedOne]


class Past(Rows):
    """One page of what has ended."""

    total: int
    jobs: NotRequired[int]
    arrays: NotRequired[dict[str, ArrayRow]]
    why: str
    cut: bool
    most: int


class NamedJob(TypedDict):
    """A job that has a GPU."""

    id: int
    label: str
    name: str
    user: str


class NodeGpu(TypedDict):
    """One GPU of a node; None is unknown, and an empty list of jobs: no job has it."""

    index: int
    jobs: list[NamedJob] | None
    use: float | None
    memory: float | None
    memory_total: float | None
    celsius: float | None
    watts: float | None
    xid: float | None
    ecc: float | None
    faulty: bool


class NodeEvent(TypedDict):
    """What happened to a node; by: "" where nothing records who; run: that of Corral, or ""."""

    at: float
    what: str
    by: str
    why: str
    source: Literal["page", "slurm", "journal"]
    run: str


class Machine(TypedDict):
    """A node's machine; cores: of each socket, threads: of each core, 0 and "": unknown.

    busy_at: when a job was there last.
    """

    kernel: str
    architecture: str
    sockets: int
    cores: int
    threads: int
    busy_at: int | None


class NodeDetail(TypedDict):
    """One node; events before ``since`` are known in part, journal: Corral's are among them.

    outages: those that accounting has of 30 days are among them, too. cut: there are older events.
    """

    machine: Machine
    jobs: Rows
    gpus: list[NodeGpu]
    readings: bool
    health: LastHealth
    events: list[NodeEvent]
    since: float
    outages: bool
    journal: bool
    cut: bool


class HealthLine(TypedDict):
    """One check of a node's health check."""

    check: str
    word: Literal["ok", "warn", "fail", "none"]
    text: str


class LastHealth(TypedDict):
    """The last check of a node's health; at null: unknown; why: what is unknown of it."""

    at: float | None
    checks: list[HealthLine]
    why: str


class NodeHealth(TypedDict):
    """A node's health check; silent: why it did not answer."""

    at: float
    checks: list[HealthLine]
    silent: list[str]


class NodeFigures(TypedDict, total=False):
    """What a node's metrics report; only what there is."""

    celsius: float
    watts: float
    gpu: float


class AllFigures(TypedDict):
    """Metrics of each node, by its name."""

    nodes: dict[str, NodeFigures]


class FigureColumns(TypedDict):
    """Metrics of nodes by column: names is a hostlist, and the values are in its order."""

    names: str
    columns: list[str]
    values: list[list[float | None]]


class Curve(TypedDict):
    """One quantity of a job over time: unix seconds and values."""

    what: str
    name: str
    points: list[tuple[float, float]]


Curves = TypedDict("Curves", {"from": str, "curves": list[Curve]})


class PastCurve(TypedDict):
    """One quantity of the cluster over time, a value for each time; None: unknown."""

    what: str
    name: str
    values: list[float | None]


ClusterCurves = TypedDict(
    "ClusterCurves", {"from": str, "at": list[float], "curves": list[PastCurve]}
)


class JobUse(TypedDict):
    """What an ended job used of what it was given: processor seconds, MiB; None: not measured.

    gpu_s: seconds that its GPUs were busy, of all together; why_no_gpus: why these are unknown.
    """

    cpu_s: float | None
    cpu_given_s: float | None
    memory: float | None
    memory_given: float | None
    gpus: int | None
    gpu_s: float | None
    gpu_given_s: float | None
    why_no_gpus: str


class Diagnosis(TypedDict):
    """One failure that the doctor knows."""

    id: str
    name: str
    title: str
    nodes: list[str]
    detail: str
    line: int
    evidence: list[str]
    contrary: str
    cause: str
    fix: str
    source: str
    severity: str
    fix_by: str


class FatalLine(TypedDict):
    """A line of a log that reports an error, and its number there."""

    line: int
    text: str


class JobEnd(TypedDict):
    """Why a job failed; lines: those that report an error, where no failure is known.

    memory: the peak of its largest step in MiB, None: not measured; no_output: why there is none.
    seen: what the viewer may see of it: its output, Slurm's record, or how it ended.
    """

    seen: Literal["output", "record", "state"]
    known: bool
    at: float
    why: str
    findings: list[Diagnosis]
    lines: list[FatalLine]
    no_output: str
    memory: float | None
    about: EndsAbout


class RackElevation(TypedDict):
    """A rack as the cluster file declares it.

    units: its height; row: "" for none; nodes: name, lowest unit from 1, units, column from 0, and
    columns next to each other.
    """

    name: str
    row: str
    units: int
    nodes: list[tuple[str, int, int, int, int]]


class Places(TypedDict):
    """Where nodes are: the rack of each, else its switch; and the racks, in the file's order."""

    racks: dict[str, str]
    elevations: list[RackElevation]


class Extras(TypedDict):
    """Environment, tracked run and recordings of a job."""

    environment: list[tuple[str, str]]
    run: str
    tracking: str
    recordings: list[str]


class RankTimes(TypedDict):
    """Where one rank's time went, in milliseconds."""

    rank: int
    device: str
    steps: int
    wall_ms: float
    compute_ms: float
    communication_ms: float
    overlap_ms: float
    idle_ms: float
    top: list[dict[str, object]]


class ProfileRow(TypedDict):
    """A kernel or a system call: its share of the rank's time, all its calls together."""

    percent: float
    ms: float
    calls: int
    name: str


class Profile(TypedDict):
    """What a profiled job recorded; kernels and calls by rank, sizes in bytes by file."""

    job: int | str
    folder: str
    ranks: list[RankTimes]
    kernels: dict[str, list[ProfileRow]]
    calls: dict[str, list[ProfileRow]]
    too_large: dict[str, int]
    incomplete: bool


class BatchScript(TypedDict):
    """A job's batch script."""

    script: str


class JobPreview(TypedDict):
    """What a filled form stands for: the batch script, and how many jobs it makes.

    at_once: how many of them run at once at most, None for no limit.
    """

    script: str
    jobs: int
    at_once: int | None


class ExpectedStart(TypedDict):
    """When and where Slurm would start a job as the cluster is now; None: it gives no time.

    waits: what of a limit must become free before, "" for nothing; beyond: why a script alone
    exceeds a limit, by its field or the option of sbatch.
    """

    start_at: int | None
    nodes: str
    waits: str
    beyond: dict[str, str]


class LogFile(TypedDict):
    """A file that a job prints to; trouble: why it cannot be read."""

    name: str
    path: str
    size: int
    at: int
    trouble: str


class ArrayTask(TypedDict):
    """A task of an array with its own record: its job's number, and its number in the array."""

    id: int
    label: str
    task: int
    state: str
    kind: Kind
    waiting: bool


class ArrayTasks(TypedDict):
    """An array with its tasks: the first ones of total, and of those that failed."""

    array: ArrayRow
    tasks: list[ArrayTask]
    total: int
    failed: list[ArrayTask]


class SweepPoints(TypedDict):
    """A sweep's names, and the values of each task in their order; none: it is of no sweep."""

    names: list[str]
    points: list[list[str]]


class LogFiles(TypedDict):
    """The files of a job. left_out: ranks that are not listed."""

    files: list[LogFile]
    left_out: int


class LogPiece(TypedDict):
    """Text of a file; again: it was written again; trouble: why it cannot be read."""

    file: str
    start: int
    end: int
    text: str
    again: bool
    trouble: str


class LogBatch(TypedDict):
    """An event of a log; live: all earlier output has been sent; ranks: how many it has."""

    pieces: list[LogPiece]
    live: bool
    ranks: int


class LogPart(TypedDict):
    """Complete lines of a file, and how long it is."""

    file: str
    start: int
    end: int
    size: int
    text: str


class LogHit(TypedDict):
    """A line with the text that was searched: its first byte, its number from 0."""

    name: str
    start: int
    line: int
    text: str


class LogMatches(TypedDict):
    """Lines with a text; where end is below size the search goes on there, in line."""

    hits: list[LogHit]
    end: int
    line: int
    size: int


class FormValue(TypedDict):
    """What a line of a script asks for, as a field of the form has it."""

    line: int
    value: str


class ScriptLine(TypedDict):
    """A line of a script, and notes about it."""

    line: int
    text: str


class OtherLine(ScriptLine):
    """A line that no field holds; field: the one that takes its place when it is filled in."""

    field: str


class Directives(TypedDict):
    """What the #SBATCH lines of a script ask for; faults: those that cannot be carried over.

    sbatch: lines that Slurm's REST API does not take: with them sbatch submits the script.
    ignored: lines behind the first command, which sbatch does not read.
    jobs: how many it makes, None where that is not known; at_once: how many of them run at once at
    most, None for no limit.
    """

    fields: dict[str, FormValue]
    others: list[OtherLine]
    faults: list[ScriptLine]
    sbatch: list[ScriptLine]
    ignored: list[ScriptLine]
    jobs: int | None
    at_once: int | None


class JobAgain(TypedDict):
    """A job to be submitted again; notes: by field, what is missing or is not as it was."""

    id: int
    label: str
    mode: Literal["form", "script"]
    form: dict[str, object]
    script: str
    name: str
    workdir: str
    notes: dict[str, str]


class Recipient(TypedDict):
    """Who may get a message at a job's end, by the name that sbatch --mail-user takes."""

    name: str
    about: str


class JobForm(TypedDict):
    """What the form of a job is made from."""

    schema: dict[str, object]
    can_spec: bool
    why_no_spec: str
    storage: list[str]
    containers: bool
    recipients: list[Recipient]


class PartitionChoice(TypedDict):
    """A partition, and what is free on its nodes that take jobs; None: unknown, or no limit."""

    name: str
    state: str
    takes_jobs: bool
    is_default: bool
    max_time: int | None
    nodes: int
    idle: int
    cpus: int
    cpus_free: int
    gpus: int
    gpus_free: int | None


class QosChoice(TypedDict):
    """A QOS, and what is left of its limits; None: no limit is known."""

    name: str
    gpus_left: int | None
    jobs_left: int | None


class AccountChoice(QosChoice):
    """An account, its QOS, and what is left of its limits."""

    is_default: bool
    qos: list[str]
    default_qos: str


class JobChoices(TypedDict):
    """What a job by form may choose."""

    known: bool
    at: float
    why: str
    partitions: list[PartitionChoice]
    accounts: list[AccountChoice]
    qos: list[QosChoice]


class JobTemplate(TypedDict):
    """A job file as a filled form; notes: by field, what is not as it is in the file.

    account: whose team keeps it; "" for root, who keeps it for all. name is "" of a team's folder
    that is not taken. fault: what is wrong with the file, "" for nothing; one on each line.
    """

    name: str
    account: str
    owner: str
    form: dict[str, object]
    notes: dict[str, str]
    fault: str


class JobImage(TypedDict):
    """A container image on shared storage; size: bytes."""

    path: str
    size: int


class JobEnvironments(TypedDict):
    """What a job may run in; pythons: folders of environments. cut: not all are listed."""

    images: list[JobImage]
    pythons: list[str]
    cut: bool


class JobTemplates(TypedDict):
    """Job files that are kept, for all or by a team.

    trouble: why files of the folder are not listed.
    """

    folder: str
    trouble: str
    templates: list[JobTemplate]


class ClusterFile(TypedDict):
    """The cluster file; path is "" where it is not on this machine."""

    path: str
    text: str
    cluster: str


class LintFinding(TypedDict):
    """A finding about a cluster file; line 0: about the entire file."""

    rule: str
    level: Literal["error", "warning", "info"]
    message: str
    hint: str
    file: str
    line: int
    column: int
    where: str


class Lint(TypedDict):
    """All findings about a cluster file."""

    findings: list[LintFinding]


class ShownChange(TypedDict):
    """One change, without its shell."""

    resource: str
    summary: str
    before: str
    after: str
    impact: ImpactWord
    keeps: list[str]
    refuses: str


class ShownNodeChange(TypedDict):
    """One change and the nodes that get it."""

    nodes: list[str]
    change: ShownChange


class ShownStage(TypedDict):
    """Changes that are made together."""

    name: str
    title: str
    changes: list[ShownNodeChange]
    roll: dict[str, object] | None


class ShownMachine(TypedDict):
    """A machine that a provider creates, starts or removes."""

    node: str
    action: str
    summary: str


class ShownPlan(TypedDict):
    """A plan as a person reads it."""

    id: str
    empty: bool
    impact: ImpactWord
    format: int
    cluster: str
    spec_digest: str
    observed: str
    machines: list[ShownMachine]
    stages: list[ShownStage]
    deferred: list[tuple[list[str], list[str]]]
    leaving: list[ShownMachine]
    unreachable: dict[str, str]


class OutOfService(TypedDict):
    """A node that takes no jobs, without a finding that explains it."""

    node: str
    state: str
    reason: str
    by: str


class Logins(TypedDict):
    """How users log in.

    Attributes:
        codes: a terminal shows them.
        header: whom the reverse proxy names.
        oidc: host of the OpenID provider.
        password: by their own password.
    """

    codes: bool
    header: str
    oidc: str
    password: bool


class ApiToken(TypedDict):
    """A bearer token of the API, without the token."""

    id: str
    name: str
    user: str
    scopes: list[Literal["read", "submit", "administer"]]
    made: float
    ends: float


class ApiTokens(TypedDict):
    """Valid tokens, newest first."""

    tokens: list[ApiToken]


class MadeToken(ApiToken):
    """A new token, which only this answer has."""

    token: str


class Doctor(TypedDict):
    """What the doctor reports; failed_checks: of the last proof."""

    healthy: bool
    fixable: bool
    findings: list[Diagnosis]
    out_of_service: list[OutOfService]
    failed_checks: list[str]


class ProofEvidence(TypedDict):
    """What one command printed, and what was read out of it."""

    node: str
    command: str
    output: str
    figures: dict[str, str | int | float | bool | None]
    charts: NotRequired[list[dict[str, object]]]


class ProofResult(TypedDict):
    """One check."""

    check: str
    title: str
    group: str
    verdict: Literal["pass", "warn", "fail", "skip"]
    summary: str
    hint: str
    seconds: float
    uncovered: bool
    evidence: list[ProofEvidence]


class Proof(TypedDict):
    """A proof; journals of earlier versions lack what is not required."""

    cluster: str
    at: float
    good: bool
    proven: NotRequired[bool]
    only: NotRequired[list[str]]
    without: NotRequired[list[str]]
    uncovered: NotRequired[list[str]]
    results: list[ProofResult]


class LastProof(TypedDict):
    """The last proof; None: there was none."""

    proof: Proof | None


class ReportRow(TypedDict):
    """A proof or a measurement that was kept."""

    id: str
    at: float
    what: str
    good: bool
    plots: int


class Reports(TypedDict):
    """All reports, newest first."""

    reports: list[ReportRow]


class JournalRow(TypedDict):
    """One line of the journal."""

    at: float
    run: str
    by: str
    what: str
    text: str
    node: NotRequired[str]
    changes: NotRequired[list[str]]


class Journal(TypedDict):
    """The journal, newest first."""

    records: list[JournalRow]


class Cost(TypedDict):
    """What the rented machines cost; the figures are there where any is rented."""

    rented: bool
    per_hour: NotRequired[float]
    total: NotRequired[float]
    unpriced: NotRequired[int]
    unpriced_ever: NotRequired[int]
    rate: NotRequired[str]
    spent: NotRequired[str]


class WorkEvent(TypedDict):
    """One thing that happened in a piece of work."""

    at: float
    kind: str
    subject: NotRequired[str]
    node: NotRequired[str]
    message: NotRequired[str]
    seconds: NotRequired[float]
    total: NotRequired[int]


class WorkEvents(TypedDict):
    """An event of work: what has happened since the one before."""

    events: list[WorkEvent]


class Work(TypedDict):
    """The work in progress, or the last one."""

    id: str
    what: str
    running: bool
    begun: float
    ended: float
    result: object
    error: Failure | None


class LimitRow(TypedDict):
    """One limit; resource is "" of one on jobs; value: seconds of ...Wall, minutes of ...Mins.

    ``bounds``: what it bounds, in words.
    """

    name: str
    bounds: str
    resource: str
    value: int


class LimitMeaning(TypedDict):
    """A limit as sacctmgr calls it; bounds: what it bounds; means: what it does, in a sentence."""

    name: str
    bounds: str
    means: str


class LimitMeanings(TypedDict):
    """All limits, in the order in which they are shown."""

    limits: list[LimitMeaning]


class QuotaCell(TypedDict):
    """Used of a limit; limit null: unlimited, or unknown; used null: hidden; by: the limit."""

    what: Literal["gpus", "cpus", "memory", "nodes", "jobs", "submitted"]
    used: int | None
    exact: bool
    limit: int | None
    by: str
    unknown: bool


class QuotaBudget(TypedDict):
    """Resource minutes used of those allowed (GrpTRESMins); used null: unknown.

    ``bounds``: what it bounds, in words.
    """

    bounds: str
    resource: str
    used: float | None
    limit: int


class QuotaRow(TypedDict):
    """What is used of one association, account or QOS; more: limits of each job."""

    kind: Literal["user", "account", "qos-user", "qos-account", "qos"]
    name: str
    account: str
    cells: list[QuotaCell]
    budgets: list[QuotaBudget]
    more: list[LimitRow]


class Known(TypedDict):
    """Whether an answer is known, of when, and why a newer one failed."""

    known: bool
    at: float
    why: str


class TimelineJob(TypedDict):
    """A job that ran; end_at null: it is still running. runs: first and last of adjacent nodes."""

    id: int
    label: str
    name: str
    user: str
    state: str
    kind: Kind
    start_at: int
    end_at: int | None
    runs: list[tuple[int, int]]


Timeline = TypedDict(
    "Timeline",
    {
        "known": bool,
        "at": float,
        "why": str,
        "from": float,
        "to": float,
        "nodes": list[str],
        "jobs": list[TimelineJob],
        "cut": bool,
        "complete_from": float,
        "why_no_past": str,
        "most": int,
    },
)


class Quota(Known):
    """A user's limits; without QOS where why_no_qos has a reason."""

    why_no_qos: str
    rows: list[QuotaRow]


class IdleGpu(TypedDict):
    """A GPU that does nothing."""

    node: str
    index: int


class RunningJob(TypedDict):
    """A running job, or the running tasks of an array; known: GPUs that were measured.

    use: their mean, 0 to 1; idle: the first of them, idle_count: all; start_at: of the oldest task.
    """

    id: int
    label: str
    name: str
    array: ArrayRow | None
    start_at: int | None
    limit: int | None
    cpus: int
    gpus: int
    gpus_exact: bool
    known: int
    use: float | None
    idle: list[IdleGpu]
    idle_count: int


class PendingReason(TypedDict):
    """Why jobs are pending."""

    reason: str
    why: str
    jobs: int


class Measured(Known):
    """How GPUs were measured: the mean of over_s seconds, 0 for this moment."""

    over_s: float


class GpusOfJobs(TypedDict):
    """How busy the GPUs of some running jobs are."""

    running: list[RunningJob]
    measured: Measured


class MyWork(TypedDict):
    """What a user's jobs have now."""

    user: str
    at: float
    jobs: int
    pending: int
    gpus: int
    gpus_exact: bool
    cpus: int
    memory: int
    nodes: int
    reasons: list[PendingReason]
    limits: Quota
    running: list[RunningJob]
    measured: Measured


class JobsCost(TypedDict):
    """What jobs cost on rented machines; words: with "at least" where a price is unknown."""

    dollars: float
    words: str


class WorkPeriod(TypedDict):
    """Hours of jobs in a period; cost null: no price is known."""

    days: int
    jobs: int
    gpu_hours: float
    gpus_exact: bool
    cpu_hours: float
    cost: JobsCost | None


class WorkHours(TypedDict):
    """Hours of the last 7 and 30 days; cut: at least so many; why_no_cost: "" where it is known."""

    why_no_cost: str
    user: str
    known: bool
    why: str
    cut: bool
    periods: list[WorkPeriod]


class EfficiencyRow(TypedDict):
    """An ended job, or an array's: shares used of what was asked for, hours not; null: unknown.

    Of an array elapsed is the sum, end_at, cpus, gpus and memory are the newest task's, shares are
    means over the tasks that were measured.
    """

    id: int
    label: str
    name: str
    state: str
    kind: Kind
    array: ArrayRow | None
    measured: int
    end_at: int | None
    elapsed: float
    cpus: int
    gpus: int
    gpus_exact: bool
    memory: int
    cpu: float | None
    memory_used: float | None
    gpu: float | None
    cpu_waste: float | None
    gpu_waste: float | None
    memory_waste: float | None


class Efficiency(TypedDict):
    """Ended jobs of a period, newest first; cut: of more than ``most``."""

    user: str
    days: int
    most: int
    known: bool
    why: str
    cut: bool
    why_no_gpus: str
    jobs: list[EfficiencyRow]


class AccountRow(TypedDict):
    """An account (user is ""), or a user in one; part, usage, factor: sshare's, 0 to 1."""

    account: str
    user: str
    parent: str
    partition: str
    depth: int
    is_default: bool
    shares: str
    qos: list[str]
    default_qos: str
    limits: list[LimitRow]
    part: float | None
    usage: float | None
    factor: float | None


class Accounts(Known):
    """All accounts, each below the one it belongs to."""

    why_no_shares: str
    accounts: list[AccountRow]


class QosRow(TypedDict):
    """A QOS; unreported: limits that Slurm's answer does not have, which are unknown."""

    name: str
    description: str
    priority: int
    preempts: list[str]
    preempt_mode: str
    usage_factor: float | None
    grace: int
    flags: list[str]
    limits: list[LimitRow]
    unreported: list[str]


class AllQos(Known):
    """All QOS, those of highest priority first."""

    qos: list[QosRow]


class ReservationRow(TypedDict):
    """A row of the reservations table, as Slurm reports it."""

    name: str
    start: int | None
    end: int | None
    nodes: str
    node_count: int
    cores: int
    partition: str
    users: list[str]
    accounts: list[str]
    licenses: str
    flags: list[str]


class Reservations(Known):
    """All reservations, those that begin first at the top."""

    reservations: list[ReservationRow]


class LicenseRow(TypedDict):
    """A licence."""

    name: str
    total: int
    used: int
    free: int
    reserved: int
    remote: bool


class Licenses(Known):
    """All licences."""

    licenses: list[LicenseRow]


class SchedulerCycle(TypedDict):
    """A kind of scheduling cycle, in microseconds; null: not reported.

    exits: how often cycles ended for each of sdiag's words; meanings: what these mean.
    """

    count: int | None
    last: int | None
    mean: int | None
    longest: int | None
    depth: int | None
    last_depth: int | None
    queue: int | None
    last_at: int | None
    exits: dict[str, int]
    meanings: dict[str, str]


class SchedulerCall(TypedDict):
    """Requests of one type or user, in microseconds."""

    name: str
    count: int
    mean: int
    total: int


class JobEvent(TypedDict):
    """What happened to jobs, and to how many since slurmctld counts."""

    name: str
    jobs: int


class SchedulerFigures(TypedDict):
    """What sdiag prints; events: those of its counts that are of events and not of states."""

    since: int | None
    threads: int | None
    agents: int | None
    database: int | None
    jobs: dict[str, int]
    events: list[JobEvent]
    main: SchedulerCycle
    backfill: SchedulerCycle
    backfilled: int | None
    by_type: list[SchedulerCall]
    by_user: list[SchedulerCall]


class SchedulerState(Known):
    """The scheduler's figures, where they are known."""

    figures: SchedulerFigures | None


class EntryField(TypedDict):
    """A field of an entry of the cluster file; limits.gpus: one of a part's."""

    name: str
    about: str
    kind: Literal["number", "flag", "list", "choice", "text"]
    choices: list[str]
    required: bool


class Declared(TypedDict):
    """What the cluster file declares of accounts and their kind; why: it cannot be changed here.

    ``entries``: the fields as written, by list and name. ``limits``: what Slurm should have, by
    ``account NAME``, ``user ACCOUNT NAME`` and ``qos NAME``. ``held``: applying the file sets
    limits back that were set by hand. ``directory``: accounts whose members a directory lists.
    """

    path: str
    digest: str
    why: str
    fields: dict[str, list[EntryField]]
    entries: dict[str, dict[str, dict[str, str]]]
    limits: dict[str, dict[str, int]]
    held: bool
    directory: list[str]


class EditedFile(TypedDict):
    """A change of the cluster file that nobody has saved; digest: of the file that it is of."""

    digest: str
    text: str
    diff: str
    findings: list[LintFinding]


NOT_ANSWERS: Final = (NodeRow, JobRow, ShownPlan, Doctor, Proof)
"""What the page has types of and no operation returns: rows of tables, and results of work."""
