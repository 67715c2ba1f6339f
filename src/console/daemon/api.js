// @ts-check

import { ASK_MS, LONG_MS } from '../bounds.js';
import { ApiError } from './api-error.js';
import { keepSession, presentSession, proveDaemon, proveSecret } from './proof.js';

export { ApiError };

let signedOut = () => {};

/**
 * Sets the listener for a session that the daemon no longer accepts.
 * @param {() => void} listener
 */
export function onSignedOut(listener) {
  signedOut = listener;
}

/**
 * Exchanges a ticket or the token for a session. The daemon first proves that it knows the secret.
 * Throws ApiError.
 * @param {{ ticket: string } | { token: string }} secret
 */
export async function signIn(secret) {
  await proveSecret(secret);
  const response = await send('/v1/session', { method: 'POST', body: secret, headers: {} });
  const text = await bodyOf(response);
  if (!response.ok) throw new ApiError(response.status, errorOf(text));
  await keepSession(parseJson(text));
}

/**
 * Sends a request, after the daemon has proved itself. Returns the JSON, or null without one.
 * Throws ApiError.
 * @param {string} path
 * @param {{ method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal
 * , within_ms?: number }} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, { method = 'GET', body, headers = {}, signal, within_ms } = {}) {
  await proveDaemon();
  const session = presentSession();
  const response = await send(path, { method, body, headers, signal, within_ms });
  const text = await bodyOf(response);
  if (response.ok) return text === '' ? null : parseJson(text);
  // A late answer to an earlier session does not end the present one.
  if (response.status === 401 && method !== 'POST' && session === presentSession()) signedOut();
  throw new ApiError(response.status, errorOf(text));
}

/**
 * Reads a text that is not JSON, such as a diagram.
 * @param {string} path
 */
export async function askText(path) {
  await proveDaemon();
  const response = await send(path, { method: 'GET', headers: {} });
  const text = await bodyOf(response);
  if (!response.ok) throw new ApiError(response.status, errorOf(text));
  return text;
}

/**
 * Sends a request whose answer comes line by line. A line with an error is the end. Throws
 * ApiError.
 * @param {string} path
 * @param {{ body: unknown, signal: AbortSignal, onLine: (line: any) => void }} options
 */
export async function askLines(path, { body, signal, onLine }) {
  await proveDaemon();
  const response = await send(path, {
    method: 'POST',
    body,
    headers: {},
    signal,
    within_ms: LONG_MS,
  });
  if (!response.ok || response.body === null)
    throw new ApiError(response.status, errorOf(await bodyOf(response)));
  let rest = '';
  const pieces = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await pieces.read().catch(() => {
      throw new ApiError(null, {});
    });
    const lines = (rest + (value ?? '')).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines.filter((text) => text !== '').map(parseJson)) {
      if (line.error?.code !== undefined && line.id === undefined)
        throw new ApiError(200, line.error);
      onLine(line);
    }
    if (done) return;
  }
}

/** A daemon that dies during its answer has not answered. @param {Response} response */
async function bodyOf(response) {
  try {
    return await response.text();
  } catch {
    throw new ApiError(null, {});
  }
}

/** @param {string} text */
function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(null, {
      code: 'unreadable',
      message: 'The answer of the daemon is not JSON.',
    });
  }
}

/**
 * @param {string} path
 * @param {{ method: string, body?: unknown, headers: Record<string, string>, signal?: AbortSignal |
 * undefined, within_ms?: number | undefined }} options
 */
async function send(path, { method, body, headers, signal, within_ms = ASK_MS }) {
  const content =
    body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { ...headers, 'content-type': 'application/json' } };
  const bound = AbortSignal.timeout(within_ms);
  try {
    return await fetch(path, {
      method,
      headers,
      ...content,
      signal: signal === undefined ? bound : AbortSignal.any([signal, bound]),
    });
  } catch {
    throw new ApiError(null, {});
  }
}

/** @param {string} text */
function errorOf(text) {
  try {
    return JSON.parse(text).error ?? {};
  } catch {
    return {};
  }
}
