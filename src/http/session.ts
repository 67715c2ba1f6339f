import type { IncomingMessage, ServerResponse } from 'node:http';
import { SvcError } from '../errors.ts';
import { readFields, readName } from '../runtime/fields.ts';
import { cookieName } from '../session.ts';
import { readJson } from './body.ts';
import type { Context } from './route.ts';

/** Signs a browser in, for a ticket or for the token. */
export async function openSession({ req, res, sessions }: Context): Promise<void> {
  const fields = readFields(await readJson(req, res, BODY_BYTES), ['ticket', 'token']);
  const [ticket, token] = [readName(fields, 'ticket', SECRET_LENGTH), readName(fields, 'token', SECRET_LENGTH)];
  if ((ticket === null) === (token === null)) throw new SvcError('invalid_request', 'Send either a ticket or the token.', { param: 'ticket' });
  const value = sessions.open(ticket === null ? { token: token ?? '' } : { ticket });
  if (value === null)
    throw new SvcError('unauthorised', ticket === null ? 'The token is wrong.' : 'The ticket is wrong, was used, or is too old.', { hint: HINT });
  setCookie(req, res, value, sessions.max_age_s);
}

export function closeSession({ req, res }: Context): void {
  setCookie(req, res, '', 0);
}

/** Answers who is signed in; the door has refused everybody else. */
export function showSession({ res }: Context): void {
  res.writeHead(204, { 'Cache-Control': 'no-store' }).end();
}

function setCookie(req: IncomingMessage, res: ServerResponse, value: string, max_age_s: number): void {
  const cookie = `${cookieName(req)}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${max_age_s}`;
  res.writeHead(204, { 'Set-Cookie': cookie, 'Cache-Control': 'no-store' }).end();
}

const BODY_BYTES = 4096;
const SECRET_LENGTH = 512;
const HINT = 'Open the console with: svc console';
