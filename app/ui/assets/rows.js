// Rows of a list as a table. A row opens, or is chosen, by a click anywhere on it and by Enter; ↑ and ↓ go from row to
// row, and Tab leaves the table. In the mode "edit", each cell is a field: ↑ and ↓ go along a column, Escape takes a
// change back. Everything foreign is set as text, never as HTML.

const PAGE = 10;
const LONGEST = 10000;

function make(tag, className, parent) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  parent?.append(made);
  return made;
}

function fill(cell, value) {
  const { text, more } = typeof value === "object" && value !== null ? value : { text: value, more: "" };
  cell.textContent = typeof text === "number" ? text.toLocaleString("en") : (text ?? "");
  if (more) cell.title = more;
  return cell.textContent;
}

function drawHead(table, { columns, mode, label }) {
  if (label) table.setAttribute("aria-label", label);
  const head = make("thead", "", table);
  head.setAttribute("role", "rowgroup");
  const row = make("tr", "", head);
  row.setAttribute("role", "row");
  if (mode === "many") {
    const box = make("input", "", make("td", "is-box", row));
    box.type = "checkbox";
    box.setAttribute("aria-label", "Choose all rows");
  }
  for (const column of columns) {
    const cell = make("th", kindOf(column), row);
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    cell.textContent = column.name;
    if (column.help) cell.title = column.help;
  }
}

function kindOf(column) {
  return `${column.width ? `is-${column.width}` : ""} ${column.end ? "is-number" : ""}`.trim();
}

function drawField(cell, value, { name, options }, of, edited) {
  const field = make(options ? "select" : "input", "carrel-cell", cell);
  for (const option of options ?? []) field.add(new Option(option, option));
  if (options && !options.includes(value)) field.add(new Option(value, value));
  if (!options) field.maxLength = LONGEST;
  field.value = value;
  field.saved = field.value; // the browser leaves out line breaks
  if (edited !== undefined) field.value = edited;
  field.classList.toggle("is-changed", field.value !== field.saved);
  field.setAttribute("aria-label", `${name}: ${of}`);
  cell.dataset.label = name;
}

function drawRow(body, values, number, { columns, mode, documents, edits }) {
  const row = make("tr", "", body);
  row.setAttribute("role", "row");
  row.dataset.row = number;
  if (documents?.[number]) row.dataset.document = documents[number];
  if (mode === "many") {
    const box = make("input", "carrel-row", make("td", "is-box", row));
    box.type = "checkbox";
  }
  values.forEach((value, at) => {
    const cell = make(at ? "td" : "th", kindOf(columns[at]), row);
    cell.setAttribute("role", at ? "cell" : "rowheader");
    if (mode === "edit") {
      cell.dataset.at = at;
      if (at) drawField(cell, value, columns[at], values[0], edits?.[number]?.[at]);
      else fill(cell, value);
    } else if (at) {
      const text = fill(cell, value);
      if (text) cell.dataset.label = columns[at].name;
      if (!text) cell.classList.add("is-empty");
    } else if (mode === "many") {
      row.querySelector("input").setAttribute("aria-label", fill(cell, value));
    } else {
      cell.scope = "row";
      const button = make("button", "carrel-row", cell);
      button.type = "button";
      if (!fill(button, value).trim()) button.textContent = "(no name)";
    }
  });
}

function draw(root, data) {
  root.replaceChildren();
  root.className = `carrel-rows is-${data.mode}`;
  const table = make("table", "", root);
  table.setAttribute("role", "table");
  drawHead(table, data);
  const body = make("tbody", "", table);
  body.setAttribute("role", "rowgroup");
  data.rows.forEach((values, number) => drawRow(body, values, number, data));
}

// The browser asks before it leaves or loads the page while a cell is changed and not saved.
addEventListener("beforeunload", (event) => document.querySelector(".carrel-cell.is-changed") && event.preventDefault());

function edit(root, setStateValue) {
  const placeOf = (field) => [field.closest("tr").dataset.row, field.closest("td").dataset.at];
  root.onchange = () => {
    const edits = {};
    for (const field of root.querySelectorAll(".carrel-cell")) {
      const [row, at] = placeOf(field);
      const changed = field.value !== field.saved;
      field.classList.toggle("is-changed", changed);
      if (changed) (edits[row] ??= {})[at] = field.value;
    }
    setStateValue("edits", edits);
  };
  // Save can be pressed as soon as something is typed.
  root.oninput = () => root.querySelector(".is-changed") || root.onchange();
  root.onkeydown = (event) => {
    const { target, key } = event;
    const step = { ArrowDown: 1, ArrowUp: -1, Enter: 1 }[key];
    if (event.isComposing || event.keyCode === 229 || !target.matches(".carrel-cell")) return;
    if (key === "Escape") target.value = target.saved;
    else if (!step || target.matches("select")) return;
    const [row, at] = placeOf(target);
    root.querySelector(`tr[data-row="${Number(row) + (step ?? 0)}"] td[data-at="${at}"] .carrel-cell`)?.focus();
    if (key === "Escape") root.onchange();
    event.preventDefault();
  };
}

export default function ({ data, parentElement, setStateValue }) {
  const root = parentElement.querySelector(".carrel-rows") ?? make("div", "carrel-rows", parentElement);
  const drawn = JSON.stringify([data.columns, data.rows, data.mode, data.documents]);
  const hadFocus = root.contains(document.activeElement);
  if (root.drawn !== drawn) {
    draw(root, data);
    root.drawn = drawn;
  }
  const stops = [...root.querySelectorAll(".carrel-row")];
  const all = root.querySelector("thead input");
  const chosen = new Set(data.chosen);
  let active = Math.min(data.chosen[0] ?? root.active ?? 0, stops.length - 1);

  function show() {
    stops.forEach((stop, number) => {
      stop.tabIndex = number === active ? 0 : -1;
      stop.closest("tr").classList.toggle("is-chosen", chosen.has(number));
      if (data.mode === "many") stop.checked = chosen.has(number);
      if (data.mode === "one") stop.setAttribute("aria-pressed", chosen.has(number));
    });
    if (all) all.checked = stops.length > 0 && chosen.size === stops.length;
    if (all) all.indeterminate = chosen.size > 0 && chosen.size < stops.length;
    root.active = active;
  }

  function go(number) {
    active = Math.max(0, Math.min(number, stops.length - 1));
    show();
    stops[active].focus();
    stops[active].closest("tr").scrollIntoView({ block: "nearest" });
  }

  function choose(number) {
    if (data.mode === "open") chosen.clear();
    const had = chosen.has(number);
    if (data.mode !== "many") chosen.clear();
    if (!had) chosen.add(number);
    active = number;
    show();
    setStateValue("selection", { rows: [...chosen].sort((a, b) => a - b) });
  }

  function chooseAll() {
    const whole = chosen.size === stops.length;
    stops.forEach((_, number) => (whole ? chosen.delete(number) : chosen.add(number)));
    show();
    setStateValue("selection", { rows: [...chosen].sort((a, b) => a - b) });
  }

  // Text of the table that was selected with the mouse is to be copied. A field's own selection is none of that, and a
  // click by Enter or Space has no detail.
  function isDragged({ detail }) {
    const selection = getSelection();
    return detail > 0 && !selection.isCollapsed && root.contains(selection.anchorNode);
  }

  if (data.mode === "edit") return edit(root, setStateValue);
  root.onclick = (event) => {
    if (event.target === all) return chooseAll();
    const row = event.target.closest("tr[data-row]");
    if (row && !isDragged(event)) choose(Number(row.dataset.row));
  };
  root.onkeydown = (event) => {
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: stops.length - 1, PageDown: active + PAGE,
      PageUp: active - PAGE }[event.key];
    if (event.isComposing || event.keyCode === 229) return;
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.matches(".carrel-row")) return;
    if (event.key === "Enter" && data.mode === "many") choose(active);
    else if (to !== undefined) go(to);
    else return;
    event.preventDefault();
  };
  root.onmouseover = ({ target }) => {
    if (!target.title && target.scrollWidth > target.clientWidth) target.title = target.textContent;
  };
  show();
  if (hadFocus) stops[active]?.focus();
}
