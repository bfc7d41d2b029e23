// The official TypeScript client at /mcp: prints the address a person is sent to, reads the one they come back with, and
// prints what came of it as JSON.
import { createInterface } from "node:readline/promises";
import {
  Client,
  discoverAuthorizationServerMetadata,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";

const [address, clientId, redirectUri, mode] = process.argv.slice(2);
const url = new URL(address);
const kept = {};
const sentTo = [];
const provider = {
  redirectUrl: redirectUri,
  clientMetadata: { client_name: "A client", redirect_uris: [redirectUri], token_endpoint_auth_method: "none" },
  clientInformation: () => ({ client_id: clientId }),
  state: () => "a state",
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  redirectToAuthorization: (to) => { sentTo.push(to); },
  invalidateCredentials: () => { delete kept.tokens; },
};

function transport() {
  return new StreamableHTTPClientTransport(url, { authProvider: provider });
}

function client() {
  return new Client({ name: "a-client", version: "1" }, { versionNegotiation: { mode } });
}

async function isSentToSignIn(call) {
  const before = sentTo.length;
  try {
    await call();
  } catch (error) {
    if (error instanceof UnauthorizedError) return sentTo.length === before + 1;
    throw error;
  }
  return false;
}

async function cameBack() {
  for await (const line of createInterface({ input: process.stdin })) return new URL(line).searchParams;
  throw new Error("nobody came back");
}

async function read(connected, query) {
  const { results } = (await connected.callTool({ name: "search", arguments: { query } })).structuredContent;
  const { text } = (await connected.callTool({ name: "fetch", arguments: { id: results[0].id } })).structuredContent;
  return text;
}

const found = {};
const first = transport();
found.sentToSignIn = await isSentToSignIn(() => client().connect(first));
console.log(sentTo[0].href);
await first.finishAuth(await cameBack());
found.scope = kept.tokens.scope;

const connected = client();
await connected.connect(transport());
found.revision = connected.getNegotiatedProtocolVersion();
found.tools = (await connected.listTools()).tools.map((tool) => tool.name);
found.text = await read(connected, "when does the ferry leave");

const given = kept.tokens;
kept.tokens = { ...given, access_token: "svc_mt_ended" };
found.textAfterRefresh = await read(connected, "when does the ferry leave");
found.wasRefreshed = ![given.refresh_token, undefined].includes(kept.tokens.refresh_token);

const { revocation_endpoint: revocation } = await discoverAuthorizationServerMetadata(new URL("/", url));
const body = new URLSearchParams({ client_id: clientId, token: kept.tokens.refresh_token });
found.revoked = (await fetch(revocation, { method: "POST", body })).status;
found.sentToSignInAfterRevocation = await isSentToSignIn(() => connected.listTools({}, { cacheMode: "bypass" }));
console.log(JSON.stringify(found));
process.exit(0);
