// The complete flow by oauth4webapi, with the client proving itself in the way that is named. Prints the address a person
// is sent to, reads the one they come back with, and prints what came of it as JSON.
import { createInterface } from "node:readline/promises";
import * as oauth from "oauth4webapi";

const [issuer, clientId, clientSecret, redirectUri, scope, way] = process.argv.slice(2);
const plain = { [oauth.allowInsecureRequests]: true }; // plain http, on loopback
const client = { client_id: clientId };
const proof = { basic: oauth.ClientSecretBasic, post: oauth.ClientSecretPost }[way](clientSecret);

async function discovered() {
  const url = new URL(issuer);
  const response = await oauth.discoveryRequest(url, { algorithm: "oauth2", ...plain });
  return oauth.processDiscoveryResponse(url, response);
}

async function authorizationUrl(server, verifier, state) {
  const url = new URL(server.authorization_endpoint);
  url.search = new URLSearchParams({
    client_id: clientId,
    redirect_uri: redirectUri,
    response_type: "code",
    scope,
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  });
  return url;
}

async function cameBack() {
  const lines = createInterface({ input: process.stdin });
  for await (const line of lines) return new URL(line);
  throw new Error("nobody came back");
}

async function refreshed(server, tokens) {
  const response = await oauth.refreshTokenGrantRequest(server, client, proof, tokens.refresh_token, plain);
  return oauth.processRefreshTokenResponse(server, client, response);
}

async function me(tokens) {
  const url = new URL("/api/v1/me", issuer);
  const response = await oauth.protectedResourceRequest(tokens.access_token, "GET", url, undefined, undefined, plain);
  return response.json();
}

// What a call is refused with: an error of the token endpoint, or the challenge of the API.
async function refusal(call) {
  try {
    await call();
  } catch (error) {
    if (error instanceof oauth.ResponseBodyError) return error.error;
    if (error instanceof oauth.WWWAuthenticateChallengeError) return error.cause[0].scheme;
    throw error;
  }
  throw new Error("it was not refused");
}

const server = await discovered();
const [verifier, state] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState()];
console.log((await authorizationUrl(server, verifier, state)).href);
const callback = oauth.validateAuthResponse(server, client, await cameBack(), state);
const tokens = await oauth.processAuthorizationCodeResponse(
  server,
  client,
  await oauth.authorizationCodeGrantRequest(server, client, proof, callback, redirectUri, verifier, plain),
);
const renewed = await refreshed(server, tokens);
const found = { email: (await me(tokens)).email, scope: renewed.scope, expiresIn: renewed.expires_in };
await oauth.processRevocationResponse(await oauth.revocationRequest(server, client, proof, renewed.refresh_token, plain));
found.refreshAfterwards = await refusal(() => refreshed(server, renewed));
found.callAfterwards = await refusal(() => me(renewed));
console.log(JSON.stringify(found));
