// What is typed on Submit is kept in this tab: who looks at another page finds it again. Secrets are not.

// The names of which the server hides the values in a job's environment (api/page/job_details.py).
const NAME = /TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|_KEY$|JWT/i;
const GIVEN = [
  // No part is longer than a name: a word of a million signs took minutes.
  /([\w-]{1,64})["']?[ \t]{0,64}[=:][ \t]{0,64}(?=["']?([^\s"']{1,256}))/g, // NAME=value, "name": value
  /(--[\w-]{1,64})[ \t]{1,64}(?=["']?([^\s"']{1,256}))/g, // --name value
];
/** Numbers, flags and variables are not secret, nor is the name of a tokenizer. */
const HARMLESS = /^(?:[\d.,]+|true|false|none|null|\$.*)$/i;
const PLAIN =
  /\bbearer\s+\S|BEGIN [A-Z ]{0,64}PRIVATE KEY|:\/\/[^\s/:@]+:[^\s/@]+@|\s-u\s*[^\s:]+:\S/i;

/**
 * Whether a text looks as if a secret were in it.
 * @param {string} text
 */
export function secretive(text) {
  const given = GIVEN.flatMap((form) => [...text.matchAll(form)]);
  return (
    PLAIN.test(text) ||
    given.some(([, name, value]) => {
      const word = name.replace(/^-+/, "").replaceAll("-", "_");
      return NAME.test(word) && !/tokeniz/i.test(word) && !HARMLESS.test(value);
    })
  );
}

/** What is typed into one form, by one user.
 * @template T */
export class Draft {
  /**
   * @param {string} user
   * @param {string} form
   */
  constructor(user, form) {
    this.key = `draft ${user} ${form}`;
  }

  /** @returns {T | null} */
  get kept() {
    try {
      return JSON.parse(sessionStorage.getItem(this.key) ?? "null");
    } catch {
      return null;
    }
  }

  /** @param {T} typed */
  keep(typed) {
    try {
      sessionStorage.setItem(this.key, JSON.stringify(typed));
    } catch {
      // A private window without storage, or a full one: it is not kept.
    }
  }

  clear() {
    try {
      sessionStorage.removeItem(this.key);
    } catch {
      // As above.
    }
  }
}
