// Keys of every page: / puts the cursor into the page's first field for text.

const FIELDS = "input[type=text], input[type=search], textarea";

function isTyping(target) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox], [type=radio]), textarea, select");
}

function focusField(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const place = document.querySelector("[role=dialog]") ?? document.querySelector("[data-testid=stMain]");
  const field = [...(place?.querySelectorAll(FIELDS) ?? [])].find((one) => one.checkVisibility() && !one.disabled);
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
}

export default function () {
  document.addEventListener("keydown", focusField);
  return () => document.removeEventListener("keydown", focusField);
}
