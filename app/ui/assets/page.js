// Each page loads this script before Streamlit's. It adds keys, roles, a kept focus, kept text, and a word about waiting.
// A dialog opens with the cursor in its first field, and / puts it there again; ↑ and ↓ go among the results of a
// search; Enter in a field that finds people keeps the only match, and empties itself for the next. A file that was just
// made is downloaded. A document is scrolled to the passage that is marked in it.

const FIELDS_OF_DIALOG = "[role=dialog] :is(input[type=text], input[type=search], textarea)";
const RESULTS = ".carrel-result h2 a";
// Of a field that finds people: a page's own button that adds something is another.
const ADD = "[class*=st-key-]:is([class$=-add], [class*='-add ']):not(.st-key-add)";

function isTyping(target) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox], [type=radio]), textarea, select");
}

function isSeen(one) {
  return one.checkVisibility() && !one.disabled;
}

function firstField() {
  return [...document.querySelectorAll(FIELDS_OF_DIALOG)].find(isSeen);
}

// Elsewhere, / opens the palette (palette.js).
function focusField(event) {
  const field = firstField();
  if (!field || isTyping(event.target)) return;
  event.preventDefault();
  field.focus();
  field.select();
}

// On a touch screen, the cursor would open the keyboard over the dialog.
let entered = null;
function enterDialog() {
  const dialog = document.querySelector(".stDialog [role=dialog]");
  const isReady = isDrawn() && !dialog?.querySelector("[data-testid=stSkeleton]");
  const field = dialog && isReady && firstField();
  if (dialog && (dialog === entered || !field)) return;
  entered = dialog;
  if (field && matchMedia("(hover)").matches && [document.body, dialog].includes(document.activeElement)) field.focus();
}

function goAmongResults(event, step) {
  const results = [...document.querySelectorAll(RESULTS)].filter(isSeen);
  const at = results.indexOf(event.target.closest?.("article")?.querySelector(RESULTS) ?? null);
  const isSearchField = event.target.matches("[data-testid=stForm] input[type=text]:not([role=combobox])");
  if (at < 0 && (step < 0 || !(isSearchField || event.target === document.body))) return;
  const next = at + step < 0 ? document.querySelector("[data-testid=stForm] input") : results[at + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
  next.closest("article")?.scrollIntoView({ block: "nearest" });
}

async function addMatch(field) {
  const typed = field.value;
  const place = field.closest("[role=dialog]") ?? document;
  for (let waited = 0; waited < 2000 && field.isConnected && field.value === typed; waited += 100) {
    const matches = [...place.querySelectorAll(`${ADD} button`)].filter(isSeen);
    const isFresh = document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]");
    if (isFresh && waited >= 300 && matches.length === 1) return matches[0].click();
    await new Promise((done) => setTimeout(done, 100));
  }
}

// What a button unfolds stands at the end of the page, behind all its stops: Tab leads into it, and Shift+Tab back.
function goIntoPopover(event) {
  const opener = document.querySelector("[data-testid=stPopoverButton][aria-expanded=true]");
  const inside = document.querySelectorAll("[data-testid=stPopoverBody] :is(input, textarea, button, [tabindex='0'])");
  // While the focus is elsewhere, its stops are kept in `data-tabindex`.
  const first = [...inside].find((one) => (one.dataset.tabindex ?? one.getAttribute("tabindex")) !== "-1" && isSeen(one));
  const next = event.shiftKey ? event.target === first && opener : event.target === opener && first;
  if (!next) return;
  event.preventDefault();
  next.focus();
}

// A menu that lies over the page closes when a page is chosen in it. Streamlit does so on phones alone, not in windows
// that are as narrow.
function closeMenu(event) {
  if (innerWidth >= 768 || !event.target.closest?.("[data-testid=stSidebarNavLink]")) return;
  setTimeout(() => {
    document.querySelector("[data-testid=stSidebar][aria-expanded=true] [data-testid=stSidebarCollapseButton] button")?.click();
  }, 300);
}

// To Streamlit, the menu's link to the page that is open leads nowhere: it shall lead from one thing to their list.
function goBackToList(event) {
  if (!event.target.closest?.("[data-testid=stSidebarNavLink][aria-current=page]")) return;
  document.querySelector(".stMain [class*='st-key-back-'] button")?.click();
}

// While an input method composes a word, its keys choose among candidates. Nothing else may act on them.
function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}

function act(event) {
  if (isComposing(event)) return event.stopImmediatePropagation();
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "/") focusField(event);
  else if (event.key === "Enter" && event.target.matches("input[type=search]")) addMatch(event.target);
  else if (event.key === "Tab") goIntoPopover(event);
  else if (event.key === "ArrowDown") goAmongResults(event, 1);
  else if (event.key === "ArrowUp") goAmongResults(event, -1);
}

// Streamlit makes the place for files, which can't be focused, a thing without a role that has a name all the same.
function mendRoles() {
  for (const place of document.querySelectorAll("[data-testid=stFileUploaderDropzone][role=presentation]")) {
    place.setAttribute("role", "group");
  }
}

// The menu marks where the person is, also on the pages under Settings, which it doesn't list, and at /search, which
// Streamlit knows only as /.
function markPlace() {
  const above = document.querySelector(".carrel-trail a")?.pathname;
  for (const link of document.querySelectorAll("[data-testid=stSidebarNavLink]")) {
    const isHere = link.pathname === (location.pathname === "/search" ? "/" : above);
    if (isHere === link.hasAttribute("data-current")) continue;
    link.toggleAttribute("data-current", isHere);
    if (isHere) link.setAttribute("aria-current", above ? "true" : "page");
    else if (link.pathname !== location.pathname) link.removeAttribute("aria-current");
  }
}

// app/ui/progress.py marks a file, in the one run of the page that has made it.
let downloaded = "";
function downloadMadeFile() {
  const made = document.querySelector("[class*=st-key-export-made-]");
  const button = made?.querySelector("[data-testid=stDownloadButton] button");
  const mark = made?.className.match(/st-key-export-made-\w+/)[0];
  if (!button || mark === downloaded) return;
  downloaded = mark;
  button.click();
}

// A document is drawn from where its page or its text begins; the passage in it may stand below the window.
let scrolledTo = null;
function scrollToPassage() {
  const mark = document.querySelector(".carrel-page-mark, .carrel-chunk mark");
  if (mark === scrolledTo) return;
  scrolledTo = mark;
  // On a page, where it stands is known once the picture has its height.
  const picture = mark?.parentElement.querySelector("img");
  Promise.resolve(picture?.decode()).then(() => {
    if (mark?.getBoundingClientRect().bottom > innerHeight) mark.scrollIntoView();
  }).catch(() => {});
}

// Icons are ligatures of words, and quotes must match their document: translating a page in the browser leaves both.
const NOT_TRANSLATED = "[data-testid=stIconMaterial], .carrel-icon, .carrel-passage, .carrel-chunk, blockquote, code, pre";
function keepUntranslated() {
  for (const part of document.querySelectorAll(`:is(${NOT_TRANSLATED}):not([translate])`)) part.setAttribute("translate", "no");
}

// A browser that translates the page puts elements in the places of texts. React keeps to the texts: it would fail to
// remove them and to insert before them, and what it writes into them would not be seen.
const standsFor = new WeakMap(); // text that a translator took out: the element that it put there
const rewritten = new MutationObserver((changes) => {
  for (const { target } of changes) standsFor.get(target).textContent = target.data;
});

function noteTranslation(changes) {
  for (const { addedNodes, removedNodes, previousSibling, nextSibling } of changes) {
    const put = [...addedNodes, previousSibling, nextSibling].find((one) => one?.nodeName === "FONT");
    for (const text of put ? removedNodes : []) {
      if (text.nodeType !== Node.TEXT_NODE || text.isConnected) continue;
      standsFor.set(text, put);
      rewritten.observe(text, { characterData: true });
    }
  }
}

function mendNodes() {
  const { removeChild, insertBefore } = Node.prototype;
  Node.prototype.removeChild = function (child) {
    const put = child?.parentNode === this ? null : standsFor.get(child);
    if (!put) return removeChild.call(this, child);
    put.remove();
    return child;
  };
  Node.prototype.insertBefore = function (child, next) {
    const put = !next || next.parentNode === this ? null : standsFor.get(next);
    return insertBefore.call(this, child, !put ? next : put.parentNode === this ? put : null);
  };
}

// --- Focus: an element that Streamlit draws anew loses it, and the keyboard would start at the page's top again.
const KEYED = "[class*=st-key-]";
let focused = null;
let opener = null;

function keyOf(element) {
  return element.closest(KEYED)?.className.match(/st-key-[\w-]+/)?.[0] ?? "";
}

function nameOf(element) {
  return element.getAttribute("href") ?? element.getAttribute("aria-label") ?? element.textContent.trim().slice(0, 80);
}

function noteFocus({ target }) {
  focused = { element: target, key: keyOf(target), tag: target.tagName, name: nameOf(target) };
  if (!target.closest("[role=dialog]")) opener = focused;
}

function isLost({ element }) {
  return !element.isConnected || element.disabled || !element.checkVisibility();
}

function findAgain({ key, tag, name }) {
  const place = key ? document.querySelectorAll(`.${key} ${tag}, ${tag}.${key}`) : document.getElementsByTagName(tag);
  const found = [...place].filter(isSeen);
  const same = (one) => nameOf(one) === name;
  return found.find(same) ?? (key && (found[0] ?? [...document.getElementsByTagName(tag)].filter(isSeen).find(same)));
}

function keepFocus() {
  if (!focused || document.activeElement !== document.body || !isLost(focused)) return;
  const dialog = document.querySelector("[role=dialog]");
  const again = findAgain(focused) || (!dialog && opener && findAgain(opener));
  if (again && (!dialog || dialog.contains(again))) return again.focus({ preventScroll: true });
  // What had the focus is gone for good, as a row is that was opened: it goes to the heading of what came instead.
  const place = dialog ?? document.querySelector(".stMain h2.carrel-name") ?? document.querySelector(".stMain h1");
  if (!place || !isDrawn()) return;
  place.tabIndex = -1;
  place.focus({ preventScroll: true });
}

// --- Waiting: a page says within three seconds which part it waits for. app/availability.py looks which one that is.
const OUTLINED_AFTER = 100;
const ASKED_AFTER = 700;
const TOLD_AFTER = 2500;
const USUAL = "This takes longer than usual. Carrel is still at work on it.";
const UNREACHABLE = "The workbench does not answer. This page continues by itself once it does.";
let waitsSince = 1; // the first drawing is waited for since the address was opened, however late this script comes
let asked = 0;
let said = "";

function isDrawn() {
  const app = document.querySelector("[data-testid=stApp]");
  return app?.dataset.testScriptState === "notRunning" && app.dataset.testConnectionState === "CONNECTED";
}

// Of another page, its title is drawn before anything is waited for.
function isBare() {
  return document.querySelectorAll(".stMain [data-testid=stElementContainer]").length < 8;
}

async function askParts(since) {
  const patience = asked++ ? "long" : "short";
  let answer = UNREACHABLE;
  try {
    const query = new URLSearchParams({ patience, page: location.pathname });
    const signal = AbortSignal.timeout(patience === "long" ? 10_000 : 1_700);
    answer = (await (await fetch(`/availability?${query}`, { signal })).json()).said || USUAL;
  } catch {}
  if (since !== waitsSince) return;
  said = answer;
  setTimeout(() => since === waitsSince && askParts(since), 2000);
}

function followWaiting() {
  beginAtTop();
  if (isDrawn()) {
    [waitsSince, asked, said] = [0, 0, ""];
  } else if (!waitsSince) {
    waitsSince = performance.now();
  }
  const waited = waitsSince && performance.now() - waitsSince;
  if (waited > ASKED_AFTER && !asked) askParts(waitsSince);
  const level = waited > TOLD_AFTER ? "long" : waited > OUTLINED_AFTER && isBare() ? "short" : "";
  if ((document.documentElement.dataset.waits ?? "") !== level) {
    if (level) document.documentElement.dataset.waits = level;
    else delete document.documentElement.dataset.waits;
  }
  tell("carrel-waiting", level === "long" ? said || "Waiting for an answer from Carrel." : "");
}

// Outside of a dialog that is open, nothing can be selected.
function tell(name, text, within = document.body) {
  let place = document.getElementById(name);
  if (!place) {
    place = document.createElement("div");
    place.id = name;
    place.setAttribute("role", "status");
  }
  if (place.parentElement !== within) {
    within.append(place);
    place.inert = false; // an open dialog makes everything around it inert, and this text may have stood there
  }
  if (place.textContent !== text) place.textContent = text;
}

// --- What is typed and not sent is kept in this tab until it is sent, for the person who typed it. Passwords and other
// secrets are not, and neither is what only looks for something in a list.
const STORE = "carrel.typed";
const KEPT = "input:is([type=text], [type=number], [type=email], [type=url]), textarea";
const SECRET = /secret|password|webhook|alert/i;
const SEARCH = ".st-key-chat-find, [class*='st-key-filters-']";
const SUBMITS = "[data-testid=stBaseButton-primary]:not(.st-key-title-action *), [data-testid$=FormSubmit], "
  + "[data-testid=stChatInputSubmitButton]";
const TROUBLE = ".carrel-welcome, .carrel-problem:not([data-testid=stChatMessage] *), [data-testid=stException]";
const HIDDEN = "[data-testid=stTextInput]:has(button[aria-label$=' password'])"; // of a field for a secret, shown or not
let kept = readKept(); // texts, and the values on which they are based, by the names of their fields
const shown = new WeakMap(); // field: its value before the newest change
const touched = new Map(); // name of a field in this document: its value before the person changed it
const apart = new Map(); // name of a field whose value somebody else has changed: the person's text
const sent = new Set();
let pressedAt = 0;

function readKept() {
  try {
    return { person: "", texts: {}, bases: {}, ...JSON.parse(sessionStorage.getItem(STORE)) };
  } catch {
    return { person: "", texts: {}, bases: {} };
  }
}

function saveKept() {
  try {
    sessionStorage.setItem(STORE, JSON.stringify(kept));
  } catch {} // the browser keeps nothing, or no more
}

function dropText(name) {
  delete kept.texts[name];
  delete kept.bases[name];
  for (const held of [touched, apart, sent]) held.delete(name);
}

function addressNow() {
  return `${location.pathname === "/" ? "/search" : location.pathname}${location.search}`;
}

function titleOf(dialog) {
  return dialog?.querySelector("h1, h2, [data-testid=stDialogTitle]")?.textContent.trim() ?? (dialog ? "Dialog" : "");
}

// A search that is repeated has another id; the document that a comment on it is about has not. A form that is begun
// anew has another id at the end of its fields' keys.
function nameOfField(field) {
  const key = keyOf(field).replace(/[0-9a-f]{8}-[0-9a-f-]{27}-(?=[0-9a-f]{8}-)|-[0-9a-f]{32}$/g, "");
  return [addressNow(), titleOf(field.closest("[role=dialog]")), key, field.getAttribute("aria-label") ?? ""].join("\n");
}

function isKept(field) {
  return field.matches?.(KEPT) && field.getAttribute("role") !== "combobox" && !field.closest(`${HIDDEN}, ${SEARCH}`)
    && !SECRET.test(`${keyOf(field)} ${field.autocomplete} ${field.getAttribute("aria-label")}`)
    && field.closest(".stMain, [role=dialog], [data-testid=stBottom]");
}

function noteShown({ target }) {
  if (target.matches?.(KEPT)) shown.set(target, target.value);
}

// A field that is emptied to be written anew is still based on the value that it had.
function keepTyped({ target, isTrusted }) {
  if (!isTrusted || !isKept(target)) return;
  const name = nameOfField(target);
  if (!touched.has(name)) touched.set(name, shown.get(target) ?? "");
  sent.delete(name);
  if (target.value) [kept.texts[name], kept.bases[name]] = [target.value, touched.get(name)];
  else for (const part of [kept.texts, kept.bases]) delete part[name];
  saveKept();
}

// A field that is being typed into takes no other value from the workbench: before another address, its text is given up.
function giveUpTyping() {
  const field = document.activeElement;
  if (field?.matches(KEPT)) field.dispatchEvent(new FocusEvent("focusout", { bubbles: true }));
}

function noteSending(event) {
  let submits = event.type === "click" ? event.target.closest?.(SUBMITS)
    : event.key === "Enter" && !event.shiftKey && event.target.closest?.("[data-testid=stForm], [data-testid=stChatInput]");
  if (event.target.closest?.("a[href='/oauth/logout']")) [kept.texts, submits] = [{}, true];
  if (!submits) return;
  saveKept();
  pressedAt = performance.now();
  const title = titleOf(event.target.closest("[role=dialog]"));
  for (const name of touched.keys()) if (name.split("\n")[1] === title) sent.add(name);
}

function followTyped() {
  const person = document.querySelector(".carrel-person")?.dataset.person;
  if (!isDrawn() || !person || (pressedAt && performance.now() - pressedAt < 3000)) return;
  pressedAt = 0;
  if (kept.person !== person) kept = kept.person ? { person, texts: {}, bases: {} } : { ...kept, person };
  const fields = new Map([...document.querySelectorAll(KEPT)].filter(isKept).map((field) => [nameOfField(field), field]));
  if (!document.querySelector(TROUBLE)) forgetSent(fields);
  const here = `${addressNow()}\n`;
  const waiting = Object.keys(kept.texts).filter((name) => name.startsWith(here) && !touched.has(name));
  waiting.filter((name) => fields.has(name)).forEach((name) => fillIn(name, fields.get(name)));
  const dialogs = new Set(waiting.filter((name) => !fields.has(name)).map((name) => name.split("\n")[1]).filter(Boolean));
  tell("carrel-kept", dialogs.size ? `Your text in “${[...dialogs].join("”, “")}” is kept. Open it again to go on.` : "");
  tell("carrel-apart", [...apart].map(([name, text]) => {
    const label = name.split("\n").at(-1);
    return `“${label}” was changed elsewhere after you began to write. Your text was not filled in. It is:\n${text}`;
  }).join("\n\n"), document.querySelector("[role=dialog]") ?? document.body);
  saveKept();
}

function forgetSent(fields) {
  const values = [...new URLSearchParams(location.search).values()];
  for (const name of [...touched.keys()]) {
    const text = kept.texts[name];
    if (sent.has(name) || values.includes(text?.trim())) dropText(name);
    else if (!name.startsWith(`${addressNow()}\n`)) for (const held of [touched, apart]) held.delete(name);
    else if (!fields.has(name) || (fields.get(name).value !== (text ?? "") && !apart.has(name))) dropText(name);
  }
}

// Nobody else's change is written over: the kept text is filled in where the field still has the value of then.
function fillIn(name, field) {
  const base = kept.bases[name] ?? "";
  touched.set(name, base);
  if (field.value === kept.texts[name]) return;
  if (field.value !== base) {
    touched.set(name, field.value);
    apart.set(name, kept.texts[name]);
    return;
  }
  const type = field.tagName === "TEXTAREA" ? HTMLTextAreaElement : HTMLInputElement;
  Object.getOwnPropertyDescriptor(type.prototype, "value").set.call(field, kept.texts[name]);
  field.dispatchEvent(new Event("input", { bubbles: true }));
  if (!field.closest("[data-testid=stForm], [data-testid=stChatInput]")) {
    field.dispatchEvent(new FocusEvent("focusout", { bubbles: true }));
  }
}

let settling = 0;
// Streamlit opens a page with a field for messages at its end, where a conversation has its newest message.
let begun = { at: "", until: 0 };
function beginAtTop() {
  const main = document.querySelector("[data-testid=stAppScrollToBottomContainer]");
  if (!main || !isDrawn() || document.querySelector("[data-testid=stChatMessage]")) return;
  if (begun.at !== location.href) begun = { at: location.href, until: performance.now() + 2000 };
  if (performance.now() < begun.until) main.scrollTop = 0;
}

function stopBeginning() {
  begun.until = 0;
}

// At a large zoom a search's fields fill the window.
const ANSWERS = ".carrel-result, .stMain [data-testid=stAlert], .stMain .carrel-empty";
function hintBelow() {
  const isAsked = document.querySelector(".stMain [data-testid=stForm]") && new URLSearchParams(location.search).has("q");
  const first = isAsked && isDrawn() && document.querySelector(ANSWERS);
  tell("carrel-below", first && first.getBoundingClientRect().top > innerHeight - 40 ? "The results are below ↓" : "");
}

// A dialog's refusal stands above its buttons, which may be below the window.
let refusal = null;
function scrollToRefusal() {
  const told = document.querySelector("[role=dialog] [role=alert]");
  if (told && told !== refusal) told.scrollIntoView({ block: "nearest" });
  refusal = told;
}

function followPage() {
  hintBelow();
  mendRoles();
  markPlace();
  keepUntranslated();
  downloadMadeFile();
  scrollToPassage();
  enterDialog();
  keepFocus();
  followWaiting();
  if (!isDrawn()) pressedAt = 0; // what was pressed is being done
  clearTimeout(settling);
  settling = setTimeout(followTyped, 300);
  scrollToRefusal();
}

function begin() {
  const seen = { childList: true, subtree: true, attributeFilter: ["data-test-script-state", "data-test-connection-state"] };
  new MutationObserver(followPage).observe(document.body, seen);
  new MutationObserver(noteTranslation).observe(document.body, { childList: true, subtree: true });
  followPage();
  setInterval(followWaiting, 250);
}

for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"]) document.addEventListener(kind, stopBeginning, true);
document.addEventListener("scroll", hintBelow, true);
addEventListener("resize", hintBelow);
addEventListener("popstate", giveUpTyping, true);
document.addEventListener("click", closeMenu);
document.addEventListener("click", goBackToList);
document.addEventListener("click", noteSending, true);
document.addEventListener("focusin", noteFocus, true);
for (const kind of ["focusin", "beforeinput"]) document.addEventListener(kind, noteShown, true);
document.addEventListener("input", keepTyped, true);
document.addEventListener("keydown", act, true); // before Streamlit, whose fields keep Enter to themselves
document.addEventListener("keydown", noteSending, true);
mendNodes();
begin();
