// Made by .ci/page_types.py from src/corral/web/schemas.py: change that one.

/** An account, its QOS, and what is left of its limits. */
export interface AccountChoice {
  name: string;
  gpus_left: number | null;
  jobs_left: number | null;
  is_default: boolean;
  qos: string[];
  default_qos: string;
}

/** An account (user is ""), or a user in one; part, usage, factor: sshare's, 0 to 1. */
export interface AccountRow {
  account: string;
  user: string;
  parent: string;
  partition: string;
  depth: number;
  is_default: boolean;
  shares: string;
  qos: string[];
  default_qos: string;
  limits: LimitRow[];
  part: number | null;
  usage: number | null;
  factor: number | null;
}

/** All accounts, each below the one it belongs to. */
export interface Accounts {
  known: boolean;
  at: number;
  why: string;
  why_no_shares: string;
  accounts: AccountRow[];
}

/** Metrics of each node, by its name. */
export interface AllFigures {
  nodes: Record<string, NodeFigures>;
}

/** All QOS, those of highest priority first. */
export interface AllQos {
  known: boolean;
  at: number;
  why: string;
  qos: QosRow[];
}

/** A bearer token of the API, without the token. */
export interface ApiToken {
  id: string;
  name: string;
  user: string;
  scopes: ("read" | "submit" | "administer")[];
  made: number;
  ends: number;
}

/** Valid tokens, newest first. */
export interface ApiTokens {
  tokens: ApiToken[];
}

/** An array in a list: exact: no task is left out; alike: all tasks have the same resources.

``running``: some of its tasks are. */
export interface ArrayRow {
  array: string;
  tasks: number;
  exact: boolean;
  alike: boolean;
  ended: boolean;
  running: boolean;
  counts: StateCount[];
}

/** A task of an array with its own record: its job's number, and its number in the array. */
export interface ArrayTask {
  id: number;
  label: string;
  task: number;
  state: string;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
  waiting: boolean;
}

/** An array with its tasks: the first ones of total, and of those that failed. */
export interface ArrayTasks {
  array: ArrayRow;
  tasks: ArrayTask[];
  total: number;
  failed: ArrayTask[];
}

/** A job's batch script. */
export interface BatchScript {
  script: string;
}

/** What was done to several jobs or nodes. */
export interface BulkResult {
  done: string[];
  failed: FailedOne[];
}

/** A selection of jobs; others: jobs of other users, which are left out.

nodes: where those of them run, as a hostlist; "" where none has begun. */
export interface ChosenJobs {
  targets: string[];
  tasks: number;
  exact: boolean;
  users: UserCount[];
  others: number;
  nodes: string;
  node_count: number;
}

export interface ClusterCurves {
  from: string;
  at: number[];
  curves: PastCurve[];
}

/** The cluster file; path is "" where it is not on this machine. */
export interface ClusterFile {
  path: string;
  text: string;
  cluster: string;
}

/** What the rented machines cost; the figures are there where any is rented. */
export interface Cost {
  rented: boolean;
  per_hour?: number;
  total?: number;
  unpriced?: number;
  unpriced_ever?: number;
  rate?: string;
  spent?: string;
}

/** The figures at the top of the page. */
export interface Counts {
  nodes: number;
  usable: number;
  gpus: number;
  gpus_used: number;
  gpus_used_exact: boolean;
  cpus: number;
  cpus_used: number;
  jobs: Record<string, number>;
  shown: Shown;
  partitions: PartitionRow[];
}

/** One quantity of a job over time: unix seconds and values. */
export interface Curve {
  what: string;
  name: string;
  points: [number, number][];
}

export interface Curves {
  from: string;
  curves: Curve[];
}

/** What the cluster file declares of accounts and their kind; why: it cannot be changed here.

``entries``: the fields as written, by list and name. ``limits``: what Slurm should have, by
``account NAME``, ``user ACCOUNT NAME`` and ``qos NAME``. ``held``: applying the file sets
limits back that were set by hand. ``directory``: accounts whose members a directory lists. */
export interface Declared {
  path: string;
  digest: string;
  why: string;
  fields: Record<string, EntryField[]>;
  entries: Record<string, Record<string, Record<string, string>>>;
  limits: Record<string, Record<string, number>>;
  held: boolean;
  directory: string[];
}

/** One failure that the doctor knows. */
export interface Diagnosis {
  id: string;
  name: string;
  title: string;
  nodes: string[];
  detail: string;
  line: number;
  evidence: string[];
  contrary: string;
  cause: string;
  fix: string;
  source: string;
  severity: string;
  fix_by: string;
}

/** What the #SBATCH lines of a script ask for; faults: those that cannot be carried over.

sbatch: lines that Slurm's REST API does not take: with them sbatch submits the script.
ignored: lines behind the first command, which sbatch does not read.
jobs: how many it makes, None where that is not known; at_once: how many of them run at once at
most, None for no limit. */
export interface Directives {
  fields: Record<string, FormValue>;
  others: OtherLine[];
  faults: ScriptLine[];
  sbatch: ScriptLine[];
  ignored: ScriptLine[];
  jobs: number | null;
  at_once: number | null;
}

/** What the doctor reports; failed_checks: of the last proof. */
export interface Doctor {
  healthy: boolean;
  fixable: boolean;
  findings: Diagnosis[];
  out_of_service: OutOfService[];
  failed_checks: string[];
}

/** What was asked for was done. */
export interface Done {
  ok: boolean;
}

/** A change of the cluster file that nobody has saved; digest: of the file that it is of. */
export interface EditedFile {
  digest: string;
  text: string;
  diff: string;
  findings: LintFinding[];
}

/** Ended jobs of a period, newest first; cut: of more than ``most``. */
export interface Efficiency {
  user: string;
  days: number;
  most: number;
  known: boolean;
  why: string;
  cut: boolean;
  why_no_gpus: string;
  jobs: EfficiencyRow[];
}

/** An ended job, or an array's: shares used of what was asked for, hours not; null: unknown.

Of an array elapsed is the sum, end_at, cpus, gpus and memory are the newest task's, shares are
means over the tasks that were measured. */
export interface EfficiencyRow {
  id: number;
  label: string;
  name: string;
  state: string;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
  array: ArrayRow | null;
  measured: number;
  end_at: number | null;
  elapsed: number;
  cpus: number;
  gpus: number;
  gpus_exact: boolean;
  memory: number;
  cpu: number | null;
  memory_used: number | null;
  gpu: number | null;
  cpu_waste: number | null;
  gpu_waste: number | null;
  memory_waste: number | null;
}

/** A field of an entry of the cluster file; limits.gpus: one of a part's. */
export interface EntryField {
  name: string;
  about: string;
  kind: "number" | "flag" | "list" | "choice" | "text";
  choices: string[];
  required: boolean;
}

/** When and where Slurm would start a job as the cluster is now; None: it gives no time.

waits: what of a limit must become free before, "" for nothing; beyond: why a script alone
exceeds a limit, by its field or the option of sbatch. */
export interface ExpectedStart {
  start_at: number | null;
  nodes: string;
  waits: string;
  beyond: Record<string, string>;
}

/** Environment, tracked run and recordings of a job. */
export interface Extras {
  environment: [string, string][];
  run: string;
  tracking: string;
  recordings: string[];
}

/** A job or node of several that was not changed, and why. */
export interface FailedOne {
  name: string;
  message: string;
  hint: string;
}

/** Why a request or a piece of work failed. */
export interface Failure {
  code: string;
  message: string;
  hint?: string;
  node?: string;
  tail?: string;
  command?: string;
  status?: number | null;
  fields?: Record<string, string>;
}

/** A line of a log that reports an error, and its number there. */
export interface FatalLine {
  line: number;
  text: string;
}

/** Metrics of nodes by column: names is a hostlist, and the values are in its order. */
export interface FigureColumns {
  names: string;
  columns: string[];
  values: (number | null)[][];
}

/** What a line of a script asks for, as a field of the form has it. */
export interface FormValue {
  line: number;
  value: string;
}

/** How busy the GPUs of some running jobs are. */
export interface GpusOfJobs {
  running: RunningJob[];
  measured: Measured;
}

/** The state of Slurm's daemons.

seen_at: when Slurm answered last; jobs_at: when all of each job was read last. From 5,000 jobs
on a poll has the states of all and each job whose state changed. */
export interface Head {
  rev: number;
  nodes_rev: number;
  jobs_rev: number;
  seen_at: number;
  jobs_at: number;
  trouble: string;
  unread: string;
  release: string;
  complete: boolean;
  counts: Counts;
  at?: number;
}

/** One check of a node's health check. */
export interface HealthLine {
  check: string;
  word: "ok" | "warn" | "fail" | "none";
  text: string;
}

/** A GPU that does nothing. */
export interface IdleGpu {
  node: string;
  index: number;
}

/** A job to be submitted again; notes: by field, what is missing or is not as it was. */
export interface JobAgain {
  id: number;
  label: string;
  mode: "form" | "script";
  form: Record<string, unknown>;
  script: string;
  name: string;
  workdir: string;
  notes: Record<string, string>;
}

/** What a job by form may choose. */
export interface JobChoices {
  known: boolean;
  at: number;
  why: string;
  partitions: PartitionChoice[];
  accounts: AccountChoice[];
  qos: QosChoice[];
}

/** One job, with what its viewer may do to it. */
export interface JobDetail {
  id: number;
  label: string;
  name: string;
  user: string;
  state: string;
  reason: string;
  account: string;
  partition: string;
  qos: string;
  priority: number | null;
  nodes: string;
  node_count: number;
  cpus: number;
  gpus: number;
  gpus_exact: boolean;
  tres_asked: string;
  memory: number;
  submit_at: number | null;
  eligible_at: number | null;
  start_at: number | null;
  end_at: number | null;
  limit: number | null;
  exit_status: number | null;
  exit_signal: number;
  stdout: string;
  stderr: string;
  workdir: string;
  command: string;
  comment: string;
  admin_comment: string;
  system_comment: string;
  group: string;
  wckey: string;
  dependency: string;
  restarts: number;
  submit_line: string;
  why: string;
  exit: string;
  held: boolean;
  waiting: boolean;
  running: boolean;
  ended: boolean;
  failed: boolean;
  cancelled: boolean;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
  mine: boolean;
  may: boolean;
  forgotten: boolean;
  known_at: number;
}

/** Why a job failed; lines: those that report an error, where no failure is known.

memory: the peak of its largest step in MiB, None: not measured; no_output: why there is none.
seen: what the viewer may see of it: its output, Slurm's record, or how it ended. */
export interface JobEnd {
  seen: "output" | "record" | "state";
  known: boolean;
  at: number;
  why: string;
  findings: Diagnosis[];
  lines: FatalLine[];
  no_output: string;
  memory: number | null;
  about: "" | "memory" | "time" | "nodes";
}

/** What a job may run in; pythons: folders of environments. cut: not all are listed. */
export interface JobEnvironments {
  images: JobImage[];
  pythons: string[];
  cut: boolean;
}

/** What happened to jobs, and to how many since slurmctld counts. */
export interface JobEvent {
  name: string;
  jobs: number;
}

/** What the form of a job is made from. */
export interface JobForm {
  schema: Record<string, unknown>;
  can_spec: boolean;
  why_no_spec: string;
  storage: string[];
  containers: boolean;
  recipients: Recipient[];
}

/** A container image on shared storage; size: bytes. */
export interface JobImage {
  path: string;
  size: number;
}

/** What a filled form stands for: the batch script, and how many jobs it makes.

at_once: how many of them run at once at most, None for no limit. */
export interface JobPreview {
  script: string;
  jobs: number;
  at_once: number | null;
}

/** A job, as a row of the columns of this name. */
export interface JobRow {
  id: number;
  label: string;
  name: string;
  user: string;
  state: string;
  reason: string;
  why: string;
  account: string;
  partition: string;
  qos: string;
  priority: number | null;
  nodes: string;
  node_count: number;
  cpus: number;
  gpus: number;
  memory: number;
  submit_at: number | null;
  start_at: number | null;
  end_at: number | null;
  limit: number | null;
  exit_status: number | null;
  exit_signal: number;
  exit: string;
  held: boolean;
  gpus_exact: boolean;
  waiting: boolean;
  running: boolean;
  ended: boolean;
  failed: boolean;
  cancelled: boolean;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
}

/** A job file as a filled form; notes: by field, what is not as it is in the file.

account: whose team keeps it; "" for root, who keeps it for all. name is "" of a team's folder
that is not taken. fault: what is wrong with the file, "" for nothing; one on each line. */
export interface JobTemplate {
  name: string;
  account: string;
  owner: string;
  form: Record<string, unknown>;
  notes: Record<string, string>;
  fault: string;
}

/** Job files that are kept, for all or by a team.

trouble: why files of the folder are not listed. */
export interface JobTemplates {
  folder: string;
  trouble: string;
  templates: JobTemplate[];
}

/** What an ended job used of what it was given: processor seconds, MiB; None: not measured.

gpu_s: seconds that its GPUs were busy, of all together; why_no_gpus: why these are unknown. */
export interface JobUse {
  cpu_s: number | null;
  cpu_given_s: number | null;
  memory: number | null;
  memory_given: number | null;
  gpus: number | null;
  gpu_s: number | null;
  gpu_given_s: number | null;
  why_no_gpus: string;
}

/** What a filter of jobs may be made of: its keys, each with the values that jobs have of it. */
export interface JobWords {
  words: Record<string, string[]>;
}

/** One page of the queue; arrays: of rows that stand for one, by their id. */
export interface Jobs {
  columns: string[];
  rows: unknown[][];
  jobs_rev: number;
  total: number;
  jobs?: number;
  arrays?: Record<string, ArrayRow>;
}

/** What jobs cost on rented machines; words: with "at least" where a price is unknown. */
export interface JobsCost {
  dollars: number;
  words: string;
}

/** The journal, newest first. */
export interface Journal {
  records: JournalRow[];
}

/** One line of the journal. */
export interface JournalRow {
  at: number;
  run: string;
  by: string;
  what: string;
  text: string;
  node?: string;
  changes?: string[];
}

/** The last check of a node's health; at null: unknown; why: what is unknown of it. */
export interface LastHealth {
  at: number | null;
  checks: HealthLine[];
  why: string;
}

/** The last proof; None: there was none. */
export interface LastProof {
  proof: Proof | null;
}

/** A licence. */
export interface LicenseRow {
  name: string;
  total: number;
  used: number;
  free: number;
  reserved: number;
  remote: boolean;
}

/** All licences. */
export interface Licenses {
  known: boolean;
  at: number;
  why: string;
  licenses: LicenseRow[];
}

/** A limit as sacctmgr calls it; bounds: what it bounds; means: what it does, in a sentence. */
export interface LimitMeaning {
  name: string;
  bounds: string;
  means: string;
}

/** All limits, in the order in which they are shown. */
export interface LimitMeanings {
  limits: LimitMeaning[];
}

/** One limit; resource is "" of one on jobs; value: seconds of ...Wall, minutes of ...Mins.

``bounds``: what it bounds, in words. */
export interface LimitRow {
  name: string;
  bounds: string;
  resource: string;
  value: number;
}

/** All findings about a cluster file. */
export interface Lint {
  findings: LintFinding[];
}

/** A finding about a cluster file; line 0: about the entire file. */
export interface LintFinding {
  rule: string;
  level: "error" | "warning" | "info";
  message: string;
  hint: string;
  file: string;
  line: number;
  column: number;
  where: string;
}

/** An event while nothing changes: how old the state is, as in its head, and the time now. */
export interface LiveAge {
  seen_at: number;
  jobs_at: number;
  at: number;
}

/** An event of the cluster: its state, and rows that are new, where they are few.

columns: of jobs, in the first event; nodes, jobs: rows; again: events before were left out. */
export interface LiveState {
  rev: number;
  nodes_rev: number;
  jobs_rev: number;
  seen_at: number;
  jobs_at: number;
  trouble: string;
  unread: string;
  release: string;
  complete: boolean;
  counts: Counts;
  at?: number;
  columns?: string[];
  nodes?: unknown[][];
  nodes_gone?: string[];
  jobs?: unknown[][];
  jobs_gone?: number[];
  again?: boolean;
}

/** An event of a log; live: all earlier output has been sent; ranks: how many it has. */
export interface LogBatch {
  pieces: LogPiece[];
  live: boolean;
  ranks: number;
}

/** A file that a job prints to; trouble: why it cannot be read. */
export interface LogFile {
  name: string;
  path: string;
  size: number;
  at: number;
  trouble: string;
}

/** The files of a job. left_out: ranks that are not listed. */
export interface LogFiles {
  files: LogFile[];
  left_out: number;
}

/** A line with the text that was searched: its first byte, its number from 0. */
export interface LogHit {
  name: string;
  start: number;
  line: number;
  text: string;
}

/** Lines with a text; where end is below size the search goes on there, in line. */
export interface LogMatches {
  hits: LogHit[];
  end: number;
  line: number;
  size: number;
}

/** Complete lines of a file, and how long it is. */
export interface LogPart {
  file: string;
  start: number;
  end: number;
  size: number;
  text: string;
}

/** Text of a file; again: it was written again; trouble: why it cannot be read. */
export interface LogPiece {
  file: string;
  start: number;
  end: number;
  text: string;
  again: boolean;
  trouble: string;
}

/** The session ended; leave: where the provider's login ends, "" for nowhere. */
export interface LoggedOut {
  ok: boolean;
  leave: string;
}

/** A one-time code, and whose session it opens. */
export interface LoginCode {
  code: string;
  user: string;
}

/** How users log in.

Attributes:
    codes: a terminal shows them.
    header: whom the reverse proxy names.
    oidc: host of the OpenID provider.
    password: by their own password. */
export interface Logins {
  codes: boolean;
  header: string;
  oidc: string;
  password: boolean;
}

/** A node's machine; cores: of each socket, threads: of each core, 0 and "": unknown.

busy_at: when a job was there last. */
export interface Machine {
  kernel: string;
  architecture: string;
  sockets: number;
  cores: number;
  threads: number;
  busy_at: number | null;
}

/** A new token, which only this answer has. */
export interface MadeToken {
  id: string;
  name: string;
  user: string;
  scopes: ("read" | "submit" | "administer")[];
  made: number;
  ends: number;
  token: string;
}

/** A job that a search found. */
export interface MatchingJob {
  id: number;
  label: string;
  name: string;
  user: string;
  state: string;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
  nodes: string;
}

/** A node that a search found. */
export interface MatchingNode {
  name: string;
  state: string;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
  reason: string;
}

/** A user whom a search found, and how many jobs of this user are running and pending. */
export interface MatchingUser {
  name: string;
  running: number;
  waiting: number;
}

/** The session, and what this server can do. */
export interface Me {
  user: string;
  role: "user" | "operator" | "administrator";
  owner: boolean;
  ends: number;
  cluster: string;
  clusters: OtherCluster[];
  corral: boolean;
  mine: boolean;
  figures: boolean;
  storage: string[];
  racks: boolean;
  node_kinds: ["good" | "busy" | "mix" | "warn" | "bad" | "off", string][];
  job_kinds: ["good" | "busy" | "mix" | "warn" | "bad" | "off", string][];
  csrf?: string;
}

/** How GPUs were measured: the mean of over_s seconds, 0 for this moment. */
export interface Measured {
  known: boolean;
  at: number;
  why: string;
  over_s: number;
}

/** What a user's jobs have now. */
export interface MyWork {
  user: string;
  at: number;
  jobs: number;
  pending: number;
  gpus: number;
  gpus_exact: boolean;
  cpus: number;
  memory: number;
  nodes: number;
  reasons: PendingReason[];
  limits: Quota;
  running: RunningJob[];
  measured: Measured;
}

/** A job that has a GPU. */
export interface NamedJob {
  id: number;
  label: string;
  name: string;
  user: string;
}

/** All nodes; values: of each column, those of all nodes. */
export interface NodeColumns {
  nodes_rev: number;
  columns: string[];
  values: unknown[][];
}

/** One node; events before ``since`` are known in part, journal: Corral's are among them.

outages: those that accounting has of 30 days are among them, too. cut: there are older events. */
export interface NodeDetail {
  machine: Machine;
  jobs: Rows;
  gpus: NodeGpu[];
  readings: boolean;
  health: LastHealth;
  events: NodeEvent[];
  since: number;
  outages: boolean;
  journal: boolean;
  cut: boolean;
}

/** What happened to a node; by: "" where nothing records who; run: that of Corral, or "". */
export interface NodeEvent {
  at: number;
  what: string;
  by: string;
  why: string;
  source: "page" | "slurm" | "journal";
  run: string;
}

/** What a node's metrics report; only what there is. */
export interface NodeFigures {
  celsius?: number;
  watts?: number;
  gpu?: number;
}

/** One GPU of a node; None is unknown, and an empty list of jobs: no job has it. */
export interface NodeGpu {
  index: number;
  jobs: NamedJob[] | null;
  use: number | null;
  memory: number | null;
  memory_total: number | null;
  celsius: number | null;
  watts: number | null;
  xid: number | null;
  ecc: number | null;
  faulty: boolean;
}

/** A node's health check; silent: why it did not answer. */
export interface NodeHealth {
  at: number;
  checks: HealthLine[];
  silent: string[];
}

/** A node, as a row of the columns of this name. */
export interface NodeRow {
  name: string;
  state: string;
  usable: boolean;
  resumable: boolean;
  reason: string;
  reason_user: string;
  reason_at: number | string | null;
  cpus: number;
  cpus_used: number;
  load: number | null;
  memory: number;
  memory_used: number;
  memory_free: number | null;
  gpus: number;
  gpus_used: number | null;
  gres: string;
  partitions: string[];
  features: string[];
  island: string;
  address: string;
  version: string;
  boot_at: number | null;
  watts: number | null;
  watts_most: number;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
}

/** All nodes. */
export interface Nodes {
  columns: string[];
  rows: unknown[][];
  nodes_rev: number;
}

/** Another cluster that the page shows: its name, and the origin of that page. */
export interface OtherCluster {
  name: string;
  url: string;
}

/** A line that no field holds; field: the one that takes its place when it is filled in. */
export interface OtherLine {
  line: number;
  text: string;
  field: string;
}

/** A node that takes no jobs, without a finding that explains it. */
export interface OutOfService {
  node: string;
  state: string;
  reason: string;
  by: string;
}

/** A partition, and what is free on its nodes that take jobs; None: unknown, or no limit. */
export interface PartitionChoice {
  name: string;
  state: string;
  takes_jobs: boolean;
  is_default: boolean;
  max_time: number | null;
  nodes: number;
  idle: number;
  cpus: number;
  cpus_free: number;
  gpus: number;
  gpus_free: number | null;
}

/** A row of the partitions table; null: no limit. */
export interface PartitionRow {
  name: string;
  state: string;
  nodes: string;
  node_count: number;
  max_time: number | null;
  max_nodes: number | null;
}

/** One page of what has ended. */
export interface Past {
  columns: string[];
  rows: unknown[][];
  total: number;
  jobs?: number;
  arrays?: Record<string, ArrayRow>;
  why: string;
  cut: boolean;
  most: number;
}

/** One quantity of the cluster over time, a value for each time; None: unknown. */
export interface PastCurve {
  what: string;
  name: string;
  values: (number | null)[];
}

/** Why jobs are pending. */
export interface PendingReason {
  reason: string;
  why: string;
  jobs: number;
}

/** Where nodes are: the rack of each, else its switch; and the racks, in the file's order. */
export interface Places {
  racks: Record<string, string>;
  elevations: RackElevation[];
}

/** What a profiled job recorded; kernels and calls by rank, sizes in bytes by file. */
export interface Profile {
  job: number | string;
  folder: string;
  ranks: RankTimes[];
  kernels: Record<string, ProfileRow[]>;
  calls: Record<string, ProfileRow[]>;
  too_large: Record<string, number>;
  incomplete: boolean;
}

/** A kernel or a system call: its share of the rank's time, all its calls together. */
export interface ProfileRow {
  percent: number;
  ms: number;
  calls: number;
  name: string;
}

/** A proof; journals of earlier versions lack what is not required. */
export interface Proof {
  cluster: string;
  at: number;
  good: boolean;
  proven?: boolean;
  only?: string[];
  without?: string[];
  uncovered?: string[];
  results: ProofResult[];
}

/** What one command printed, and what was read out of it. */
export interface ProofEvidence {
  node: string;
  command: string;
  output: string;
  figures: Record<string, string | number | number | boolean | null>;
  charts?: Record<string, unknown>[];
}

/** One check. */
export interface ProofResult {
  check: string;
  title: string;
  group: string;
  verdict: "pass" | "warn" | "fail" | "skip";
  summary: string;
  hint: string;
  seconds: number;
  uncovered: boolean;
  evidence: ProofEvidence[];
}

/** A QOS, and what is left of its limits; None: no limit is known. */
export interface QosChoice {
  name: string;
  gpus_left: number | null;
  jobs_left: number | null;
}

/** A QOS; unreported: limits that Slurm's answer does not have, which are unknown. */
export interface QosRow {
  name: string;
  description: string;
  priority: number;
  preempts: string[];
  preempt_mode: string;
  usage_factor: number | null;
  grace: number;
  flags: string[];
  limits: LimitRow[];
  unreported: string[];
}

/** A user's limits; without QOS where why_no_qos has a reason. */
export interface Quota {
  known: boolean;
  at: number;
  why: string;
  why_no_qos: string;
  rows: QuotaRow[];
}

/** Resource minutes used of those allowed (GrpTRESMins); used null: unknown.

``bounds``: what it bounds, in words. */
export interface QuotaBudget {
  bounds: string;
  resource: string;
  used: number | null;
  limit: number;
}

/** Used of a limit; limit null: unlimited, or unknown; used null: hidden; by: the limit. */
export interface QuotaCell {
  what: "gpus" | "cpus" | "memory" | "nodes" | "jobs" | "submitted";
  used: number | null;
  exact: boolean;
  limit: number | null;
  by: string;
  unknown: boolean;
}

/** What is used of one association, account or QOS; more: limits of each job. */
export interface QuotaRow {
  kind: "user" | "account" | "qos-user" | "qos-account" | "qos";
  name: string;
  account: string;
  cells: QuotaCell[];
  budgets: QuotaBudget[];
  more: LimitRow[];
}

/** A rack as the cluster file declares it.

units: its height; row: "" for none; nodes: name, lowest unit from 1, units, column from 0, and
columns next to each other. */
export interface RackElevation {
  name: string;
  row: string;
  units: number;
  nodes: [string, number, number, number, number][];
}

/** Where one rank's time went, in milliseconds. */
export interface RankTimes {
  rank: number;
  device: string;
  steps: number;
  wall_ms: number;
  compute_ms: number;
  communication_ms: number;
  overlap_ms: number;
  idle_ms: number;
  top: Record<string, unknown>[];
}

/** Who may get a message at a job's end, by the name that sbatch --mail-user takes. */
export interface Recipient {
  name: string;
  about: string;
}

/** The answer of a request that failed. */
export interface Refused {
  error: Failure;
}

/** A proof or a measurement that was kept. */
export interface ReportRow {
  id: string;
  at: number;
  what: string;
  good: boolean;
  plots: number;
}

/** All reports, newest first. */
export interface Reports {
  reports: ReportRow[];
}

/** A row of the reservations table, as Slurm reports it. */
export interface ReservationRow {
  name: string;
  start: number | null;
  end: number | null;
  nodes: string;
  node_count: number;
  cores: number;
  partition: string;
  users: string[];
  accounts: string[];
  licenses: string;
  flags: string[];
}

/** All reservations, those that begin first at the top. */
export interface Reservations {
  known: boolean;
  at: number;
  why: string;
  reservations: ReservationRow[];
}

/** Records as rows of named columns. */
export interface Rows {
  columns: string[];
  rows: unknown[][];
}

/** A running job, or the running tasks of an array; known: GPUs that were measured.

use: their mean, 0 to 1; idle: the first of them, idle_count: all; start_at: of the oldest task. */
export interface RunningJob {
  id: number;
  label: string;
  name: string;
  array: ArrayRow | null;
  start_at: number | null;
  limit: number | null;
  cpus: number;
  gpus: number;
  gpus_exact: boolean;
  known: number;
  use: number | null;
  idle: IdleGpu[];
  idle_count: number;
}

/** Requests of one type or user, in microseconds. */
export interface SchedulerCall {
  name: string;
  count: number;
  mean: number;
  total: number;
}

/** A kind of scheduling cycle, in microseconds; null: not reported.

exits: how often cycles ended for each of sdiag's words; meanings: what these mean. */
export interface SchedulerCycle {
  count: number | null;
  last: number | null;
  mean: number | null;
  longest: number | null;
  depth: number | null;
  last_depth: number | null;
  queue: number | null;
  last_at: number | null;
  exits: Record<string, number>;
  meanings: Record<string, string>;
}

/** What sdiag prints; events: those of its counts that are of events and not of states. */
export interface SchedulerFigures {
  since: number | null;
  threads: number | null;
  agents: number | null;
  database: number | null;
  jobs: Record<string, number>;
  events: JobEvent[];
  main: SchedulerCycle;
  backfill: SchedulerCycle;
  backfilled: number | null;
  by_type: SchedulerCall[];
  by_user: SchedulerCall[];
}

/** The scheduler's figures, where they are known. */
export interface SchedulerState {
  known: boolean;
  at: number;
  why: string;
  figures: SchedulerFigures | null;
}

/** A line of a script, and notes about it. */
export interface ScriptLine {
  line: number;
  text: string;
}

/** What a search found: the first ones of each kind, and how many there are.

known: Slurm has listed its jobs; users_known: accounting has listed its users; trouble: why
newer answers do not come. */
export interface SearchResult {
  jobs: MatchingJob[];
  jobs_total: number;
  nodes: MatchingNode[];
  nodes_total: number;
  users: MatchingUser[];
  users_total: number;
  users_known: boolean;
  known: boolean;
  trouble: string;
}

/** How many jobs each tab of the queue has. */
export interface Shown {
  all: number;
  running: number;
  waiting: number;
}

/** One change, without its shell. */
export interface ShownChange {
  resource: string;
  summary: string;
  before: string;
  after: string;
  impact: "none" | "reload" | "restart" | "drain" | "reboot" | "recreate";
  keeps: string[];
  refuses: string;
}

/** A machine that a provider creates, starts or removes. */
export interface ShownMachine {
  node: string;
  action: string;
  summary: string;
}

/** One change and the nodes that get it. */
export interface ShownNodeChange {
  nodes: string[];
  change: ShownChange;
}

/** A plan as a person reads it. */
export interface ShownPlan {
  id: string;
  empty: boolean;
  impact: "none" | "reload" | "restart" | "drain" | "reboot" | "recreate";
  format: number;
  cluster: string;
  spec_digest: string;
  observed: string;
  machines: ShownMachine[];
  stages: ShownStage[];
  deferred: [string[], string[]][];
  leaving: ShownMachine[];
  unreachable: Record<string, string>;
}

/** Changes that are made together. */
export interface ShownStage {
  name: string;
  title: string;
  changes: ShownNodeChange[];
  roll: Record<string, unknown> | null;
}

/** Work that goes on in the background, and the id that it has there. */
export interface StartedWork {
  id: string;
}

/** How many tasks of an array are in a state. */
export interface StateCount {
  state: string;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
  count: number;
}

/** The number of a job that was submitted. */
export interface SubmittedJob {
  id: number;
}

/** A cluster in a few figures, for one viewer; null: unknown. */
export interface Summary {
  cluster: string;
  user: string;
  at: number;
  seen_at: number;
  trouble: string;
  nodes: number | null;
  usable: number | null;
  down: number | null;
  drained: number | null;
  gpus: number | null;
  gpus_free: number | null;
  running: number | null;
  waiting: number | null;
  mine_running: number | null;
  mine_waiting: number | null;
}

/** A sweep's names, and the values of each task in their order; none: it is of no sweep. */
export interface SweepPoints {
  names: string[];
  points: string[][];
}

/** What opens one GET without a header. */
export interface Ticket {
  ticket: string;
}

export interface Timeline {
  known: boolean;
  at: number;
  why: string;
  from: number;
  to: number;
  nodes: string[];
  jobs: TimelineJob[];
  cut: boolean;
  complete_from: number;
  why_no_past: string;
  most: number;
}

/** A job that ran; end_at null: it is still running. runs: first and last of adjacent nodes. */
export interface TimelineJob {
  id: number;
  label: string;
  name: string;
  user: string;
  state: string;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
  start_at: number;
  end_at: number | null;
  runs: [number, number][];
}

/** A user's number of jobs in a selection. */
export interface UserCount {
  user: string;
  count: number;
}

/** The work in progress, or the last one. */
export interface Work {
  id: string;
  what: string;
  running: boolean;
  begun: number;
  ended: number;
  result: unknown;
  error: Failure | null;
}

/** One thing that happened in a piece of work. */
export interface WorkEvent {
  at: number;
  kind: string;
  subject?: string;
  node?: string;
  message?: string;
  seconds?: number;
  total?: number;
}

/** An event of work: what has happened since the one before. */
export interface WorkEvents {
  events: WorkEvent[];
}

/** Hours of the last 7 and 30 days; cut: at least so many; why_no_cost: "" where it is known. */
export interface WorkHours {
  why_no_cost: string;
  user: string;
  known: boolean;
  why: string;
  cut: boolean;
  periods: WorkPeriod[];
}

/** Hours of jobs in a period; cost null: no price is known. */
export interface WorkPeriod {
  days: number;
  jobs: number;
  gpu_hours: number;
  gpus_exact: boolean;
  cpu_hours: number;
  cost: JobsCost | null;
}
