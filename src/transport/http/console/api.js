// @ts-check
import { ApiError } from './api-error.js';
import { ASK_MS } from './bounds.js';
import { keepSession, proveDaemon, proveSecret } from './proof.js';

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
  await keepSession(parsed(text));
}

/**
 * Sends a request, after the daemon has proved itself. Returns the JSON, or null without one.
 * Throws ApiError.
 * @param {string} path
 * @param {{ method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal
 * }} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, { method = 'GET', body, headers = {}, signal } = {}) {
  await proveDaemon();
  const response = await send(path, { method, body, headers, signal });
  const text = await bodyOf(response);
  if (response.ok) return text === '' ? null : parsed(text);
  if (response.status === 401 && method !== 'POST') signedOut();
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

/** A daemon that dies during its answer has not answered. @param {Response} response */
async function bodyOf(response) {
  try {
    return await response.text();
  } catch {
    throw new ApiError(null, {});
  }
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(null, {
      code: 'unreadable',
      message: 'The daemon answered with something that is no JSON.',
    });
  }
}

/**
 * @param {string} path
 * @param {{ method: string, body?: unknown, headers: Record<string, string>, signal?: AbortSignal |
 * undefined }} options
 */
async function send(path, { method, body, headers, signal }) {
  const given =
    body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { ...headers, 'content-type': 'application/json' } };
  const bound = AbortSignal.timeout(ASK_MS);
  try {
    return await fetch(path, {
      method,
      headers,
      ...given,
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
