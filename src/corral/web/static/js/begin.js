// The page's own files may be lost as it opens: a browser breaks what it just opens whenever a network
// appears or goes on its machine (ERR_NETWORK_CHANGED), and a busy server refuses. A module that was
// lost once stays lost until the page is opened again, so that is done: three times, each later.
{
  const KEY = "reopened";
  const MOST = 3;
  const FIRST_MS = 500;

  const times = () => {
    try {
      return Number(sessionStorage.getItem(KEY)) || 0;
    } catch {
      return MOST; // without storage nothing counts: once more would be without end
    }
  };
  let again = false;
  const lost = () => {
    const before = times();
    if (again || before >= MOST) return;
    again = true;
    sessionStorage.setItem(KEY, String(before + 1));
    setTimeout(() => location.reload(), FIRST_MS * 4 ** before);
  };

  addEventListener(
    "error",
    ({ target }) => {
      // What was only to be there earlier (modulepreload) is asked for again by who needs it.
      const styles = target instanceof HTMLLinkElement && target.rel === "stylesheet";
      if (styles || target instanceof HTMLScriptElement) lost();
    },
    true,
  );
  document.addEventListener("sourceslost", lost);
  document.addEventListener("sourcescame", () => {
    if (times() && !again) sessionStorage.removeItem(KEY);
  });
}
