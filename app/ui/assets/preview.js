// Tells which result's or row's preview is drawn: the first, then the entry that the person goes to, presses or, in a
// table, points at. → goes from an entry into its preview, and ← back. In a window that has no room for the preview
// nothing is told, and so nothing of it is fetched; style.css has the same width.

const WIDE = matchMedia("(min-width: 1400px)");
const SETTLED = 150; // whoever goes through the entries with a key held down looks at the last one
let last = { address: "", chosen: "" }; // more results of the same search leave it chosen

function isThere(chosen) {
  return last.address === location.href && document.querySelector(`[data-document="${chosen}"]`);
}

export default function ({ data, parentElement, setStateValue }) {
  parentElement.ends?.abort();
  const { signal } = (parentElement.ends = new AbortController());
  parentElement.chosen ??= isThere(last.chosen) ? last.chosen : data.first;
  let waiting = 0;

  function mark() {
    for (const button of document.querySelectorAll(".carrel-previews")) {
      const isChosen = button.closest("article").dataset.document === parentElement.chosen;
      button.setAttribute("aria-pressed", isChosen);
    }
  }

  function tell() {
    if (!WIDE.matches || !parentElement.chosen || parentElement.told === parentElement.chosen) return;
    parentElement.told = parentElement.chosen;
    setStateValue("chosen", parentElement.chosen);
  }

  function choose({ target }) {
    const chosen = target.closest?.("[data-document]")?.dataset.document;
    const isPressed = target.closest(".carrel-previews"); // of a preview that failed, once more
    if (!chosen || (chosen === parentElement.chosen && !isPressed)) return;
    if (isPressed) parentElement.told = "";
    parentElement.chosen = chosen;
    last = { address: location.href, chosen };
    mark();
    clearTimeout(waiting);
    waiting = setTimeout(tell, SETTLED);
  }

  function go(event) {
    const { target, key } = event;
    if (!WIDE.matches || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    let next = null;
    if (key === "ArrowRight" && target.matches?.("[data-document] :is(a, button, input)")) {
      next = document.querySelector(".carrel-preview");
    } else if (key === "ArrowLeft" && target.closest?.(".carrel-preview")) {
      next = document.querySelector(`[data-document="${parentElement.chosen}"] :is(h2 a, .carrel-row)`);
    }
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  function point(event) {
    if (event.target.closest?.("tr[data-document]")) choose(event);
  }

  for (const kind of ["click", "focusin"]) document.addEventListener(kind, choose, { signal });
  document.addEventListener("pointermove", point, { signal }); // not over rows that come under a still pointer
  document.addEventListener("keydown", go, { signal });
  WIDE.addEventListener("change", tell, { signal });
  mark();
  tell();
  return () => parentElement.ends.abort();
}
