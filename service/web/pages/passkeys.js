// Has the browser make a passkey, or sign with one, when the button of a form for it is pressed, and sends the answer.
"use strict";

const PROBLEMS = {
  InvalidStateError: "This device already has a passkey for this account.",
  NotAllowedError: "No passkey was used: it took too long, was cancelled, or this device has no passkey.",
  NotSupportedError: "This device can't create a passkey with a PIN, face or fingerprint.",
};

function toBytes(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (one) => one.charCodeAt(0));
}

function toText(buffer) {
  const plain = Array.from(new Uint8Array(buffer), (one) => String.fromCharCode(one)).join("");
  return btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function withBytes(options) {
  const toKnown = (known) => ({ ...known, id: toBytes(known.id) });
  const read = { ...options, challenge: toBytes(options.challenge) };
  if (options.user) read.user = { ...options.user, id: toBytes(options.user.id) };
  if (options.allowCredentials) read.allowCredentials = options.allowCredentials.map(toKnown);
  if (options.excludeCredentials) read.excludeCredentials = options.excludeCredentials.map(toKnown);
  return read;
}

function toAnswer(credential) {
  const names = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];
  const given = names.filter((name) => credential.response[name]);
  const response = Object.fromEntries(given.map((name) => [name, toText(credential.response[name])]));
  return { id: credential.id, rawId: toText(credential.rawId), type: credential.type, response };
}

async function answer(form) {
  const publicKey = withBytes(JSON.parse(form.dataset.options));
  const asked = form.dataset.passkey === "make" ? "create" : "get";
  return toAnswer(await navigator.credentials[asked]({ publicKey }));
}

async function send(form) {
  const problem = form.querySelector("[data-problem]");
  problem.hidden = true;
  try {
    form.elements.credential.value = JSON.stringify(await answer(form));
    form.submit();
  } catch (error) {
    problem.textContent = PROBLEMS[error.name] ?? "The browser could not use a passkey. Choose another way.";
    problem.hidden = false;
  }
}

// A passkey works at the host that it is of, and below (WebAuthn, section 5.1.3).
function isHere({ rpId, rp }) {
  return `.${location.hostname}`.endsWith(`.${rpId ?? rp.id}`);
}

if (window.PublicKeyCredential) {
  const forms = [...document.querySelectorAll("form[data-passkey]")];
  const usable = forms.filter((form) => isHere(JSON.parse(form.dataset.options)));
  for (const form of usable) {
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send(form);
    });
  }
  for (const other of document.querySelectorAll("[data-without-passkeys]")) other.hidden = usable.length > 0;
}
