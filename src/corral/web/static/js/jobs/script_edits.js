// What a choice next to a script writes into it: an image on its srun lines, an environment in its PATH.

const SRUN = /^(\s*(?:(?:exec|time)\s+)*srun)((?: --container-image=(?:'[^']*'|\S+))?)(?=\s|$)/;
const ENVIRONMENT = /^export PATH=(\S+)\/bin:\$PATH$/;

/** @param {string} text */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "")}'`);

/**
 * The script whose tasks run in an image: each srun gets it as its first option; "" takes it away.
 * A line that names an image elsewhere stays as it is.
 * @param {string} script
 * @param {string} image
 */
export function withImage(script, image) {
  let lines = 0;
  const edited = script.split("\n").map((line) => {
    const match = SRUN.exec(line);
    if (!match) return line;
    const rest = line.slice(match[0].length);
    if (/\s--container-image[=\s]/.test(rest)) return line;
    lines += 1;
    return `${match[1]}${image ? ` --container-image=${quoted(image)}` : ""}${rest}`;
  });
  return { script: edited.join("\n"), lines };
}

/**
 * The script that runs the programs of a Python environment (venv, uv, conda); "" takes it away.
 * The line comes behind the lines that sbatch reads.
 * @param {string} script
 * @param {string} folder
 */
export function withEnvironment(script, folder) {
  const lines = script.split("\n").filter((line) => !ENVIRONMENT.test(line));
  if (!folder) return lines.join("\n");
  const first = lines.findIndex((line) => line.trim() && !line.trim().startsWith("#"));
  const at = first < 0 ? lines.length : first;
  const path = quoted(folder);
  return [...lines.slice(0, at), `export PATH=${path}/bin:$PATH`, ...lines.slice(at)].join("\n");
}

/**
 * What the script has of both, as the choices wrote it.
 * @param {string} script
 */
export function chosenIn(script) {
  const lines = script.split("\n");
  const image = lines.map((line) => SRUN.exec(line)?.[2] ?? "").find((option) => option) ?? "";
  const python = lines.map((line) => ENVIRONMENT.exec(line)?.[1] ?? "").find((path) => path) ?? "";
  const bare = (/** @type {string} */ text) => text.replace(/^'(.*)'$/, "$1");
  return { image: bare(image.replace(" --container-image=", "")), python: bare(python) };
}
