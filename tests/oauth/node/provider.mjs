// An OpenID Connect provider that knows nothing of Carrel, once for each shape of claims, on one port of loopback.
// It prints its port, and reads lines of JSON: first the shapes by the paths of their issuers, then the accounts that
// can sign in, by login, as often as they change. It answers each line with one of its own.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

import Provider from "oidc-provider";

console.info = console.error; // the package's notices, which are no answers

const tenants = new Map();
let accounts = {};
const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });

const findAccount = (_, login) =>
  accounts[login] && { accountId: login, claims: () => ({ sub: login, ...accounts[login] }) };

function open(path, { issuer, client, claims, thin }) {
  const provider = new Provider(issuer, {
    clients: [client],
    claims,
    // A thin ID token leaves what the scopes ask for to the UserInfo endpoint, as OpenID Connect Core 1.0, 5.4 has it.
    conformIdTokenClaims: thin,
    findAccount,
    features: { backchannelLogout: { enabled: true } },
    // Its own way of asking reaches no loopback address.
    fetch: (url, { dispatcher, ...options }) => fetch(url, options),
    jwks: { keys: [key] },
    cookies: { keys: ["tests"] },
  });
  provider.on("server_error", (_, error) => console.error(error));
  provider.on("backchannel.error", (_, error) => console.error(error));
  tenants.set(path, provider.callback());
}

const server = createServer((request, response) => {
  const path = [...tenants.keys()].find((one) => request.url.startsWith(`${one}/`));
  if (path === undefined) {
    response.writeHead(404).end();
    return;
  }
  request.originalUrl = request.url;
  request.url = request.url.slice(path.length);
  tenants.get(path)(request, response);
});

server.listen(0, "127.0.0.1", async () => {
  console.log(server.address().port);
  for await (const line of createInterface({ input: process.stdin })) {
    const { shapes = {}, accounts: changed = accounts } = JSON.parse(line);
    Object.entries(shapes).forEach(([path, shape]) => open(path, shape));
    accounts = changed;
    console.log("done");
  }
  process.exit();
});
