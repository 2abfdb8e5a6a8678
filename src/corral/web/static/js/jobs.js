// The queue: waiting, running, ended; filtered and ordered by the server, page by page.
import {
  badge,
  bar,
  call,
  clock,
  complain,
  el,
  fill,
  latest,
  many,
  rows,
  since,
  span,
  whole,
} from "./dom.js";
import { live, now } from "./live.js";

const TABS = [
  ["all", "All"],
  ["running", "Running"],
  ["waiting", "Waiting"],
  ["ended", "Ended"],
];
const HEADS = [
  ["id", "job", false],
  ["name", "name", false],
  ["user", "user", false],
  ["state", "state", false],
  [null, "what it waits for, or where it runs", false],
  ["gpus", "GPUs", true],
  ["cpus", "CPUs", true],
  ["start_at", "time", true],
];
const PAGE = 100;
const PERIODS = [
  ["1", "24 hours"],
  ["7", "7 days"],
  ["30", "30 days"],
]; // of accounting, for what has ended

// "2"; "2+": at least so many; "?": nobody knows any more; "" for none.
export const gpus = (job) =>
  job.gpus_exact ? String(job.gpus || "") : job.gpus ? `${job.gpus}+` : "?";

export function timeCell(job) {
  if (job.state === "PENDING") return `waits ${since(job.submit_at).replace(" ago", "")}`;
  if (!job.start_at) return "-";
  const end =
    job.end_at && job.end_at < Date.now() / 1000 && job.state !== "RUNNING"
      ? job.end_at
      : Date.now() / 1000 + now.skew;
  return span(Math.max(0, end - job.start_at));
}

function where(job) {
  if (job.why) return job.why;
  if (job.state === "FAILED" || (job.exit_signal && job.state !== "CANCELLED"))
    return `exit status ${job.exit_status ?? "-"}${job.exit_signal ? `, signal ${job.exit_signal}` : ""}${job.nodes ? ` on ${job.nodes}` : ""}`;
  return job.nodes || job.reason || "-";
}

export async function jobsPage(main, me, tab = "all", filter = "") {
  const view = {
    show: TABS.some(([t]) => t === tab) ? tab : "all",
    q: filter,
    by: "id",
    down: true,
    offset: 0,
  };
  let days = "7";
  const chips = el("div", { class: "row", role: "group", "aria-label": "Which jobs" });
  const search = el("input", {
    type: "search",
    value: filter,
    placeholder: "filter: state=pending user=kim partition=main train",
    "aria-label": "Filter jobs",
  });
  const mine = el("button", {
    class: "chip",
    text: "Mine",
    "aria-pressed": "false",
    onclick: () => {
      const word = `user=${me.user}`;
      search.value = search.value.includes(word)
        ? search.value.replace(word, "").trim()
        : `${search.value} ${word}`.trim();
      changed();
    },
  });
  const period = el("div", { class: "row", role: "group", "aria-label": "Ended within the last" }),
    about = el("p", { class: "dim", role: "status" });
  const body = el("div"),
    foot = el("div", { class: "row between" }),
    trouble = el("p", { class: "reason", role: "alert" });
  main.append(
    el(
      "div",
      { class: "card" },
      el(
        "div",
        { class: "row between" },
        chips,
        el("a", { class: "button", href: "#submit", text: "Submit a job" }),
      ),
      el("br"),
      el("div", { class: "row" }, search, mine, period),
      trouble,
      about,
      body,
      foot,
    ),
  );
  const newest = latest();
  let wait = 0;
  function changed() {
    view.q = search.value.trim();
    view.offset = 0;
    mine.setAttribute("aria-pressed", String(view.q.includes(`user=${me.user}`)));
    load();
  }
  search.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(changed, 250);
  });
  const showChips = () => {
    const counts = now.head ? now.head.counts.shown : {};
    fill(
      chips,
      TABS.map(([key, word]) => {
        const n = counts[key] ?? null;
        return el("button", {
          class: "chip",
          "data-key": key,
          "aria-pressed": String(view.show === key),
          text: n === null ? word : `${word} ${whole(n)}`,
          onclick: () => {
            view.show = key;
            view.offset = 0;
            showChips();
            showPeriod();
            load();
          },
        });
      }),
    );
  };
  const showPeriod = () => {
    period.hidden = view.show !== "ended";
    fill(
      period,
      PERIODS.map(([key, word]) =>
        el("button", {
          class: "chip",
          "data-key": `days ${key}`,
          "aria-pressed": String(days === key),
          text: word,
          onclick: () => {
            days = key;
            view.offset = 0;
            showPeriod();
            load();
          },
        }),
      ),
    );
  };
  function load() {
    const { show, ...rest } = view,
      past = show === "ended";
    const answer = call(
      past
        ? `past?${new URLSearchParams({ ...rest, days, limit: PAGE })}`
        : `jobs?${new URLSearchParams({ ...view, limit: PAGE })}`,
    );
    return newest(
      answer,
      (data) => {
        about.textContent = !past
          ? ""
          : data.why
            ? `${data.why[0].toUpperCase()}${data.why.slice(1)}: only what Slurm's controller still knows is here.`
            : data.cut
              ? `The newest ${whole(data.most)} of this period. Mine asks for your own alone.`
              : "";
        draw(rows(data.columns, data.rows), data.total);
        trouble.textContent = "";
      },
      (error) => {
        if (error.status === 400) trouble.textContent = `${error.message}. ${error.hint}`;
        else complain(error);
      },
    );
  }
  function draw(jobs, total) {
    if (!jobs.length) {
      fill(foot);
      return fill(
        body,
        el("p", {
          class: "dim center",
          text: view.q || view.show !== "all" ? "No job matches." : "No jobs. The queue is empty.",
        }),
      );
    }
    const ended = view.show === "ended",
      heads = ended ? [...HEADS, ["end_at", "ended", true]] : HEADS;
    fill(
      body,
      el(
        "div",
        { class: "scroll", tabIndex: 0 },
        el(
          "table",
          {},
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              heads.map(([key, word, num]) =>
                el(
                  "th",
                  {
                    class: num ? "num" : "",
                    "aria-sort":
                      view.by === key ? (view.down ? "descending" : "ascending") : undefined,
                  },
                  key
                    ? el("button", {
                        "data-key": `by ${key}`,
                        text: `${word}${view.by === key ? (view.down ? " ↓" : " ↑") : ""}`,
                        onclick: () => {
                          view.down = view.by === key ? !view.down : true;
                          view.by = key;
                          load();
                        },
                      })
                    : word,
                ),
              ),
            ),
          ),
          el(
            "tbody",
            {},
            jobs.map((job) => {
              const row = el(
                "tr",
                {
                  tabIndex: 0,
                  onclick: () => {
                    location.hash = `job/${job.id}`;
                  },
                  onkeydown: (e) => {
                    if (e.key === "Enter") location.hash = `job/${job.id}`;
                  },
                },
                el("td", { class: "nowrap", text: job.label }),
                el("td", { class: "cut", title: job.name, text: job.name }),
                el("td", { text: job.user }),
                el("td", {}, badge(job.state, job.kind)),
                el("td", { class: "cut", title: where(job), text: where(job) }),
                el("td", { class: "num", text: gpus(job) || "-" }),
                el("td", { class: "num", text: job.cpus }),
                el(
                  "td",
                  { class: "num" },
                  job.state === "RUNNING" && job.limit && job.start_at
                    ? bar(Date.now() / 1000 + now.skew - job.start_at, job.limit, true)
                    : null,
                  timeCell(job),
                ),
                ended && el("td", { class: "num nowrap", text: clock(job.end_at) }),
              );
              row.dataset.job = row.dataset.key = job.id;
              return row;
            }),
          ),
        ),
      ),
    );
    const last = Math.min(view.offset + PAGE, total);
    fill(
      foot,
      el("span", {
        class: "dim",
        text:
          total > PAGE
            ? `${whole(view.offset + 1)} to ${whole(last)} of ${many(total, "job")}`
            : many(total, "job"),
      }),
      total > PAGE
        ? el(
            "span",
            { class: "row" },
            el("button", {
              text: "Earlier page",
              disabled: view.offset === 0,
              onclick: () => {
                view.offset -= PAGE;
                load();
              },
            }),
            el("button", {
              text: "Next page",
              disabled: last >= total,
              onclick: () => {
                view.offset += PAGE;
                load();
              },
            }),
          )
        : null,
    );
  }
  let due = 0;
  const soon = () => {
    showChips();
    if (!due)
      due = setTimeout(() => {
        due = 0;
        load();
      }, 300);
  };
  live.addEventListener("jobs", soon);
  const tick = setInterval(() => {
    if (!document.hidden) load();
  }, 30000);
  showChips();
  showPeriod();
  await load();
  return () => {
    newest.drop();
    live.removeEventListener("jobs", soon);
    clearInterval(tick);
    clearTimeout(due);
    clearTimeout(wait);
  };
}
