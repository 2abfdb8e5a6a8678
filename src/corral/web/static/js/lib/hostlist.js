// Slurm's hostlists for the filters, which are read as they are typed: what expand() of
// corral/spec/slurm/hostlist.py gives. Both are tested by tests/unit/spec/slurm/hostlists.json.

const NODES_AT_MOST = 65536;
const TERMS = /(?:\[[^\]]*\]?|[^,[])+/g;
const PIECES = /\[[^\]]*\]?|[^[]+/g;
const RANGE = /^([0-9]{1,9})(?:-([0-9]{1,9}))?$/;

/**
 * The numbers of 08-11; the first one's width counts. Null: it is not a range, or has too many.
 * @param {string} text
 */
function numbersOf(text) {
  const match = RANGE.exec(text);
  if (!match) return null;
  const [, low, high = low] = match;
  const [first, last] = [Number(low), Number(high)];
  if (last < first || last - first >= NODES_AT_MOST) return null;
  const width = low.startsWith("0") ? low.length : 0;
  return Array.from({ length: last - first + 1 }, (_, i) => String(first + i).padStart(width, "0"));
}

/**
 * What a piece of a name stands for: a text for itself, [0-2,7] for its numbers.
 * @param {string} piece
 * @returns {string[] | null}
 */
function choicesOf(piece) {
  if (!piece.startsWith("[")) return piece.includes("]") ? null : [piece];
  if (!piece.endsWith("]")) return null;
  /** @type {string[]} */
  const choices = [];
  for (const range of piece.slice(1, -1).split(",")) {
    const numbers = numbersOf(range);
    if (!numbers) return null;
    choices.push(...numbers);
  }
  return choices;
}

/**
 * The names of one term, such as rack[0-1]-node[0-3].
 * @param {string} term
 * @returns {string[] | null}
 */
function namesOf(term) {
  let names = [""];
  for (const piece of term.match(PIECES) ?? []) {
    const choices = choicesOf(piece);
    if (!choices || names.length * choices.length > NODES_AT_MOST) return null;
    names = names.flatMap((name) => choices.map((choice) => name + choice));
  }
  return names;
}

/**
 * The names of a hostlist in the order written; null: it is not one, or has more than 65,536.
 * @param {string} text
 * @returns {string[] | null}
 */
export function expand(text) {
  /** @type {string[]} */
  const names = [];
  for (const term of text.match(TERMS) ?? []) {
    const more = namesOf(term);
    if (!more || names.length + more.length > NODES_AT_MOST) return null;
    for (const name of more) names.push(name);
  }
  return names;
}
