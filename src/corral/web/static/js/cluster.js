// The cluster at a glance: figures, nodes as cards, or as a heat map where there are many.
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
  since,
  toast,
  whole,
} from "./dom.js";
import { live, loadNodes, now } from "./live.js";
import { nodeTest } from "./filter.js";
import { plotter } from "./plotter.js";

const CARDS = 60;
const GROUPS = ["partition", "island", "rack", "state", "feature", "none"];
const FIGURES_MS = 20000;
// Made once: localeCompare with options makes a collator at each call, 0.6 s for 10,000 nodes.
const { compare } = new Intl.Collator("en", { numeric: true });
const KINDS = [
  ["good", "idle"],
  ["mix", "mixed"],
  ["busy", "allocated"],
  ["warn", "drained"],
  ["bad", "down"],
  ["off", "other"],
];
const MARKED = new Set(["warn", "bad"]);
const chosen = new Map(); // node that the keyboard stands on, by heat map
const past = { at: [], gpus: [], running: [] };
let filter = "",
  grouping = "partition",
  colouring = "state";
let racks = null,
  figures = {};

// Names of one length are in order where their letters are: that spares the collator most of a list.
const sorted = (nodes) =>
  nodes.every(
    (n, i) =>
      !i ||
      (nodes[i - 1].name.length === n.name.length
        ? nodes[i - 1].name <= n.name
        : compare(nodes[i - 1].name, n.name) <= 0),
  );

const colour = (kind) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${kind}`).trim();

// What Slurm's answer does not have is shown as unknown, and a sum without it as the least.
const known = (number) => number ?? "?";
const atLeast = (number) => (number ? `${whole(number)}+` : "?");

function tiles(head) {
  const c = head.counts,
    { running, waiting } = c.shown;
  const tile = (value, of, words, share, more) =>
    el(
      "div",
      { class: "tile" },
      el(
        "b",
        {},
        more ? atLeast(value) : whole(value),
        of !== undefined && el("small", { text: ` / ${whole(of)}` }),
      ),
      el("span", { text: words }),
      share && bar(value, of),
    );
  return [
    tile(c.usable, c.nodes, "nodes take jobs", true),
    c.gpus
      ? tile(c.gpus_used, c.gpus, "GPUs in use", true, !c.gpus_used_exact)
      : tile(c.cpus_used, c.cpus, "CPUs in use", true),
    c.gpus ? tile(c.cpus_used, c.cpus, "CPUs in use", true) : null,
    !head.whole
      ? el(
          "div",
          { class: "tile" },
          el("b", { text: "…" }),
          el("span", { text: "jobs: still asking Slurm" }),
        )
      : tile(
          running,
          undefined,
          waiting === 1 ? "jobs run, 1 waits" : `jobs run, ${whole(waiting)} wait`,
        ),
  ];
}

function remember(head) {
  const at = Math.floor(Date.now() / 1000);
  if (past.at.at(-1) === at) return;
  past.at.push(at);
  past.gpus.push(head.counts.gpus ? head.counts.gpus_used : head.counts.cpus_used);
  past.running.push(head.counts.jobs.RUNNING || 0);
  for (const list of Object.values(past)) if (list.length > 3600) list.shift();
}
live.addEventListener("head", () => now.head && remember(now.head));

function groupsOf(node) {
  if (grouping === "partition") return node.partitions.length ? node.partitions : ["no partition"];
  if (grouping === "state") return [node.state.toLowerCase()];
  if (grouping === "island")
    return [node.features.find((f) => f.startsWith("island-"))?.slice(7) || "no island"];
  if (grouping === "rack")
    return [racks?.[node.name] || node.features.find((f) => /^rack/i.test(f)) || "no rack"];
  if (grouping === "feature") return node.features.length ? node.features : ["no feature"];
  return [""];
}

// Temperature and power, where the cluster has metrics or slurmd tells the power.
function warmth(node) {
  const found = figures[node.name] || {},
    watts = found.watts ?? node.watts;
  return [
    found.celsius !== undefined && `${Math.round(found.celsius)} °C`,
    watts ? `${whole(Math.round(watts))} W` : null,
  ]
    .filter(Boolean)
    .join(" · ");
}

function card(node) {
  const warm = warmth(node);
  const kind = node.kind;
  const shown = Math.min(node.gpus, 16);
  return el(
    "button",
    {
      class: `node ${kind}`,
      type: "button",
      "data-key": node.name,
      onclick: () => {
        location.hash = `node/${node.name}`;
      },
    },
    el(
      "span",
      { class: "row between" },
      el("b", { text: node.name }),
      badge(node.state.split("+").join(" "), kind),
    ),
    shown
      ? el(
          "span",
          {
            class: "gpus",
            role: "img",
            "aria-label": `${known(node.gpus_used)} of ${many(node.gpus, "GPU")} in use`,
          },
          Array.from({ length: shown }, (_, i) =>
            el("i", { class: i < node.gpus_used ? "used" : "" }),
          ),
        )
      : null,
    el("small", {
      text: `CPU ${node.cpus_used}/${node.cpus} · load ${node.load === null ? "-" : node.load.toFixed(1)} · ${node.memory_used ? gib(node.memory_used) : 0} of ${gib(node.memory)}${warm ? ` · ${warm}` : ""}`,
    }),
    node.reason ? el("span", { class: "reason", text: node.reason }) : null,
  );
}

// What the heat map can show instead of states, as a share of what is a lot.
const SHARES = {
  load: (n) => (n.load === null || !n.cpus ? null : n.load / n.cpus),
  memory: (n) => (n.memory ? n.memory_used / n.memory : null),
  GPUs: (n) => (n.gpus && n.gpus_used !== null ? n.gpus_used / n.gpus : null),
  temperature: (n) =>
    figures[n.name]?.celsius === undefined ? null : (figures[n.name].celsius - 30) / 60,
  power: (n) => {
    const watts = figures[n.name]?.watts ?? n.watts;
    return watts ? watts / (700 * Math.max(1, n.gpus)) : null;
  },
};

const told = (node) =>
  node
    ? [
        node.name,
        node.state,
        node.gpus && `GPUs ${known(node.gpus_used)}/${node.gpus}`,
        `CPUs ${node.cpus_used}/${node.cpus}`,
        warmth(node),
        node.reason,
      ]
        .filter(Boolean)
        .join("  ")
    : "\u00a0";

// A square per node; which one is under the pointer is arithmetic, so that 10,000 cost no elements.
// What is drained is hollow and what is down is struck through: not everybody sees the colours.
function heat(nodes, label) {
  const key = `heat ${label}`;
  const tip = el("div", {
    class: "tip mono",
    role: "status",
    text: told(chosen.get(key) && nodes.find((n) => n.name === chosen.get(key))),
  });
  const canvas = el("canvas", {
    class: "heat",
    role: "application",
    tabIndex: 0,
    "data-key": key,
    "aria-roledescription": "heat map",
    "aria-label": `${label}: ${many(nodes.length, "node")}. Arrow keys go from node to node, Enter opens one; the filter finds one by name`,
  });
  let side = 14,
    across = 1,
    at = nodes.findIndex((n) => n.name === chosen.get(key));
  const square = (pen, i, inset = 0) =>
    pen.fillRect(
      (i % across) * side + inset,
      Math.floor(i / across) * side + inset,
      side - 2 - 2 * inset,
      side - 2 - 2 * inset,
    );
  const draw = () => {
    const width = canvas.clientWidth || 900;
    side = nodes.length > 4000 ? 9 : nodes.length > 1000 ? 12 : 16;
    across = Math.max(1, Math.floor(width / side));
    const tall = Math.ceil(nodes.length / across) * side,
      scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = tall * scale;
    canvas.style.height = `${tall}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const colours = Object.fromEntries(
      [...KINDS.map(([kind]) => kind), "card", "focus"].map((kind) => [kind, colour(kind)]),
    );
    const states = colouring === "state";
    let last = null;
    const ink = (name) => {
      if (name !== last) pen.fillStyle = colours[(last = name)];
    }; // reading a colour costs more than a square
    nodes.forEach((node, i) => {
      const share = SHARES[colouring]?.(node),
        kind = node.kind;
      ink(states ? kind : share === null ? "off" : "bad");
      pen.globalAlpha = !states
        ? 0.12 + 0.88 * Math.min(1, Math.max(0, share ?? 0))
        : node.gpus && !MARKED.has(kind)
          ? 0.45 + 0.55 * (node.gpus_used / node.gpus)
          : 1;
      square(pen, i);
      if (!states || !MARKED.has(kind)) return;
      ink("card");
      if (kind === "warn") square(pen, i, 2);
      else
        pen.fillRect(
          (i % across) * side,
          Math.floor(i / across) * side + (side - 2) / 2 - 1,
          side - 2,
          2,
        );
    });
    pen.globalAlpha = 1;
    if (at < 0 || document.activeElement !== canvas) return;
    pen.strokeStyle = colours.focus;
    pen.lineWidth = 2;
    pen.strokeRect((at % across) * side - 1, Math.floor(at / across) * side - 1, side, side);
  };
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / side),
      y = Math.floor((event.clientY - box.top) / side);
    return x >= 0 && x < across ? nodes[y * across + x] : undefined;
  };
  const moves = () => ({
    ArrowRight: 1,
    ArrowLeft: -1,
    ArrowDown: across,
    ArrowUp: -across,
    Home: -at,
    End: nodes.length - 1 - at,
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && nodes[at]) location.hash = `node/${nodes[at].name}`;
    const move = moves()[event.key];
    if (move === undefined) return;
    event.preventDefault();
    if (at < 0) at = 0;
    else if (nodes[at + move]) at += move;
    chosen.set(key, nodes[at].name);
    tip.textContent = told(nodes[at]);
    draw();
  });
  for (const name of ["focus", "blur"]) canvas.addEventListener(name, draw);
  canvas.addEventListener("mousemove", (event) => {
    tip.textContent = told(under(event) || nodes[at]);
  });
  canvas.addEventListener("click", (event) => {
    const node = under(event);
    if (node) location.hash = `node/${node.name}`;
  });
  requestAnimationFrame(draw);
  return [tip, canvas];
}

function table(nodes) {
  return el(
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
          ["node", "state", "reason"].map((h) => el("th", { text: h })),
          ["GPUs", "CPUs", "memory", "load"].map((h) => el("th", { class: "num", text: h })),
        ),
      ),
      el(
        "tbody",
        {},
        nodes.map((n) =>
          el(
            "tr",
            {
              tabIndex: 0,
              "data-key": `row ${n.name}`,
              onclick: () => {
                location.hash = `node/${n.name}`;
              },
              onkeydown: (e) => {
                if (e.key === "Enter") location.hash = `node/${n.name}`;
              },
            },
            el("td", { text: n.name }),
            el("td", {}, badge(n.state.split("+").join(" "), n.kind)),
            el("td", { class: "cut", title: n.reason, text: n.reason }),
            el("td", { class: "num", text: `${known(n.gpus_used)}/${n.gpus}` }),
            el("td", { class: "num", text: `${n.cpus_used}/${n.cpus}` }),
            el("td", {
              class: "num",
              text: `${n.memory_used ? gib(n.memory_used) : 0} / ${gib(n.memory)}`,
            }),
            el("td", { class: "num", text: n.load === null ? "-" : n.load.toFixed(1) }),
          ),
        ),
      ),
    ),
  );
}

export async function clusterPage(main, me) {
  const top = el("div", { class: "tiles" });
  const search = el("input", {
    type: "search",
    value: filter,
    placeholder: "filter: state=drain partition=main gpus>0 node[0-9]",
    "aria-label": "Filter nodes",
    oninput: () => {
      filter = search.value;
      draw();
    },
  });
  const by = el(
    "select",
    {
      "aria-label": "Group nodes by",
      onchange: async () => {
        grouping = by.value;
        if (grouping === "rack" && !racks)
          racks = (await call("places").catch(() => ({ racks: {} }))).racks;
        draw();
      },
    },
    GROUPS.map((g) =>
      el("option", {
        value: g,
        text: g === "none" ? "no groups" : `by ${g}`,
        selected: g === grouping,
      }),
    ),
  );
  by.style.width = "auto";
  const heats = el(
    "select",
    {
      "aria-label": "What the heat map shows",
      onchange: () => {
        colouring = heats.value;
        draw();
      },
    },
    ["state", ...Object.keys(SHARES)].map((g) =>
      el("option", { value: g, text: `show ${g}`, selected: g === colouring }),
    ),
  );
  heats.style.width = "auto";
  const trouble = el("span", { class: "reason" });
  const body = el("div", { class: "row" });
  body.style.display = "grid";
  const verdict = el("div"),
    legend = el("div", { class: "legend" });
  const plot = el("div", { class: "plot" });
  const history = el(
    "div",
    { class: "card", hidden: true },
    el("h2", { text: "Since this page was opened" }),
    plot,
  );
  main.append(
    top,
    verdict,
    el(
      "div",
      { class: "card" },
      el("div", { class: "row between" }, el("h2", { text: "Nodes" }), legend),
      el("div", { class: "row" }, search, by, heats, trouble),
      el("br"),
      body,
    ),
    history,
  );
  let cost = null;
  const showTop = () => now.head && fill(top, tiles(now.head), cost && costTile(cost));
  let wait = 0;
  const draw = () => {
    wait = 0;
    if (body.matches(":active")) return later(); // what is replaced between press and release gets no click
    const { test, wrong } = nodeTest(filter);
    trouble.textContent = wrong;
    const groups = new Map(),
      kinds = {};
    let count = 0;
    for (const node of now.nodes.values()) {
      if (!test(node)) continue;
      const kind = node.kind;
      count += 1;
      kinds[kind] = (kinds[kind] || 0) + 1;
      for (const name of groupsOf(node)) {
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(node);
      }
    }
    fill(
      legend,
      KINDS.map(([kind, word]) =>
        el(
          "span",
          {},
          el("i", { class: `dot-${kind}` }),
          word,
          " ",
          el("b", { text: whole(kinds[kind]) }),
        ),
      ),
    );
    if (!count)
      return fill(
        body,
        el("p", { class: "dim", text: now.loaded ? "No node matches." : "Asking Slurm…" }),
      );
    const order = (a, b) => compare(a.name, b.name);
    heats.hidden = count <= CARDS;
    fill(
      body,
      [...groups]
        .sort(([a], [b]) => compare(a, b))
        .map(([name, nodes]) => {
          if (!sorted(nodes)) nodes.sort(order);
          const used = nodes.reduce((sum, n) => sum + n.gpus_used, 0),
            all = nodes.reduce((sum, n) => sum + n.gpus, 0);
          return el(
            "section",
            {},
            name &&
              el(
                "h3",
                {},
                name,
                el("span", {
                  class: "dim",
                  text: `  ${many(nodes.length, "node")}${all ? `, ${whole(used)} of ${whole(all)} GPUs in use` : ""}`,
                }),
              ),
            nodes.length <= CARDS
              ? el("div", { class: "nodes" }, nodes.map(card))
              : heat(nodes, name || "all"),
            nodes.length > CARDS && count <= 300 && filter ? table(nodes) : null,
          );
        }),
    );
  };
  const later = () => {
    if (!wait) wait = setTimeout(draw, 250);
  };
  const stops = [
    ["head", showTop],
    ["nodes", later],
  ].map(([name, does]) => {
    live.addEventListener(name, does);
    return () => live.removeEventListener(name, does);
  });
  document.addEventListener("theme", later);
  showTop();
  if (!now.loaded) await loadNodes().catch(complain);
  draw();
  if (me.owner && me.corral) {
    call("corral/proof").then(
      ({ proof }) => fill(verdict, proofLine(proof)),
      () => {},
    );
    call("corral/cost").then(
      (told) => {
        if (told.rented) {
          cost = told;
          showTop();
        }
      },
      () => {},
    );
  }
  const newest = latest();
  const measure = () =>
    newest(
      call("figures"),
      (told) => {
        figures = told.nodes;
        if (Object.keys(figures).length) later();
      },
      () => {},
    );
  const watch = me.figures ? (measure(), setInterval(measure, FIGURES_MS)) : 0;
  const chart = await timeline(plot, history);
  return () => {
    newest.drop();
    stops.forEach((s) => s());
    document.removeEventListener("theme", later);
    clearTimeout(wait);
    clearInterval(watch);
    chart();
  };
}

function costTile(cost) {
  return el(
    "div",
    { class: "tile" },
    el("b", {}, `${cost.rate} $`, el("small", { text: " an hour" })),
    el("span", {
      text: `${cost.spent} $ so far${cost.unpriced ? `, ${many(cost.unpriced, "machine")} without a known price` : ""}`,
    }),
  );
}

function proofLine(proof) {
  if (!proof)
    return el(
      "div",
      { class: "card row" },
      badge("not proven", "warn"),
      el("span", { text: "Nobody has proven this cluster from here yet." }),
      el("a", { href: "#proof", text: "Prove it" }),
    );
  const failed = proof.results.filter((r) => r.verdict === "fail").length;
  return el(
    "div",
    { class: "card row" },
    badge(
      failed ? "proof failed" : (proof.proven ?? true) ? "proven" : "passed in part",
      failed ? "bad" : (proof.proven ?? true) ? "good" : "warn",
    ),
    el("span", {
      text: `${many(proof.results.length, "check")} ${since(proof.at)}${failed ? `, ${failed} failed` : ""}`,
    }),
    el("a", { href: "#proof", text: "Evidence" }),
  );
}

async function timeline(target, box) {
  let plot = null;
  const make = async () => {
    if (past.at.length < 3 || plot) return;
    const uPlot = await plotter();
    if (!target.isConnected || plot) return;
    box.hidden = false;
    const axis = {
      stroke: () => colour("dim"),
      grid: { stroke: () => colour("line") },
      ticks: { stroke: () => colour("line") },
    };
    plot = new uPlot(
      {
        width: target.clientWidth || 800,
        height: 150,
        scales: { y: { range: (u, low, high) => [0, Math.max(4, high * 1.1)] } },
        axes: [axis, axis],
        series: [
          {},
          {
            label: now.head?.counts.gpus ? "GPUs in use" : "CPUs in use",
            stroke: () => colour("accent"),
            width: 2,
          },
          { label: "jobs running", stroke: () => colour("busy"), width: 2 },
        ],
      },
      [past.at, past.gpus, past.running],
      target,
    );
  };
  const more = () => (plot ? plot.setData([past.at, past.gpus, past.running]) : make());
  const resize = () => plot && plot.setSize({ width: target.clientWidth, height: 150 });
  live.addEventListener("head", more);
  addEventListener("resize", resize);
  await make();
  return () => {
    live.removeEventListener("head", more);
    removeEventListener("resize", resize);
    if (plot) plot.destroy();
  };
}

export async function nodePage(main, me, name) {
  const box = el("div", { class: "card" });
  main.append(el("p", {}, el("a", { href: "#cluster", text: "← all nodes" })), box);
  const operates = me.role === "administrator"; // slurmctld takes node changes from nobody else (24.11)
  const act = async (body) => {
    try {
      await call(`nodes/${name}`, body);
      toast(body.do === "drain" ? `${name} takes no new jobs` : `${name} takes jobs again`);
    } catch (error) {
      complain(error);
    }
  };
  const drain = async () => {
    const told = await ask(
      `Drain ${name}`,
      [{ name: "reason", label: "Reason, for the next who looks" }],
      { confirm: "Drain", text: "Running jobs go on to their end." },
    );
    if (told) await act({ do: "drain", reason: told.reason });
  };
  const draw = () => {
    const n = now.nodes.get(name);
    if (!n)
      return fill(
        box,
        el("h2", { text: now.loaded ? `Slurm knows no node ${name}` : "Asking Slurm…" }),
      );
    const fact = (word, value) => [el("dt", { text: word }), el("dd", {}, value)];
    fill(
      box,
      el(
        "div",
        { class: "row between" },
        el("h1", {}, `${n.name} `, badge(n.state.split("+").join(" "), n.kind)),
        el(
          "div",
          { class: "row" },
          operates &&
            (n.state.includes("DRAIN") || n.state.startsWith("DOWN")
              ? el("button", {
                  class: "main",
                  text: "Resume",
                  onclick: () => act({ do: "resume" }),
                })
              : el("button", { class: "danger", text: "Drain", onclick: drain })),
        ),
      ),
      el("br"),
      el(
        "dl",
        { class: "facts" },
        n.reason &&
          fact(
            "why it takes no jobs",
            el("span", {
              class: "reason",
              text: `${n.reason} (${n.reason_user || "?"}, ${clock(n.reason_at)})`,
            }),
          ),
        n.gpus
          ? fact(
              "GPUs",
              el(
                "span",
                {},
                bar(n.gpus_used, n.gpus, true),
                `${known(n.gpus_used)} of ${n.gpus} in use (${n.gres})`,
              ),
            )
          : null,
        fact(
          "CPUs",
          el(
            "span",
            {},
            bar(n.cpus_used, n.cpus, true),
            `${n.cpus_used} of ${n.cpus} in use, load ${n.load === null ? "-" : n.load.toFixed(2)}`,
          ),
        ),
        fact(
          "memory",
          el(
            "span",
            {},
            bar(n.memory_used, n.memory, true),
            `${n.memory_used ? gib(n.memory_used) : "nothing"} of ${gib(n.memory)} given to jobs, ${gib(n.memory_free)} free on the machine`,
          ),
        ),
        warmth(n) ? fact("temperature, power", warmth(n)) : null,
        figures[n.name]?.gpu !== undefined
          ? fact("GPUs work", `${Math.round(100 * figures[n.name].gpu)} % of the time`)
          : null,
        fact("partitions", n.partitions.join(", ") || "-"),
        fact("features", n.features.join(", ") || "-"),
        fact("address", n.address),
        fact("slurmd", n.version || "-"),
        fact("booted", `${clock(n.boot_at)} (${since(n.boot_at)})`),
      ),
      el("br"),
      el("a", {
        href: `#jobs/running/${encodeURIComponent(`nodes=${n.name}`)}`,
        text: "Jobs on this node",
      }),
    );
  };
  live.addEventListener("nodes", draw);
  if (!now.loaded) await loadNodes().catch(complain);
  draw();
  const newest = latest();
  const measure = () =>
    newest(
      call("figures"),
      (told) => {
        figures = told.nodes;
        draw();
      },
      () => {},
    );
  const watch = me.figures ? (measure(), setInterval(measure, FIGURES_MS)) : 0;
  return () => {
    newest.drop();
    live.removeEventListener("nodes", draw);
    clearInterval(watch);
  };
}
