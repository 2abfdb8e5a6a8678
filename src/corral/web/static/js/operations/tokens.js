// Tokens of the API: which there are, and ending them. They are made in a terminal.
import { Component, h } from "../../vendor/preact.mjs";
import { call, refused } from "../lib/server.js";
import { ask, card, clock, complain, el, Table, toast } from "../lib/view.js";
/** @import { ApiToken, ApiTokens, Me } from "../api.js" */

/**
 * @param {{ tokens: ApiToken[], revoke: (token: ApiToken) => void }} props
 */
export function TokenTable({ tokens, revoke }) {
  if (!tokens.length) return el("p", { class: "dim" }, "There are no tokens.");
  const rows = tokens.map((token) =>
    el(
      "tr",
      { key: token.id, "data-key": token.id },
      el("td", null, token.name),
      el("td", { "data-label": "user" }, token.user),
      el("td", { "data-label": "scopes" }, token.scopes.join(", ")),
      el("td", { class: "nowrap", "data-label": "made" }, clock(token.made)),
      el("td", { class: "nowrap", "data-label": "expires" }, clock(token.ends)),
      el(
        "td",
        { class: "num pin" },
        el(
          "button",
          {
            class: "danger",
            "aria-label": `Revoke ${token.name}`,
            onClick: () => revoke(token),
          },
          "Revoke",
        ),
      ),
    ),
  );
  const heads = ["name", "user", "scopes", "made", "expires", ""];
  return el("div", { class: "stacked" }, h(Table, { heads }, rows));
}

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, { tokens: ApiToken[] | null, wrong: string }>} */
export class TokensPage extends Component {
  /** @type {{ tokens: ApiToken[] | null, wrong: string }} */
  state = { tokens: null, wrong: "" };

  componentDidMount() {
    this.load();
  }

  async load() {
    try {
      /** @type {ApiTokens} */
      const { tokens } = await call("tokens");
      this.setState({ tokens, wrong: "" });
    } catch (error) {
      this.setState({ wrong: refused(error).message });
    }
  }

  /** @param {ApiToken} token */
  revoke = async (token) => {
    const text = `What uses it is refused from its next request on. It is ${token.user}'s.`;
    const how = { confirm: "Revoke", danger: true, text };
    if (!(await ask(`Revoke ${token.name}?`, [], how))) return;
    try {
      await call(`tokens/${token.id}`, {}, "DELETE");
      toast(`${token.name} is revoked`);
    } catch (error) {
      complain(error);
    }
    await this.load();
  };

  render() {
    const { tokens, wrong } = this.state;
    if (!this.props.me.mine) {
      const none = "This page has none: Slurm's REST API takes Slurm's own tokens.";
      return card("Tokens of the API", [
        el("p", { key: "none", class: "dim" }, none),
        el("a", { key: "api", href: "#api" }, "Operations of the API"),
      ]);
    }
    return card("Tokens of the API", [
      el(
        "p",
        { class: "dim" },
        "Programs use them as Authorization: Bearer. Make one in a terminal: ",
        el("code", null, "corral ui token create NAME --scope read"),
        ". ",
        el("a", { href: "#api" }, "Operations of the API"),
      ),
      wrong ? el("p", { class: "reason", role: "alert" }, wrong) : null,
      tokens ? TokenTable({ tokens, revoke: this.revoke }) : null,
    ]);
  }
}
