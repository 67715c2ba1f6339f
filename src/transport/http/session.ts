import type { IncomingMessage, ServerResponse } from 'node:http';
import { SvcError } from '../../errors.ts';
import { check } from '../../runtime/contract/check.ts';
import { sessionInput } from '../../runtime/contract/inputs.ts';
import { cookieName } from '../auth/session.ts';
import { proofQuery, readQuery } from '../query.ts';
import { readJson } from './body.ts';
import { sendJson } from './reply.ts';
import type { Context } from './route.ts';

/** Signs a browser in, for a ticket or for the token. The answer holds the key by which the page can have the daemon prove itself. */
export async function openSession({ req, res, sessions, limits }: Context): Promise<void> {
  const body = await readJson(req, res, BODY_BYTES, { within_ms: limits.sign_in_ms });
  const { ticket, token } = check(sessionInput, body);
  if ((ticket === null) === (token === null))
    throw new SvcError('invalid_request', 'Send either a ticket or the token.', {
      param: 'ticket',
    });
  const opened = await sessions.open(ticket === null ? { token: token ?? '' } : { ticket });
  if (opened === null)
    throw new SvcError(
      'unauthorised',
      ticket === null ? 'The token is wrong.' : 'The ticket is wrong, was used, or is too old.',
      { hint: HINT },
    );
  const { cookie, id, key, expires_at } = opened;
  setCookie(req, res, cookie, sessions.max_age_s);
  sendJson(res, 200, { id, key, expires_at: new Date(expires_at).toISOString() });
}

/** Ends the session, and what it opened with it. */
export async function closeSession({ req, res, sessions }: Context): Promise<void> {
  await sessions.close(req);
  setCookie(req, res, '', 0);
  res.writeHead(204, { 'Cache-Control': 'no-store' }).end();
}

/** Answers who is signed in; the door has refused everybody else. */
export function showSession({ res }: Context): void {
  res.writeHead(204, { 'Cache-Control': 'no-store' }).end();
}

/** Proves that this is the daemon that holds a secret, before a page sends that secret. */
export function proveSession({ req, res, sessions, runtime, closing }: Context): void {
  const { by, nonce } = readQuery(req.url ?? '', proofQuery);
  // The port is about to be free for others: nothing must be sent there on our word.
  if (closing.aborted || LEAVING.has(runtime.health().state_path))
    throw new SvcError('daemon_stopping');
  const proof = sessions.prove({ by, nonce, port: req.socket.localPort ?? 0 });
  if (proof === null)
    throw new SvcError('unauthorised', 'There is no such secret here.', { hint: HINT });
  sendJson(res, 200, { proof });
}

/** The cookie goes to the interface alone: a reload of the page does not send it. */
function setCookie(
  req: IncomingMessage,
  res: ServerResponse,
  value: string,
  max_age_s: number,
): void {
  res.setHeader(
    'Set-Cookie',
    `${cookieName(req)}=${value}; HttpOnly; SameSite=Strict; Path=/v1; Max-Age=${max_age_s}`,
  );
}

const LEAVING: ReadonlySet<string> = new Set(['stopping.closing', 'stopped', 'failed']);
const BODY_BYTES = 4096;
const HINT = 'Open the console with: svc console';
