import type { LoginStore } from '../config/keys/port.ts';
import { SvcError } from '../errors.ts';
import { type LoginLimits, loginFetch } from './login-fetch.ts';
import { readRecord, type SavedLogin } from './login-record.ts';

/** What became of the tokens at the authorization server: why they still work there, if they do. */
export type Revocation = 'revoked' | 'not_offered' | { failed: string };

/**
 * Ends the tokens of a login at its authorization server (RFC 7009). Null: there is no login. The
 * store stays as it is.
 */
export async function revoke(store: LoginStore, limits: LoginLimits): Promise<Revocation | null> {
  const { server, login } = await readRecord(store);
  const place = login?.metadata?.revocation_endpoint;
  if (login === null || place === undefined) return login === null ? null : 'not_offered';
  const { access_token, refresh_token } = login;
  const sent: [string, string | undefined][] = [
    ['refresh_token', refresh_token],
    ['access_token', access_token],
  ];
  try {
    const { fetch } = await loginFetch(new URL(server), limits);
    for (const [token_type_hint, token] of sent) {
      if (token === undefined) continue;
      const answer = await fetch(place, requestFor(login, { token, token_type_hint }));
      await answer.body?.cancel();
      if (!answer.ok) return { failed: `it answered HTTP ${answer.status}` };
    }
    return 'revoked';
  } catch (thrown) {
    return { failed: reasonOf(thrown) };
  }
}

/** The text of a foreign error may repeat a token, and its code does not. */
function reasonOf(thrown: unknown): string {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    if (error instanceof SvcError) return error.message.replace(/\.$/, '');
    const { code } = error as NodeJS.ErrnoException;
    if (typeof code === 'string') return `it cannot be reached (${code})`;
  }
  return 'it did not answer';
}

/** With the client of the login, as the authorization server wants to know it. */
function requestFor({ client, metadata }: SavedLogin, fields: Record<string, string>): RequestInit {
  const { client_id, client_secret, token_endpoint_auth_method: registered } = client;
  const methods =
    metadata?.revocation_endpoint_auth_methods_supported ??
    metadata?.token_endpoint_auth_methods_supported;
  const isIn = (method: string) => methods === undefined || methods.includes(method);
  const isBasic = registered === 'client_secret_post' ? false : isIn('client_secret_basic');
  const body = new URLSearchParams(fields);
  const headers = new Headers({ accept: 'application/json' });
  if (client_secret !== undefined && isBasic)
    headers.set(
      'authorization',
      `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString('base64')}`,
    );
  else {
    body.set('client_id', client_id);
    if (client_secret !== undefined) body.set('client_secret', client_secret);
  }
  return { method: 'POST', headers, body };
}
