import js from "@eslint/js";
import globals from "globals";

// Markup made of text is how a job's name becomes a script: elements are made by h() of Preact.
const MARKUP = ["innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML"];

export default [
  { ignores: ["**/vendor/", ".venv/", "docs/assets/iframe-worker.js"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2023, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "array-callback-return": "error",
      complexity: ["error", 10],
      "default-case-last": "error",
      eqeqeq: "error",
      "guard-for-in": "error",
      "max-depth": ["error", 4],
      "max-len": ["error", { code: 160, ignoreUrls: true }],
      "max-lines-per-function": ["error", { max: 60, skipComments: true }],
      "no-eval": "error",
      "no-implicit-coercion": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-param-reassign": "error",
      "no-promise-executor-return": "error",
      "no-restricted-properties": ["error", ...MARKUP.map((property) => ({ property }))],
      "no-script-url": "error",
      "no-self-compare": "error",
      "no-shadow": "error",
      "no-unmodified-loop-condition": "error",
      "no-unused-expressions": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
      radix: "error",
    },
  },
  {
    files: ["src/corral/web/static/js/**"],
    languageOptions: { globals: globals.browser },
    rules: { "no-console": "error", "no-restricted-globals": ["error", "event", "name"] },
  },
  {
    // It is put into a report's page as text, after uPlot: a script, not a module.
    files: ["src/corral/report/templates/**"],
    languageOptions: { sourceType: "script", globals: { ...globals.browser, uPlot: "readonly" } },
    rules: { "no-console": "error", "no-restricted-globals": ["error", "event", "name"] },
  },
  {
    // The documentation's switch between versions: a script next to the list of them.
    files: ["docs/assets/**"],
    languageOptions: { sourceType: "script", globals: globals.browser },
    rules: { "no-console": "error", "no-restricted-globals": ["error", "event", "name"] },
  },
  { files: ["tests/**"], languageOptions: { globals: globals.node } },
];
