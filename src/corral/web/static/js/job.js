// One job: how it stands, why, its live log and script, and what may be done to it.
import { ask, badge, bar, call, clock, complain, el, fill, gib, jobKind, many, span, toast } from "./dom.js";
import { live, now } from "./live.js";
import { timeCell } from "./jobs.js";

const ENDED = new Set(["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED"]);
const MAX_LINES = 5000;

export async function jobPage(main, me, id) {
  const box = el("div", { class: "card" });
  const log = el("pre", { class: "log", tabIndex: 0, "aria-label": "Output of the job" });
  const logState = el("span", { class: "dim" });
  const logBox = el("div", { class: "card", hidden: true }, el("div", { class: "row between" }, el("h2", { text: "Output" }), logState), log);
  const script = el("pre"), scriptBox = el("div", { class: "card", hidden: true }, el("h2", { text: "Batch script" }), script);
  main.append(el("p", {}, el("a", { href: "#jobs", text: "← all jobs" })), box, logBox, scriptBox);
  let job = null, source = null, lines = 0, closed = false;

  const act = async (body, words) => { try { await call(`jobs/${id}`, body); toast(words); await load(); } catch (error) { complain(error); } };
  const cancel = async () => { if (await ask(`Cancel job ${job.label}?`, [], { confirm: "Cancel the job", danger: true, text: "What it has not saved is lost." })) act({ do: "cancel" }, `job ${job.label} is cancelled`); };
  const limit = async () => {
    const told = await ask(`Time limit of job ${job.label}`, [{ name: "minutes", label: "Minutes", type: "number", min: 1, value: job.limit ? String(Math.round(job.limit / 60)) : "60" }], { confirm: "Change", text: "Slurm lets users shorten a limit; only operators make a running job's longer." });
    if (told) act({ do: "limit", minutes: Number(told.minutes) }, `the limit is ${told.minutes} minutes now`);
  };
  function buttons() {
    if (!job.may) return null;
    const ended = ENDED.has(job.state);
    return el("div", { class: "row" },
      !ended && job.state === "PENDING" && (job.held ? el("button", { text: "Release", onclick: () => act({ do: "release" }, "it may start again") }) : el("button", { text: "Hold", onclick: () => act({ do: "hold" }, "it is held") })),
      !ended && el("button", { text: "Change limit", onclick: limit }),
      job.mine && me.corral && job.state !== "PENDING" && el("button", { text: "Requeue", onclick: () => act({ do: "requeue" }, "it is back in the queue") }),
      !ended && el("button", { class: "danger", text: "Cancel", onclick: cancel }));
  }
  function draw() {
    const fact = (word, value) => value === null || value === undefined || value === "" ? null : [el("dt", { text: word }), el("dd", {}, value)];
    fill(box, el("div", { class: "row between" }, el("h1", {}, job.name, " ", badge(job.state, jobKind(job.state))), buttons()), el("br"), el("dl", { class: "facts" },
      fact("job", job.label), fact("why it waits", job.why && el("span", { class: "reason", text: job.why })),
      ENDED.has(job.state) ? fact("ended", `${clock(job.end_at)}, exit status ${job.exit_status ?? "-"}${job.exit_signal ? `, signal ${job.exit_signal}` : ""}`) : null,
      fact("user", `${job.user}${job.account ? ` (${job.account})` : ""}`), fact("partition", `${job.partition}${job.qos ? `, QOS ${job.qos}` : ""}`),
      fact("nodes", job.nodes || many(job.node_count, "node")), fact("given", `${job.gpus ? `${many(job.gpus, "GPU")}, ` : ""}${many(job.cpus, "CPU")}, ${gib(job.memory)}`),
      fact("time", el("span", {}, job.limit && job.start_at ? bar((ENDED.has(job.state) && job.end_at ? job.end_at : Date.now() / 1000) - job.start_at, job.limit, true) : null, `${timeCell(job)}${job.limit ? ` of ${span(job.limit)}` : ", no limit"}`)),
      fact("submitted", clock(job.submit_at)), job.start_at ? fact(job.state === "PENDING" ? "may start" : "started", clock(job.start_at)) : null,
      fact("priority", job.priority === null ? null : String(job.priority)), fact("waits for", job.dependency), fact("restarts", job.restarts || null),
      fact("folder", job.workdir && el("code", { text: job.workdir })), fact("output", job.stdout && el("code", { text: job.stdout })), fact("comment", job.comment)));
  }
  async function load() {
    const found = await call(`jobs/${id}`);
    const first = !job, before = job?.state;
    job = found;
    document.title = `${job.name} · job ${job.label} · Corral`;
    draw();
    if (job.mine && me.corral) {
      if (first) call(`jobs/${id}/script`).then((d) => { script.textContent = d.script; scriptBox.hidden = false; }, () => {});
      if (job.stdout && job.state !== "PENDING" && (!source || before !== job.state) && (first || !source)) follow();
    }
  }
  function follow() {
    if (closed) return;
    logBox.hidden = false;
    log.textContent = "";
    lines = 0;
    logState.textContent = ENDED.has(job.state) ? "" : "live";
    source = new EventSource(`api/jobs/${id}/log`);
    source.onmessage = (event) => {
      const more = JSON.parse(event.data).lines;
      if (!more.length) return;
      const bottom = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      log.append(`${more.join("\n")}\n`);
      lines += more.length;
      if (lines > MAX_LINES) { const kept = log.textContent.split("\n").slice(-MAX_LINES); log.textContent = kept.join("\n"); lines = kept.length; }
      if (bottom) log.scrollTop = log.scrollHeight;
    };
    source.addEventListener("end", (event) => { const told = JSON.parse(event.data); logState.textContent = told.error ? told.error.message : "the end"; source.close(); });
    source.onerror = () => { logState.textContent = "the connection broke"; source.close(); source = null; };
  }
  const changed = (event) => { const told = event.detail; if (!told || told.some((j) => j.id === job.id)) load().catch(() => {}); };
  await load();
  live.addEventListener("jobs", changed);
  const tick = setInterval(() => { if (job && !ENDED.has(job.state)) draw(); }, 10000);
  return () => { closed = true; live.removeEventListener("jobs", changed); clearInterval(tick); if (source) source.close(); };
}
