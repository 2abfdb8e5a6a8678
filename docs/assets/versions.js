// The switch between versions of the site, next to the title. .ci/site_versions.py puts it and the list of versions into each page.
(() => {
  const script = document.currentScript;
  if (!(script instanceof HTMLScriptElement)) return;
  /** @type {{ version: string, pages: string[] }[]} */
  const versions = Reflect.get(window, "corralVersions");
  const root = new URL(".", script.src);
  const inside = decodeURI(location.href.split(/[?#]/)[0].slice(root.href.length));
  const own = inside.split("/")[0];
  const page = inside.slice(own.length + 1) || "index.html";
  const title = document.querySelector(".md-header__topic");
  if (!title || !versions.some((each) => each.version === own)) return;

  const box = document.createElement("div");
  box.className = "md-version";
  const button = document.createElement("button");
  button.className = "md-version__current";
  button.textContent = own;
  button.setAttribute("aria-label", "Version");
  const list = document.createElement("ul");
  list.className = "md-version__list";
  for (const { version, pages } of versions) {
    const item = document.createElement("li");
    item.className = "md-version__item";
    const link = document.createElement("a");
    link.className = "md-version__link";
    link.textContent = version;
    link.href = new URL(`${version}/${pages.includes(page) ? page : "index.html"}`, root).href;
    item.append(link);
    list.append(item);
  }
  box.append(button, list);
  title.append(box);
})();
