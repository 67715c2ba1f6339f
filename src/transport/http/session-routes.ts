import type { IncomingMessage, ServerResponse } from 'node:http';
import type * as v from 'valibot';
import { sessionInput } from '../../contract/inputs.ts';
import { named, object, text, time } from '../../contract/vocabulary.ts';
import { SvcError } from '../../errors.ts';
import { proofQuery } from '../../operations/query.ts';
import { isSecure } from '../auth/access.ts';
import { cookieName } from '../auth/session.ts';
import { sendJson } from './reply.ts';
import { type Context, type Route, route } from './route.ts';

export const sessionRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/session',
    access: 'public',
    summary: 'Signs a browser in with a ticket or the token: sets a cookie.',
    body: sessionInput,
    answers: { 200: named('Session', object({ id: text, key: text, expires_at: time })) },
    answer: openSession,
  }),
  route({
    method: 'GET',
    path: '/v1/session/proof',
    access: 'public',
    summary:
      'Proves to a page that this is the daemon that signed it in, before the page sends ' +
      'its cookie.',
    query: proofQuery,
    answers: { 200: named('Proof', object({ proof: text })) },
    answer: proveSession,
  }),
  route({
    method: 'GET',
    path: '/v1/session',
    access: 'token',
    summary: '204 for a signed-in browser.',
    answers: { 204: null },
    answer: showSession,
  }),
  route({
    method: 'DELETE',
    path: '/v1/session',
    access: 'public',
    summary: 'Signs a browser out, and ends what its session opened.',
    answers: { 204: null },
    answer: closeSession,
  }),
];

/**
 * Signs a browser in with a ticket or the token. With the key in the answer, the page can ask the
 * daemon to prove itself.
 */
async function openSession({
  req,
  res,
  sessions,
  limits,
  body,
}: Context<unknown, v.InferOutput<typeof sessionInput>>): Promise<void> {
  const { ticket, token } = await body({ bytes: BODY_BYTES, within_ms: limits.sign_in_ms });
  if ((ticket === null) === (token === null))
    throw new SvcError('invalid_request', 'Send either a ticket or the token.', {
      param: 'ticket',
    });
  const opened = await sessions.open(
    ticket === null ? { token: token ?? '' } : { ticket },
    req.socket.remoteAddress ?? 'the local socket',
  );
  if (opened === null)
    throw new SvcError(
      'unauthorised',
      ticket === null ? 'The token is wrong.' : 'The ticket is wrong, was used, or has expired.',
      { hint: HINT },
    );
  const { cookie, id, key, expires_at } = opened;
  setCookie(req, res, cookie, sessions.max_age_s);
  sendJson(res, 200, { id, key, expires_at: new Date(expires_at).toISOString() });
}

/** Ends the session and all that it opened. */
async function closeSession({ req, res, sessions }: Context): Promise<void> {
  await sessions.close(req);
  setCookie(req, res, '', 0);
  res.writeHead(204, { 'Cache-Control': 'no-store' }).end();
}

/** Answers 204 to a signed-in browser. Others were refused before. */
function showSession({ res }: Context): void {
  res.writeHead(204, { 'Cache-Control': 'no-store' }).end();
}

/** Proves that this daemon has a secret, before a page sends that secret. */
function proveSession({
  req,
  res,
  sessions,
  runtime,
  closing,
  query,
}: Context<v.InferOutput<typeof proofQuery>>): void {
  // Another program may soon use the port. A page must not trust it because of our proof.
  if (closing.aborted || LEAVING.has(runtime.health().state_path))
    throw new SvcError('daemon_stopping');
  const proof = sessions.prove({ ...query, port: req.socket.localPort ?? 0 });
  if (proof === null)
    throw new SvcError('unauthorised', 'The daemon does not have this secret.', { hint: HINT });
  sendJson(res, 200, { proof });
}

/** Only requests to the interface send the cookie. A reload of the page does not. */
function setCookie(
  req: IncomingMessage,
  res: ServerResponse,
  value: string,
  max_age_s: number,
): void {
  res.setHeader(
    'Set-Cookie',
    `${cookieName(req)}=${value}; HttpOnly; SameSite=Strict; ` +
      `Path=/v1; Max-Age=${max_age_s}${isSecure(req.socket) ? '; Secure' : ''}`,
  );
}

const LEAVING: ReadonlySet<string> = new Set(['stopping.closing', 'stopped', 'failed']);
const BODY_BYTES = 4096;
const HINT = 'Open the console with: svc console';
