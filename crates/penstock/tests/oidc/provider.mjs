// An OpenID provider for the tests of log-ins: `oidc-provider`, with a person who is always at the
// browser, and with ways to misbehave that no real one has.
//
// Prints `ready PORT` and serves plain HTTP at 127.0.0.1. It ends with its standard input.
// `POST /control` takes JSON:
//   sites   addresses of sites that are registered: needed first, and starts with new keys
//   person  { sub, name, groups } who logs in from now on; null refuses
//   token   how the next ID tokens are wrong: issuer, audience, nonce, expired, none, hmac,
//           signature; null for right ones
//   subject the `sub` that further claims (userinfo) have; null for the right one

import { createServer } from 'node:http';
import { once } from 'node:events';
import * as jose from 'jose';
import { Provider } from 'oidc-provider';

const CLIENT = 'penstock';
const SECRET = 'a secret of the client: +/%&';

const state = { sites: [], person: null, token: null, subject: null, keys: 0 };
const requests = {};
let provider;
let signing;

async function serve(issuer) {
  const number = (state.keys += 1);
  const { privateKey, publicKey } = await jose.generateKeyPair('RS256', { extractable: true });
  const names = { kid: `key-${number}`, use: 'sig', alg: 'RS256' };
  signing = { ...names, privateKey, public: { ...(await jose.exportJWK(publicKey)), ...names } };
  provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT,
        client_secret: SECRET,
        redirect_uris: state.sites.map((site) => `${site}/auth/oidc/callback`),
        post_logout_redirect_uris: state.sites.map((site) => `${site}/`),
        grant_types: ['authorization_code'],
        response_types: ['code'],
        id_token_signed_response_alg: 'RS256',
      },
    ],
    jwks: { keys: [{ ...(await jose.exportJWK(privateKey)), ...names }] },
    cookies: { keys: ['of tests only'] },
    claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        preferred_username: state.person?.name,
        groups: state.person?.groups,
      }),
    }),
    loadExistingGrant: async (context) => {
      const grant = new provider.Grant({
        clientId: context.oidc.client.clientId,
        accountId: context.oidc.session.accountId,
      });
      grant.addOIDCScope('openid profile');
      await grant.save();
      return grant;
    },
  });
  provider.use(misbehave(issuer));
}

// Makes an answer wrong in one way: the ID token, or the person of further claims.
function misbehave(issuer) {
  return async (context, next) => {
    await next();
    if (context.path === '/me' && state.subject) {
      context.body = { ...context.body, sub: state.subject };
    }
    const how = state.token;
    if (context.path !== '/token' || !how || !context.body?.id_token) return;
    const claims = jose.decodeJwt(context.body.id_token);
    if (how === 'issuer') claims.iss = 'https://evil.example.org';
    if (how === 'audience') claims.aud = 'another-client';
    if (how === 'nonce') claims.nonce = 'another';
    if (how === 'expired') claims.exp = Math.floor(Date.now() / 1000) - 3600;
    const head = { alg: 'RS256', kid: signing.kid };
    let token = await new jose.SignJWT(claims).setProtectedHeader(head).sign(signing.privateKey);
    if (how === 'none') token = new jose.UnsecuredJWT(claims).encode();
    if (how === 'hmac') {
      // The public key in the form in which libraries of old took it for a secret.
      const secret = new TextEncoder().encode(JSON.stringify(signing.public));
      token = await new jose.SignJWT(claims)
        .setProtectedHeader({ alg: 'HS256', kid: signing.kid })
        .sign(secret);
    }
    if (how === 'signature') {
      const { privateKey } = await jose.generateKeyPair('RS256');
      token = await new jose.SignJWT(claims).setProtectedHeader(head).sign(privateKey);
    }
    context.body = { ...context.body, id_token: token };
  };
}

// Logs the person in, without a form.
async function interact(request, response) {
  const { prompt } = await provider.interactionDetails(request, response);
  const result = state.person
    ? { login: { accountId: state.person.sub } }
    : { error: 'access_denied', error_description: `refused at ${prompt.name}` };
  await provider.interactionFinished(request, response, result, {
    mergeWithLastSubmission: false,
  });
}

async function control(request, response, issuer) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const changes = JSON.parse(Buffer.concat(parts).toString());
  Object.assign(state, changes);
  if (changes.sites) await serve(issuer);
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(requests));
}

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://127.0.0.1');
  requests[pathname] = (requests[pathname] ?? 0) + 1;
  const issuer = `http://127.0.0.1:${server.address().port}`;
  let answer;
  if (pathname === '/control') answer = control(request, response, issuer);
  else if (pathname.startsWith('/interaction/')) answer = interact(request, response);
  else answer = provider.callback()(request, response);
  Promise.resolve(answer).catch((error) => {
    console.error(error);
    response.statusCode = 500;
    response.end();
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
console.log(`ready ${server.address().port}`);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
