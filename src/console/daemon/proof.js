// @ts-check

import { ASK_MS } from '../bounds.js';
import { ApiError } from './api-error.js';

/**
 * Another program can use the port while the daemon is away, and a browser sends cookies to any
 * program there. So the daemon proves that it has a secret before the page sends it. This file owns
 * the key of the session, in the storage of its origin.
 *
 * 1. The request for a proof has no cookie. The answer is an HMAC over a nonce and the port, so
 *    that it cannot be reused or relayed.
 * 2. A proof is valid for what is sent at once: the port can change owners at any time. Requests at
 *    the same time share a proof.
 * 3. Scripts cannot read the key. Without cryptography, on an address that is not loopback, no
 *    proof is requested.
 */

/** @typedef {{ id: string, key: CryptoKey | null }} Session */
/** @type {Session | null} */
let session = null;
/** The open request for a proof. @type {Promise<void> | null} */
let proof = null;

const canProve = globalThis.isSecureContext && globalThis.crypto?.subtle !== undefined;

/** Throws ApiError if the listener is not the daemon of this session. */
export async function proveDaemon() {
  if (session === null || session.key === null) return;
  const { id, key } = session;
  const mine = proof ?? check(`session.${id}`, key, UNPROVEN);
  proof = mine;
  try {
    await mine;
  } finally {
    if (proof === mine) proof = null;
  }
}

/**
 * @param {{ ticket: string } | { token: string }} secret
 * @returns {Promise<void>}
 */
export async function proveSecret(secret) {
  if (!canProve) return;
  if ('token' in secret)
    return check('token', await derive(secret.token, 'svc console token'), WRONG_TOKEN);
  const digest = await crypto.subtle.digest('SHA-256', encode(secret.ticket));
  return check(
    `ticket.${base64url(digest)}`,
    await derive(secret.ticket, 'svc console ticket'),
    WRONG_TICKET,
  );
}

/**
 * Keeps the daemon's answer to a sign-in.
 * @param {{ id: string, key: string }} opened
 */
export async function keepSession({ id, key }) {
  const bytes = Uint8Array.from(atob(key.replaceAll('-', '+').replaceAll('_', '/')), (char) =>
    char.charCodeAt(0),
  );
  session = { id, key: canProve ? await hmacKey(bytes) : null };
  proof = null;
  const kept = session;
  await inStore('readwrite', (store) => store.put(kept, NAME)).catch(() => {});
}

/** True if the page was signed in before. A sign-in while it reads wins. */
export async function recallSession() {
  const kept = await inStore('readonly', (store) => store.get(NAME)).catch(() => null);
  session ??= kept ?? null;
  return session !== null;
}

/** The session of a request that is sent now, to compare. @returns {unknown} */
export function presentSession() {
  return session;
}

export async function dropSession() {
  session = null;
  proof = null;
  await inStore('readwrite', (store) => store.delete(NAME)).catch(() => {});
}

/**
 * @param {string} by
 * @param {CryptoKey} key
 * @param {string} otherwise The meaning of a wrong proof.
 */
async function check(by, key, otherwise) {
  const nonce = base64url(crypto.getRandomValues(new Uint8Array(32)).buffer);
  const answer = await askProof(`/v1/session/proof?by=${by}&nonce=${nonce}`);
  const expected = base64url(await crypto.subtle.sign('HMAC', key, encode(`${port()}\n${nonce}`)));
  if (answer !== expected) throw new ApiError(null, { code: 'unproven', message: otherwise });
}

/** The port of this page. The address leaves out the usual one of its scheme. */
function port() {
  return location.port || (location.protocol === 'https:' ? '443' : '80');
}

/**
 * Null for an answer that is not the daemon's.
 * @param {string} path
 * @returns {Promise<unknown>}
 */
async function askProof(path) {
  let response;
  try {
    response = await fetch(path, {
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
      signal: AbortSignal.timeout(ASK_MS),
    });
  } catch {
    throw new ApiError(null, {});
  }
  // A daemon that closes its listener proves nothing any more.
  if (response.status === 503) throw new ApiError(null, {});
  return response.json().then(
    (body) => body?.proof ?? null,
    () => null,
  );
}

/**
 * @param {string} secret
 * @param {string} purpose
 */
async function derive(secret, purpose) {
  const key = await hmacKey(encode(secret));
  return hmacKey(new Uint8Array(await crypto.subtle.sign('HMAC', key, encode(purpose))));
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
function hmacKey(bytes) {
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
}

/** @param {string} text */
function encode(text) {
  return new TextEncoder().encode(text);
}

/** @param {ArrayBuffer} bytes */
function base64url(bytes) {
  return btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

/**
 * @template T
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest<T>} act
 * @returns {Promise<T>}
 */
async function inStore(mode, act) {
  const opening = indexedDB.open('svc', 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
  const database = await resultOf(opening);
  try {
    return await resultOf(act(database.transaction(STORE, mode).objectStore(STORE)));
  } finally {
    database.close();
  }
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
function resultOf(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

const STORE = 'session';
const NAME = 'present';
const UNPROVEN =
  'What answers at this address is not the daemon that signed this page in. If its token was changed, run: svc console';
const WRONG_TOKEN = 'The token is wrong, or what answers at this address is not the daemon.';
const WRONG_TICKET = 'The ticket is wrong, was used, or has expired. Run: svc console';
