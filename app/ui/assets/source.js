// Tells which source of a reply is drawn beside the conversation. In a window that has no room for it, and with a key
// held down, links lead where they point to; style.css has the same width. Escape closes it.

const WIDE = matchMedia("(min-width: 1400px)");
const OPEN_ABOVE = "dialog[open], [role=dialog], [data-testid=stPopoverBody]"; // Escape closes these first

export default function ({ parentElement, setStateValue }) {
  parentElement.ends?.abort();
  const { signal } = (parentElement.ends = new AbortController());
  const panel = () => document.querySelector("[data-source-shown]");

  function press(event) {
    if (event.target.closest?.(".carrel-close")) return close();
    const link = event.target.closest?.("a[data-source]");
    if (!link || !WIDE.matches || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    event.preventDefault();
    parentElement.from = link;
    parentElement.awaited = link.dataset.source;
    if (panel()?.dataset.sourceShown !== parentElement.awaited) setStateValue("chosen", parentElement.awaited);
    focusDrawn();
  }

  function focusDrawn() {
    const drawn = panel();
    if (!drawn || drawn.dataset.sourceShown !== parentElement.awaited || drawn.ariaBusy === "true") return;
    parentElement.awaited = null;
    drawn.focus({ preventScroll: true });
  }

  function close() {
    const { sourceShown } = panel().dataset;
    parentElement.awaited = null;
    setStateValue("chosen", "");
    const { from } = parentElement; // a page that is drawn again has other links
    (from?.isConnected ? from : document.querySelector(`a[data-source="${CSS.escape(sourceShown)}"]`))?.focus();
  }

  function escape({ key, defaultPrevented }) {
    if (key === "Escape" && !defaultPrevented && panel() && !document.querySelector(OPEN_ABOVE)) close();
  }

  document.addEventListener("click", press, { signal });
  document.addEventListener("keydown", escape, { signal });
  const drawing = new MutationObserver(focusDrawn);
  drawing.observe(document.body, { childList: true, subtree: true });
  signal.addEventListener("abort", () => drawing.disconnect());
  return () => parentElement.ends.abort();
}
