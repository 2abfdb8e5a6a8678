// A field for a filter such as state=pending user=kim, with its keys and values as they are typed.
import { Component, createRef } from "../../vendor/preact.mjs";
import { el } from "./view.js";

/** The values of each key; none are offered of one that takes anything.
 * @typedef {Record<string, string[]>} Words */
/** What takes the place of a word; done: nothing is behind it.
 * @typedef {{ word: string, done: boolean }} Offer */

const MOST = 10;
const SIGN = /^([a-z_]+)(!=|>=|<=|=|>|<)(.*)$/i;
const LEAST = 2; // letters of a value without its key

/**
 * The word of a text at a place, and where it is.
 * @param {string} text
 * @param {number} at
 */
export function wordAt(text, at) {
  const start = text.lastIndexOf(" ", at - 1) + 1;
  const next = text.indexOf(" ", at);
  const end = next < 0 ? text.length : next;
  return { start, end, word: text.slice(start, end) };
}

/**
 * Values that begin as what is typed, and those that have it elsewhere behind them.
 * @param {string[]} values
 * @param {string} typed
 */
function beginning(values, typed) {
  const part = typed.toLowerCase();
  const matching = values.filter((value) => value.toLowerCase().includes(part));
  const first = (/** @type {string} */ value) => (value.toLowerCase().startsWith(part) ? 0 : 1);
  return matching.sort((a, b) => first(a) - first(b));
}

/**
 * What a word may become: a key, a value of its key, or, of a word without one, a key with that value.
 * @param {string} word
 * @param {Words} words
 * @returns {Offer[]}
 */
export function offersOf(word, words) {
  const [, name, sign, typed] = SIGN.exec(word) ?? [];
  if (name !== undefined) {
    const before = typed.split(",");
    const part = before.pop() ?? "";
    const values = (Object.hasOwn(words, name) ? words[name] : []).filter(
      (value) => !before.includes(value),
    );
    const made = beginning(values, part).filter((value) => value !== part);
    return made
      .slice(0, MOST)
      .map((value) => ({ word: `${name}${sign}${[...before, value].join(",")}`, done: true }));
  }
  const keys = Object.keys(words)
    .filter((key) => key.startsWith(word.toLowerCase()))
    .map((key) => ({ word: `${key}=`, done: false }));
  if (word.length < LEAST) return keys.slice(0, MOST);
  const starts = (/** @type {string} */ value) =>
    value.toLowerCase().startsWith(word.toLowerCase());
  const values = Object.entries(words).flatMap(([key, all]) =>
    all.filter(starts).map((value) => ({ word: `${key}=${value}`, done: true })),
  );
  return [...keys, ...values].slice(0, MOST);
}

/**
 * @typedef {object} SearchProps
 * @property {string} value
 * @property {string} placeholder
 * @property {string} label
 * @property {() => Words} words
 * @property {() => void} [begun] somebody is about to type
 * @property {(text: string) => void} type
 */

/**
 * Offers come as something is typed, or with the key Down; Enter takes one, Escape takes the list away.
 * @extends {Component<SearchProps, { open: boolean, chosen: number }>}
 */
export class SearchField extends Component {
  state = { open: false, chosen: -1 };
  /** @type {{ current: HTMLInputElement | null }} */
  input = createRef();

  get at() {
    const { value } = this.props;
    return wordAt(value, this.input.current?.selectionStart ?? value.length);
  }

  get offers() {
    return this.state.open ? offersOf(this.at.word, this.props.words()) : [];
  }

  /** @param {string} text */
  typed(text) {
    this.props.type(text);
    this.setState({
      open: wordAt(text, this.input.current?.selectionStart ?? 0).word !== "",
      chosen: -1,
    });
  }

  /** @param {Offer} offer */
  take({ word, done }) {
    const { start, end } = this.at;
    const { value } = this.props;
    const behind = value.slice(end) || (done ? " " : "");
    const place = start + word.length + (done ? 1 : 0);
    this.props.type(`${value.slice(0, start)}${word}${behind}`);
    this.setState({ open: !done, chosen: -1 }, () => {
      this.input.current?.focus();
      this.input.current?.setSelectionRange(place, place);
      this.forceUpdate(); // what is offered is of the word at the new place
    });
  }

  /** @param {KeyboardEvent} event */
  pressed = (event) => {
    const { offers } = this;
    const { chosen } = this.state;
    /** @type {Record<string, () => void>} */
    const does = {
      ArrowDown: () =>
        this.setState({ open: true, chosen: Math.min(chosen + 1, offers.length - 1) }),
      ArrowUp: () => this.setState({ chosen: Math.max(chosen - 1, -1) }),
      Enter: () => offers[chosen] && this.take(offers[chosen]),
      Escape: () => this.setState({ open: false, chosen: -1 }),
    };
    if (!Object.hasOwn(does, event.key) || event.isComposing) return;
    if (event.key === "Escape" && !offers.length) return; // a browser empties the field
    event.preventDefault();
    does[event.key]();
  };

  /** @param {Offer[]} offers @param {string} id */
  list(offers, id) {
    const options = offers.map((offer, i) => {
      const props = { role: /** @type {const} */ ("option"), id: `${id}-${i}`, key: offer.word };
      return el(
        "li",
        {
          ...{ ...props, "aria-selected": i === this.state.chosen ? "true" : "false" },
          onMouseDown: (event) => event.preventDefault(), // the field keeps the focus
          onClick: () => this.take(offer),
        },
        offer.word,
      );
    });
    return el(
      "ul",
      { class: "offered", role: "listbox", id, "aria-label": "What may be typed" },
      options,
    );
  }

  render() {
    const { value, placeholder, label, begun } = this.props;
    const { offers } = this;
    const id = `offers ${label}`.replaceAll(" ", "-");
    const { chosen } = this.state;
    return el(
      "div",
      { class: "search" },
      el("input", {
        ...{ type: "search", ref: this.input, value, placeholder, "aria-label": label },
        ...{ role: "combobox", autocomplete: "off", "aria-autocomplete": "list" },
        "aria-expanded": offers.length ? "true" : "false",
        "aria-controls": offers.length ? id : undefined,
        "aria-activedescendant": offers[chosen] ? `${id}-${chosen}` : undefined,
        onFocus: begun,
        onInput: ({ currentTarget }) => this.typed(currentTarget.value),
        onKeyDown: this.pressed,
        onBlur: () => this.setState({ open: false, chosen: -1 }),
      }),
      offers.length ? this.list(offers, id) : null,
    );
  }
}
