// Search in a job's files, by the server: also in what is not loaded.
import { Component } from "../../vendor/preact.mjs";
import { bytes, fileWords, settled, styled } from "./logtext.js";
import { call, refused } from "../lib/server.js";
import { el, formatted, many } from "../lib/view.js";
/** @import * as api from "../api.js" */

const MOST_HITS = 200;

/**
 * The address of a question about a job's log.
 * @param {number} job
 * @param {string} what
 * @param {Record<string, string | number>} [query]
 */
export function logPath(job, what, query = {}) {
  const texts = Object.entries(query).map(([name, value]) => [name, String(value)]);
  const words = new URLSearchParams(texts).toString();
  return `jobs/${job}/log${what && `/${what}`}${words && `?${words}`}`;
}

/**
 * Where a search goes on: the first file is searched from there, those after it from their start.
 * @typedef {{ files: string[], start: number, line: number }} Place
 */

/**
 * @typedef {object} SearchProps
 * @property {number} job
 * @property {string[]} files
 * @property {(hit: api.LogHit) => void} go
 * @property {(text: string) => void} mark
 */

/**
 * @typedef {object} SearchState
 * @property {string} text
 * @property {api.LogHit[]} hits
 * @property {string} words
 * @property {boolean} searching
 * @property {Place | null} rest
 * @property {number} at
 */

/** @param {string} text a line as it is, cut around the hit */
export const plainText = (text) =>
  styled(settled(text))
    .pieces.map((piece) => piece.text)
    .join("");

/** @type {SearchState} */
const NOTHING = { text: "", hits: [], words: "", searching: false, rest: null, at: -1 };

/** @extends {Component<SearchProps, SearchState>} */
export class LogSearch extends Component {
  state = NOTHING;
  asked = 0;

  componentWillUnmount() {
    this.asked += 1;
    this.props.mark("");
  }

  clear() {
    this.asked += 1;
    this.props.mark("");
    this.setState(NOTHING);
  }

  /** @param {Event} event */
  begin = (event) => {
    event.preventDefault();
    const { text } = this.state;
    if (!text.trim()) return this.clear();
    this.setState({ hits: [], at: -1 });
    this.props.mark(text);
    return this.search({ files: this.props.files, start: 0, line: 0 }, []);
  };

  /**
   * File after file, until there are enough lines.
   * @param {Place} place
   * @param {api.LogHit[]} hits
   */
  async search(place, hits) {
    this.asked += 1;
    const mine = this.asked;
    let [all, at] = [hits, place];
    let stopped = false;
    while (at.files.length && all.length < hits.length + MOST_HITS && !stopped) {
      this.setState({ searching: true, words: `searching ${fileWords(at.files[0])}`, rest: null });
      const response = await this.one(at).catch(refused);
      if (mine !== this.asked) return;
      if ("message" in response) {
        this.setState({ searching: false, words: response.message });
        return;
      }
      const { end, line, size } = response;
      all = [...all, ...response.hits];
      stopped = end < size;
      at = stopped ? { ...at, start: end, line } : { files: at.files.slice(1), start: 0, line: 0 };
      this.setState({ hits: all });
    }
    const [next] = at.files;
    const where = next ? `; searched up to ${bytes(at.start)} of ${fileWords(next)}` : "";
    const words = `${many(all.length, "line")}${where}`;
    this.setState({ searching: false, words, rest: next ? at : null });
  }

  /**
   * @param {Place} place
   * @returns {Promise<api.LogMatches>}
   */
  one({ files, start, line }) {
    const query = { file: files[0], text: this.state.text, start, line };
    return call(logPath(this.props.job, "search", query));
  }

  /** @param {number} at */
  go(at) {
    const hit = this.state.hits[at];
    if (!hit) return;
    this.setState({ at });
    this.props.go(hit);
  }

  results() {
    const { hits, at, rest, searching } = this.state;
    if (!hits.length) return null;
    const several = this.props.files.length > 1;
    const rows = hits.map(({ name, start, line, text }, i) =>
      el(
        "li",
        { key: `${name} ${start}` },
        el(
          "button",
          {
            ...{ class: "hit", type: "button", onClick: () => this.go(i) },
            "aria-current": i === at ? "true" : undefined,
          },
          el(
            "span",
            { class: "rank" },
            `${several ? `${fileWords(name)} ` : ""}${formatted(line + 1)}`,
          ),
          " ",
          plainText(text),
        ),
      ),
    );
    const more = () => rest && this.search(rest, hits);
    return el(
      "div",
      { class: "hits" },
      el("ul", { class: "plain" }, rows),
      rest
        ? el(
            "button",
            { class: "small", type: "button", disabled: searching, onClick: more },
            "Search on",
          )
        : null,
    );
  }

  render() {
    const { text, words, hits, at } = this.state;
    const small = { class: "small", type: /** @type {const} */ ("button") };
    return el(
      "div",
      null,
      el(
        "form",
        { class: "row logbar", role: "search", onSubmit: this.begin },
        el("input", {
          ...{ type: "search", name: "text", placeholder: "Search the complete output" },
          ...{ "aria-label": "Search in the output", maxLength: 200, value: text },
          onInput: ({ currentTarget }) => {
            if (currentTarget.value) this.setState({ text: currentTarget.value });
            else this.clear();
          },
        }),
        el("button", { class: "small" }, "Search"),
        hits.length > 1
          ? [
              el(
                "button",
                { key: "previous", ...small, disabled: at <= 0, onClick: () => this.go(at - 1) },
                "Previous",
              ),
              el(
                "button",
                {
                  key: "next",
                  ...small,
                  disabled: at >= hits.length - 1,
                  onClick: () => this.go(at + 1),
                },
                "Next",
              ),
            ]
          : null,
        el("span", { class: "dim", role: "status" }, words),
      ),
      this.results(),
    );
  }
}
