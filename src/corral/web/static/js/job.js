// One job: how it stands, why, its live log and script, and what may be done to it.
import {
  ask,
  badge,
  bar,
  call,
  clock,
  complain,
  el,
  fill,
  gib,
  latest,
  many,
  span,
  ticketed,
  toast,
} from "./dom.js";
import { live, now } from "./live.js";
import { curvesIn } from "./curves.js";
import { gpus, timeCell } from "./jobs.js";

const MAX_LINES = 5000;

export async function jobPage(main, me, id) {
  const box = el("div", { class: "card" });
  const log = el("pre", {
    class: "log",
    role: "log",
    tabIndex: 0,
    "aria-label": "Output of the job",
  });
  const logState = el("span", { class: "dim" });
  const logBox = el(
    "div",
    { class: "card", hidden: true },
    el("div", { class: "row between" }, el("h2", { text: "Output" }), logState),
    log,
  );
  const script = el("pre"),
    scriptBox = el(
      "div",
      { class: "card", hidden: true },
      el("h2", { text: "Batch script" }),
      script,
    );
  const usage = el("div"),
    usageFrom = el("span", { class: "dim" }),
    usageBox = el(
      "div",
      { class: "card", hidden: true },
      el("div", { class: "row between" }, el("h2", { text: "Use over time" }), usageFrom),
      usage,
    );
  const links = el("div", { class: "card", hidden: true }),
    vars = el("table", {}),
    varsBox = el(
      "details",
      { class: "card", hidden: true },
      el("summary", { text: "Environment of its first process" }),
      el("div", { class: "scroll", tabIndex: 0 }, vars),
    );
  main.append(
    el("p", {}, el("a", { href: "#jobs", text: "← all jobs" })),
    box,
    logBox,
    usageBox,
    links,
    scriptBox,
    varsBox,
  );
  const curves = curvesIn(usage);
  const newestJob = latest(),
    newestUse = latest();
  let looked = 0;
  async function measure() {
    if (closed || !job || !me.figures || !job.may || job.state === "PENDING") return;
    looked = Date.now();
    await newestUse(
      call(`jobs/${id}/figures`),
      (told) => {
        if (!told.curves.length) return;
        usageBox.hidden = false;
        usageFrom.textContent = told.from === "here" ? "sampled while this page is open" : "";
        curves.draw(told.curves);
      },
      (error) => {
        usageFrom.textContent = error.message;
      },
    );
  }
  // What the ranks did in the recorded steps, as corral profile prints it; Perfetto shows the rest.
  async function profile() {
    const told = await call(`jobs/${id}/profile`).catch(() => null);
    if (!told || !told.ranks.length) return null;
    const parts = ["compute", "communication", "overlap", "idle"];
    const cell = (text) => el("td", { text });
    const row = (rank) =>
      el(
        "tr",
        {},
        cell(rank.rank),
        cell(rank.steps),
        cell((rank.wall_ms / Math.max(1, rank.steps)).toFixed(1)),
        parts.map((part) =>
          cell(`${((100 * rank[`${part}_ms`]) / (rank.wall_ms || 1)).toFixed(1)} %`),
        ),
      );
    return el(
      "div",
      {},
      el(
        "table",
        { class: "profile" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["rank", "steps", "ms/step", ...parts].map((text) => el("th", { scope: "col", text })),
          ),
        ),
        el("tbody", {}, told.ranks.map(row)),
      ),
      el(
        "p",
        {},
        el("button", {
          class: "quiet",
          type: "button",
          text: "Download the timeline of all ranks",
          onclick: download,
        }),
        " and open it in ",
        el("code", { text: "ui.perfetto.dev" }),
        ".",
      ),
    );
  }
  async function download() {
    try {
      el("a", {
        href: await ticketed(`jobs/${id}/profile.json.gz`),
        download: `job-${id}.json.gz`,
      }).click();
    } catch (error) {
      complain(error);
    }
  }
  async function more() {
    const told = await call(`jobs/${id}/extras`).catch(() => null);
    if (!told || closed) return;
    if (told.environment.length) {
      varsBox.hidden = false;
      fill(
        vars,
        el(
          "tbody",
          {},
          told.environment.map(([k, v]) =>
            el(
              "tr",
              {},
              el("td", { class: "mono", text: k }),
              el("td", { class: "mono wrap", text: v }),
            ),
          ),
        ),
      );
    }
    const found = [];
    if (told.run)
      found.push(
        el(
          "p",
          {},
          el("a", {
            href: `${told.tracking}/#/runs/${told.run}`,
            target: "_blank",
            rel: "noopener",
            text: "Its run in MLflow",
          }),
          el("span", { class: "dim", text: `  ${told.tracking}, run ${told.run}` }),
        ),
      );
    if (told.recordings.length)
      found.push(
        el(
          "p",
          {},
          many(told.recordings.length, "recording"),
          " of its ranks; ",
          el("code", { text: `corral profile ${id}` }),
          " keeps them.",
        ),
        me.corral ? await profile() : null,
      );
    if (found.length) {
      links.hidden = false;
      fill(links, el("h2", { text: "Run and profile" }), ...found);
    }
  }
  let job = null,
    source = null,
    following = false,
    lines = 0,
    closed = false;

  const act = async (body, words) => {
    try {
      await call(`jobs/${id}`, body);
      toast(words);
      await load();
    } catch (error) {
      complain(error);
    }
  };
  const cancel = async () => {
    if (
      await ask(`Cancel job ${job.label}?`, [], {
        confirm: "Cancel the job",
        danger: true,
        text: "What it has not saved is lost.",
      })
    )
      act({ do: "cancel" }, `job ${job.label} is cancelled`);
  };
  const limit = async () => {
    const told = await ask(
      `Time limit of job ${job.label}`,
      [
        {
          name: "minutes",
          label: "Minutes",
          type: "number",
          min: 1,
          value: job.limit ? String(Math.round(job.limit / 60)) : "60",
        },
      ],
      {
        confirm: "Change",
        text: "Slurm lets users shorten a limit; only operators make a running job's longer.",
      },
    );
    if (told)
      act(
        { do: "limit", minutes: Number(told.minutes) },
        `the limit is ${told.minutes} minutes now`,
      );
  };
  function buttons() {
    if (!job.may || job.forgotten) return null;
    const ended = job.ended;
    return el(
      "div",
      { class: "row" },
      !ended &&
        job.state === "PENDING" &&
        (job.held
          ? el("button", {
              text: "Release",
              onclick: () => act({ do: "release" }, "it may start again"),
            })
          : el("button", { text: "Hold", onclick: () => act({ do: "hold" }, "it is held") })),
      !ended && el("button", { text: "Change limit", onclick: limit }),
      job.mine &&
        me.mine &&
        job.state !== "PENDING" &&
        el("button", {
          text: "Requeue",
          onclick: () => act({ do: "requeue" }, "it is back in the queue"),
        }),
      !ended && el("button", { class: "danger", text: "Cancel", onclick: cancel }),
    );
  }
  function draw() {
    // A button that is replaced between press and release gets no click.
    if (box.matches(":active")) {
      setTimeout(draw, 100);
      return;
    }
    const fact = (word, value) =>
      value === null || value === undefined || value === ""
        ? null
        : [el("dt", { text: word }), el("dd", {}, value)];
    fill(
      box,
      el(
        "div",
        { class: "row between" },
        el("h1", {}, job.name, " ", badge(job.state, job.kind)),
        buttons(),
      ),
      job.forgotten
        ? el("p", {
            class: "dim",
            text: "Slurm's controller has forgotten this job: this is what accounting keeps of it.",
          })
        : null,
      el("br"),
      el(
        "dl",
        { class: "facts" },
        fact("job", job.label),
        fact("why it waits", job.why && el("span", { class: "reason", text: job.why })),
        job.ended ? fact("reason", job.reason) : null,
        job.ended
          ? fact(
              "ended",
              `${clock(job.end_at)}, exit status ${job.exit_status ?? "-"}${job.exit_signal ? `, signal ${job.exit_signal}` : ""}`,
            )
          : null,
        fact("user", `${job.user}${job.account ? ` (${job.account})` : ""}`),
        fact("partition", `${job.partition}${job.qos ? `, QOS ${job.qos}` : ""}`),
        fact("nodes", job.nodes || many(job.node_count, "node")),
        fact(
          "given",
          `${gpus(job) ? `${gpus(job)} ${gpus(job) === "1" ? "GPU" : "GPUs"}, ` : ""}${many(job.cpus, "CPU")}, ${gib(job.memory)}`,
        ),
        fact(
          "time",
          el(
            "span",
            {},
            job.limit && job.start_at
              ? bar(
                  (job.ended && job.end_at ? job.end_at : Date.now() / 1000) - job.start_at,
                  job.limit,
                  true,
                )
              : null,
            `${timeCell(job)}${job.limit ? ` of ${span(job.limit)}` : ", no limit"}`,
          ),
        ),
        fact("submitted", clock(job.submit_at)),
        job.start_at
          ? fact(job.state === "PENDING" ? "may start" : "started", clock(job.start_at))
          : null,
        fact("priority", job.priority === null ? null : String(job.priority)),
        fact("waits for", job.dependency),
        fact("restarts", job.restarts || null),
        fact("folder", job.workdir && el("code", { text: job.workdir })),
        fact("output", job.stdout && el("code", { text: job.stdout })),
        fact("comment", job.comment),
      ),
    );
  }
  // Gives an error to who opens the page; later the page stays as it is.
  async function load() {
    let failed = null;
    await newestJob(call(`jobs/${id}`), shown, (error) => {
      failed = error;
    });
    if (failed) throw failed;
  }
  function shown(found) {
    const first = !job,
      before = job?.state;
    job = found;
    document.title = `${job.name} · job ${job.label} · Corral`;
    draw();
    if (first || before !== job.state) measure();
    if (job.mine && me.mine) {
      if (first || before !== job.state) more();
      if (first && !job.forgotten)
        call(`jobs/${id}/script`).then(
          (d) => {
            script.textContent = d.script;
            scriptBox.hidden = false;
          },
          () => {},
        );
      if (job.stdout && job.state !== "PENDING" && !following) follow();
    }
  }
  async function follow() {
    if (closed) return;
    following = true;
    logBox.hidden = false;
    log.textContent = "";
    lines = 0;
    logState.textContent = job.ended ? "" : "live";
    const broke = (why) => {
      logState.textContent = why;
      if (source) source.close();
      source = null;
      following = false;
    };
    let address;
    try {
      address = await ticketed(`jobs/${id}/log`);
    } catch (error) {
      return broke(error.message);
    }
    if (closed) return;
    source = new EventSource(address);
    source.onmessage = (event) => {
      const more = JSON.parse(event.data).lines;
      if (!more.length) return;
      const bottom = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      log.append(`${more.join("\n")}\n`);
      lines += more.length;
      if (lines > MAX_LINES) {
        const kept = log.textContent.split("\n").slice(-MAX_LINES);
        log.textContent = kept.join("\n");
        lines = kept.length;
      }
      if (bottom) log.scrollTop = log.scrollHeight;
    };
    source.addEventListener("end", (event) => {
      const told = JSON.parse(event.data);
      logState.textContent = told.error ? told.error.message : "the end";
      source.close();
    });
    source.onerror = () => broke("the connection broke");
  }
  const changed = (event) => {
    const told = event.detail;
    if (job.forgotten) return;
    if (!told || told.some((j) => j.id === job.id)) load().catch(() => {});
  };
  await load();
  live.addEventListener("jobs", changed);
  const tick = setInterval(() => {
    if (job && !job.ended) {
      draw();
      if (Date.now() - looked > 4500) measure();
    }
  }, 5000);
  return () => {
    closed = true;
    newestJob.drop();
    newestUse.drop();
    curves.close();
    live.removeEventListener("jobs", changed);
    clearInterval(tick);
    if (source) source.close();
  };
}
