// What is wrong with the view of a page, measured in it: sentences, none where nothing is.
() => {
  const phone = innerWidth < 1000;
  const all = (css) =>
    [...document.querySelectorAll(css)].filter(
      (e) => e.getClientRects().length && getComputedStyle(e).visibility !== "hidden",
    );
  const about = (e) => {
    const words = e.innerText || e.getAttribute("aria-label") || e.name || "";
    return `${e.tagName.toLowerCase()}.${e.className} ${words.slice(0, 50)}`;
  };
  const each = (css, wrong, words) =>
    all(css)
      .filter(wrong)
      .map((e) => `${words}: ${about(e)}`);

  const small = (e) => {
    const label = e.closest("label")?.getBoundingClientRect();
    const { width, height } = e.getBoundingClientRect();
    return !e.disabled && Math.min(width, height) < 20 && !(label?.height >= 20);
  };
  const hidden = (e) => {
    const { left, right } = e.getBoundingClientRect();
    return left < 0 || right > innerWidth;
  };
  const covered = (plot) => {
    const box = (css) => plot.querySelector(css).getBoundingClientRect();
    return box(".u-legend").top < box(".u-wrap").bottom - 1;
  };
  const formats = /\b\d{4}-\d\d-\d\dT|\b\d{1,2}:\d\d ?[AP]M|\b\d{1,2}\/\d{1,2}\/\d{4}/;
  const sideways = (e) => e.scrollWidth > e.clientWidth + 1;
  const inputs = "button, input, select, textarea, nav a, a.chip, a.button";
  return [
    ...each("html", (e) => e.scrollWidth > innerWidth, "the page scrolls sideways"),
    ...each("nav [aria-current]", hidden, "its tab is out of sight"),
    ...each("main section.card", (e) => !e.innerText.trim(), "an empty panel"),
    ...each(
      "main pre.log:empty",
      (e) => getComputedStyle(e, "::before").content === "none",
      "a log without a line or a sentence",
    ),
    ...each("main td, main dd, main p", (e) => formats.test(e.innerText), "another form of a time"),
    ...each(".uplot", covered, "a legend covers curves"),
    ...each("main label", sideways, "a text sticks out of its field"),
    ...(phone
      ? each(inputs, small, "too small for a finger")
      : [
          ...each(".scroll:has(> table)", sideways, "a table is cut at the right"),
          ...each(
            "main :is(td, th).num",
            (e) => getComputedStyle(e).textAlign !== "right",
            "a number is not at the right",
          ),
        ]),
  ];
};
