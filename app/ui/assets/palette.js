// The command palette: Ctrl K (on a Mac ⌘ K), / outside of a field, or a button opens it. Pages and actions are found at
// once; names come from the workbench a moment later, below what is there, so that nothing moves. Everything foreign is
// set as text.

const SETTLED = 150;
const SHORTEST = 2;
const MOST = 7;
const IS_MAC = /Mac|iP(hone|ad)/.test(navigator.platform);
const KEYS = IS_MAC ? "⌘ K" : "Ctrl K";
let workbench = null; // of the newest drawing: its data, and what tells the workbench
let names = { query: "", items: [], problem: "" };
let active = 0;
let waiting = 0;

function make(tag, className, parent, text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  parent?.append(made);
  return made;
}

const dialog = make("dialog", "carrel-palette");
dialog.setAttribute("aria-label", "Go to");
const input = make("input", "", dialog);
const list = make("div", "", dialog);
const status = make("p", "carrel-facts", dialog);
input.type = "text";
input.placeholder = "Page, action, person, document or agent";
list.id = "carrel-palette-list";
status.setAttribute("role", "status");
list.setAttribute("role", "listbox");
list.setAttribute("aria-label", "Found");
const COMBOBOX = { role: "combobox", "aria-label": input.placeholder, "aria-expanded": "true", "aria-autocomplete": "list",
  "aria-controls": list.id, autocomplete: "off", autocapitalize: "none", spellcheck: "false", enterkeyhint: "go" };
for (const [name, value] of Object.entries(COMBOBOX)) input.setAttribute(name, value);

function plain(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}

// Of words that all stand in an entry, those at the beginning of its name count most.
function rank(item, words) {
  const name = plain(item.name);
  const all = `${name} ${plain(item.kind)}`;
  if (!words.every((word) => all.includes(word))) return -1;
  return name.startsWith(words[0] ?? "") ? 2 : words.every((word) => name.includes(word)) ? 1 : 0;
}

function found() {
  const text = input.value.trim();
  const words = plain(text).split(/\s+/).filter(Boolean);
  const ranked = workbench.data.items.map((item) => [rank(item, words), item]).filter(([rank]) => rank >= 0);
  if (!words.length) return workbench.data.items;
  const known = ranked.sort(([one], [other]) => other - one).slice(0, MOST);
  const named = known.filter(([rank]) => rank > 0).map(([, item]) => item);
  const about = known.filter(([rank]) => rank === 0).map(([, item]) => item);
  const search = { name: `Search documents for “${text}”`, kind: "", icon: "search",
    address: `search?${new URLSearchParams({ q: text })}` };
  return [...named, search, ...about, ...(names.query === text ? names.items : [])];
}

function draw() {
  const items = found();
  active = Math.min(active, items.length - 1);
  list.replaceChildren(...items.map((item, index) => {
    const option = make("a");
    option.href = item.address;
    option.id = `carrel-palette-${index}`;
    option.tabIndex = -1;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", index === active);
    const icon = make("span", "carrel-icon", option, item.icon);
    icon.setAttribute("aria-hidden", "true");
    icon.setAttribute("translate", "no");
    make("bdi", "", option, item.name);
    make("small", "", option, item.kind);
    option.addEventListener("click", (event) => choose(event, item));
    option.addEventListener("mousemove", () => index !== active && point(index));
    return option;
  }));
  input.setAttribute("aria-activedescendant", `carrel-palette-${active}`);
  const text = input.value.trim();
  const isAsked = isLong(text);
  status.textContent = !isAsked ? "" : names.query !== text ? "Looking for names …"
    : names.problem || (items.length > 1 ? "" : "Nothing that you may read is called that."); // Search is always there
}

function point(index) {
  list.children[active]?.setAttribute("aria-selected", "false");
  active = index;
  list.children[active]?.setAttribute("aria-selected", "true");
  list.children[active]?.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", `carrel-palette-${active}`);
}

function isLong(text) {
  return text.length >= SHORTEST || /[^\u0000-\u024f]/.test(text);
}

// With a key held down, the browser opens the address in a tab of its own.
function choose(event, item) {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  dialog.close();
  workbench.setTriggerValue("go", { address: item.address, dialog: item.dialog ?? "" });
}

function ask() {
  const text = input.value.trim();
  if (dialog.open && isLong(text) && names.query !== text) workbench.setTriggerValue("query", text);
}

function open() {
  if (dialog.open || document.querySelector("[role=dialog]")) return;
  input.value = "";
  names = { query: "", items: [], problem: "" }; // there may be others by now
  active = 0;
  draw();
  dialog.showModal();
  list.scrollTop = 0;
}

function isTyping({ target }) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox], [type=radio]), textarea, select");
}

// While an input method composes a word, its keys are its own.
function listen(event) {
  if (event.isComposing || event.keyCode === 229 || event.altKey || event.shiftKey && event.key !== "/") return;
  const isShortcut = (IS_MAC ? event.metaKey : event.ctrlKey) && (event.key.toLowerCase() === "k" || event.code === "KeyK" && !/[a-z]/i.test(event.key));
  const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !isTyping(event);
  if (!isShortcut && !(isSlash && !document.querySelector("[role=dialog]"))) return;
  event.preventDefault();
  if (isShortcut && dialog.open) dialog.close();
  else open();
}

function move(event) {
  if (event.isComposing || event.keyCode === 229) return;
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: MOST, PageUp: -MOST };
  const last = list.children.length - 1;
  if (event.key in steps) {
    const next = active + steps[event.key];
    point(Math.abs(steps[event.key]) > 1 ? Math.max(0, Math.min(last, next)) : (next + last + 1) % (last + 1));
  } else if (event.key === "Enter") {
    list.children[active]?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey: event.ctrlKey,
      metaKey: event.metaKey, shiftKey: event.shiftKey }));
  } else return;
  event.preventDefault();
}

input.addEventListener("keydown", move);
input.addEventListener("input", () => {
  active = 0;
  draw();
  clearTimeout(waiting);
  waiting = setTimeout(ask, SETTLED);
});
let pressed = null; // a text that is chosen with the mouse may end outside
dialog.addEventListener("pointerdown", ({ target }) => { pressed = target; });
dialog.addEventListener("click", ({ target }) => target === dialog && pressed === dialog && dialog.close());

export default function ({ data, parentElement, setTriggerValue }) {
  workbench = { data, setTriggerValue };
  if (data.found) names = data.found;
  if (dialog.open) draw();
  if (parentElement.ends) return parentElement.ends;
  const ends = new AbortController();
  // The second button is seen while the menu is closed, as on a phone.
  const app = document.querySelector(".stApp"); // where the theme's colours are
  for (const place of [parentElement, app]) {
    const button = make("button", `carrel-palette-button${place === app ? " is-apart" : ""}`, place);
    button.type = "button";
    button.setAttribute("aria-label", "Go to …");
    const icon = make("span", "carrel-icon", button, "search");
    icon.setAttribute("aria-hidden", "true");
    icon.setAttribute("translate", "no");
    make("span", "", button, "Go to …");
    make("kbd", "", button, KEYS);
    button.setAttribute("aria-keyshortcuts", IS_MAC ? "Meta+K" : "Control+K");
    button.addEventListener("click", open);
    ends.signal.addEventListener("abort", () => button.remove());
  }
  app.append(dialog);
  document.addEventListener("keydown", listen, { capture: true, signal: ends.signal });
  parentElement.ends = () => {
    ends.abort();
    dialog.remove();
    parentElement.ends = null;
  };
  return parentElement.ends;
}
