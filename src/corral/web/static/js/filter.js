// A filter over nodes in Slurm's words: state=drain partition=main gpus>0 load>=8 node[0-9] fan
const NUMBERS = new Set([
  "cpus",
  "cpus_used",
  "gpus",
  "gpus_used",
  "load",
  "memory",
  "memory_used",
  "memory_free",
  "watts",
  "gpus_free",
]);
const LISTS = {
  partition: "partitions",
  partitions: "partitions",
  feature: "features",
  features: "features",
};
const TEXTS = new Set(["name", "state", "reason", "address", "version", "gres", "reason_user"]);
const COMPARE = {
  "=": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  ">": (a, b) => a > b,
  "<": (a, b) => a < b,
  ">=": (a, b) => a >= b,
  "<=": (a, b) => a <= b,
};

// node[0-3,7] as a set of names; null when it is no hostlist.
function hostlist(text) {
  const found = /^([A-Za-z][\w.-]*)\[([\d,-]+)\]$/.exec(text);
  if (!found) return null;
  const names = new Set();
  for (const part of found[2].split(",")) {
    const [low, high = low] = part.split("-");
    if (!low || Number(high) - Number(low) > 100000) return null;
    for (let i = Number(low); i <= Number(high); i += 1)
      names.add(found[1] + String(i).padStart(low.length, "0"));
  }
  return names;
}

function one(word) {
  const found = /^([a-z_]+)(!=|>=|<=|=|>|<)(.*)$/i.exec(word);
  if (!found) {
    const names = hostlist(word);
    if (names) return (n) => names.has(n.name);
    const text = word.toLowerCase();
    return (n) =>
      n.name.toLowerCase().includes(text) ||
      n.reason.toLowerCase().includes(text) ||
      n.state.toLowerCase().includes(text);
  }
  const [, rawKey, sign, raw] = found;
  const key = rawKey.toLowerCase(),
    values = raw.toLowerCase().split(",").filter(Boolean);
  if (NUMBERS.has(key)) {
    const wanted = Number(raw);
    if (raw === "" || Number.isNaN(wanted)) throw new Error(`${key} needs a number`);
    const used = key === "gpus_free" ? "gpus_used" : key;
    return (n) =>
      (n[used] ?? null) !== null && // an unknown number is no 0
      COMPARE[sign](key === "gpus_free" ? n.gpus - n.gpus_used : n[key], wanted);
  }
  if (!["=", "!="].includes(sign)) throw new Error(`${key} takes = or !=`);
  if (LISTS[key])
    return (n) => n[LISTS[key]].some((v) => values.includes(v.toLowerCase())) === (sign === "=");
  if (TEXTS.has(key))
    return (n) => values.some((v) => n[key].toLowerCase().includes(v)) === (sign === "=");
  throw new Error(`there is no ${key} to filter by`);
}

export function nodeTest(text) {
  try {
    const tests = text.trim().split(/\s+/).filter(Boolean).map(one);
    return { test: (n) => tests.every((t) => t(n)), wrong: "" };
  } catch (error) {
    return { test: () => true, wrong: error.message };
  }
}
