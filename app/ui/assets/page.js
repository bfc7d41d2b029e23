// What every page has beside Streamlit's own: keys, and roles that Streamlit leaves out.
// / puts the cursor into the page's first field for text; ↑ and ↓ go among the results of a search; Enter in a field
// that finds people keeps the only match, and empties itself for the next. A file that was just made is downloaded. A
// document is scrolled to the passage that is marked in it.

const FIELDS = "input[type=text], input[type=search], textarea";
const RESULTS = ".carrel-result h2 a";
// Of a field that finds people: a page's own button that adds something is another.
const ADD = "[class*=st-key-]:is([class$=-add], [class*='-add ']):not(.st-key-add)";

function isTyping(target) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox], [type=radio]), textarea, select");
}

function isSeen(one) {
  return one.checkVisibility() && !one.disabled;
}

function focusField(event) {
  const place = document.querySelector("[role=dialog]") ?? document.querySelector("[data-testid=stMain]");
  const field = [...(place?.querySelectorAll(FIELDS) ?? [])].find(isSeen);
  if (!field || isTyping(event.target)) return;
  event.preventDefault();
  field.focus();
  field.select();
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
  document.querySelector("[data-testid=stMain] [class*='st-key-back-'] button")?.click();
}

function act(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "/") focusField(event);
  else if (event.key === "Enter" && event.target.matches("input[type=search]")) addMatch(event.target);
  else if (event.key === "ArrowDown") goAmongResults(event, 1);
  else if (event.key === "ArrowUp") goAmongResults(event, -1);
}

// Streamlit puts the menu's sections between its list and the list's items, and makes the place for files, which can't
// be focused, a thing without a role that has a name all the same.
function mendRoles() {
  const menu = document.querySelector("[data-testid=stSidebarNavItems]:not([role])");
  menu?.setAttribute("role", "none");
  for (const item of document.querySelectorAll("[data-testid=stSidebarNavItems] li:not([role])")) {
    item.setAttribute("role", "none");
  }
  for (const section of document.querySelectorAll("[data-testid=stSidebarNavItems] > div:not([role])")) {
    section.setAttribute("role", "group");
    section.setAttribute("aria-label", section.querySelector("header p")?.textContent ?? "");
  }
  for (const place of document.querySelectorAll("[data-testid=stFileUploaderDropzone][role=presentation]")) {
    place.setAttribute("role", "group");
  }
}

// Links name the first page /search, which Streamlit knows only as /: the menu shall say where one is all the same.
function markSearch() {
  const link = document.querySelector("[data-testid=stSidebarNavLink]");
  const isHere = location.pathname.endsWith("/search");
  if (!link || link.hasAttribute("data-current") === isHere) return;
  link.toggleAttribute("data-current", isHere);
  if (isHere) link.setAttribute("aria-current", "page");
  else if (!location.pathname.endsWith("/")) link.removeAttribute("aria-current");
}

// app/ui/exporting.py marks a file, in the one run of the page that has made it.
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

function followPage() {
  mendRoles();
  markSearch();
  downloadMadeFile();
  scrollToPassage();
}

export default function () {
  const watch = new MutationObserver(followPage);
  watch.observe(document.body, { childList: true, subtree: true });
  followPage();
  document.addEventListener("click", closeMenu);
  document.addEventListener("click", goBackToList);
  document.addEventListener("keydown", act, true); // before Streamlit, whose fields keep Enter to themselves
  return () => {
    watch.disconnect();
    document.removeEventListener("click", closeMenu);
    document.removeEventListener("click", goBackToList);
    document.removeEventListener("keydown", act, true);
  };
}
