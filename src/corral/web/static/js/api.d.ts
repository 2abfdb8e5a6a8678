// Made by .ci/page_types.py from src/corral/web/schemas.py: change that one.

/** Metrics of each node, by its name. */
export interface AllFigures {
  nodes: Record<string, NodeFigures>;
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

/** Tokens that are good, newest first. */
export interface ApiTokens {
  tokens: ApiToken[];
}

/** An array in a list: exact: no task is left out; alike: all tasks have the same resources. */
export interface ArrayRow {
  array: string;
  tasks: number;
  exact: boolean;
  alike: boolean;
  ended: boolean;
  counts: StateCount[];
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

/** What a choice of jobs is; others: of others, which are left out. */
export interface ChosenJobs {
  targets: string[];
  tasks: number;
  exact: boolean;
  users: UserCount[];
  others: number;
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

/** What the #SBATCH lines of a script ask for; faults: those that cannot be carried over. */
export interface Directives {
  fields: Record<string, FormValue>;
  others: ScriptLine[];
  faults: ScriptLine[];
}

/** What the doctor reports; failed_checks: of the last proof. */
export interface Doctor {
  healthy: boolean;
  fixable: boolean;
  findings: Diagnosis[];
  out_of_service: OutOfService[];
  failed_checks: string[];
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
}

/** What a line of a script asks for, as a field of the form has it. */
export interface FormValue {
  line: number;
  value: string;
}

/** How Slurm stands. */
export interface Head {
  rev: number;
  nodes_rev: number;
  jobs_rev: number;
  seen_at: number;
  trouble: string;
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

/** One job, with what its viewer may do to it. */
export interface JobDetail {
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
  gpus_exact: boolean;
  memory: number;
  submit_at: number | null;
  eligible_at: number | null;
  start_at: number | null;
  end_at: number | null;
  limit: number | null;
  exit_status: number | null;
  exit_signal: number;
  held: boolean;
  stdout: string;
  stderr: string;
  workdir: string;
  command: string;
  comment: string;
  dependency: string;
  restarts: number;
  submit_line: string;
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

/** What the form of a job is made from. */
export interface JobForm {
  schema: Record<string, unknown>;
  can_spec: boolean;
  storage: string[];
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
  held: boolean;
  gpus_exact: boolean;
  waiting: boolean;
  running: boolean;
  ended: boolean;
  failed: boolean;
  cancelled: boolean;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
}

/** What an ended job used of what it was given: processor seconds, MiB; None: not measured. */
export interface JobUse {
  cpu_s: number | null;
  cpu_given_s: number | null;
  memory: number | null;
  memory_given: number | null;
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

/** The last proof; None: there was none. */
export interface LastProof {
  proof: Proof | null;
}

/** All that is wrong with a cluster file. */
export interface Lint {
  findings: LintFinding[];
}

/** What is wrong with a cluster file; line 0: about all of it. */
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

/** An event of a log; live: what was printed before has all come; ranks: how many it has. */
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

/** The files of a job, and the tasks of its array; the first ones of tasks_total.

left_out: ranks that are not listed. */
export interface LogFiles {
  files: LogFile[];
  left_out: number;
  tasks: LogTask[];
  tasks_total: number;
}

/** Lines with a text; where end is below size the search goes on there, in line. */
export interface LogFound {
  hits: LogHit[];
  end: number;
  line: number;
  size: number;
}

/** A line with the text that was searched: its first byte, its number from 0. */
export interface LogHit {
  name: string;
  start: number;
  line: number;
  text: string;
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

/** A task of an array that has begun. */
export interface LogTask {
  id: number;
  label: string;
  state: string;
}

/** How one logs in: codes, whether a terminal shows them. */
export interface Logins {
  codes: boolean;
}

/** The session, and what this server can do. */
export interface Me {
  user: string;
  role: "user" | "operator" | "administrator";
  owner: boolean;
  ends: number;
  cluster: string;
  corral: boolean;
  mine: boolean;
  figures: boolean;
  storage: string[];
  csrf?: string;
}

/** A job that has a GPU. */
export interface NamedJob {
  id: number;
  label: string;
  name: string;
  user: string;
}

/** One node; events before ``since`` are known in part, journal: Corral's are among them. */
export interface NodeDetail {
  jobs: Rows;
  gpus: NodeGpu[];
  readings: boolean;
  events: NodeEvent[];
  since: number;
  journal: boolean;
}

/** What happened to a node; by is "" where nothing records who. */
export interface NodeEvent {
  at: number;
  what: string;
  by: string;
  why: string;
  source: "page" | "slurm" | "journal";
}

/** What a node's metrics report; only what there is. */
export interface NodeFigures {
  celsius?: number;
  watts?: number;
  gpu?: number;
}

/** One GPU of a node; None is unknown, and an empty list of jobs is nobody. */
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
  address: string;
  version: string;
  boot_at: number | null;
  watts: number | null;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
}

/** All nodes. */
export interface Nodes {
  columns: string[];
  rows: unknown[][];
  nodes_rev: number;
}

/** A node that takes no jobs, and of which no finding states why. */
export interface OutOfService {
  node: string;
  state: string;
  reason: string;
  by: string;
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

/** The switch of each node. */
export interface Places {
  racks: Record<string, string>;
}

/** What a profiled job recorded. */
export interface Profile {
  job: number | string;
  folder: string;
  ranks: RankTimes[];
  kernels: Record<string, unknown>[];
  calls: Record<string, unknown>[];
  too_large: Record<string, unknown>;
}

/** A proof; journals of earlier versions lack ``proven``, ``only`` and ``uncovered``. */
export interface Proof {
  cluster: string;
  at: number;
  good: boolean;
  proven?: boolean;
  only?: string[];
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

/** Records as rows of named columns. */
export interface Rows {
  columns: string[];
  rows: unknown[][];
}

/** A line of a script, and what is to be stated about it. */
export interface ScriptLine {
  line: number;
  text: string;
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
}

/** Changes that are made together. */
export interface ShownStage {
  name: string;
  title: string;
  changes: ShownNodeChange[];
  roll: Record<string, unknown> | null;
}

/** How many tasks of an array are in a state. */
export interface StateCount {
  state: string;
  kind: "good" | "busy" | "mix" | "warn" | "bad" | "off";
  count: number;
}

/** How many jobs of a choice are whose. */
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
