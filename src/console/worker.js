// @ts-check
/**
 * Opens the page while the daemon is away. The daemon puts `FILES` before this text: the path and
 * the digest of each file of the console.
 *
 * 1. The daemon is called first. A kept file is used only without an answer.
 * 2. Only files of the list are kept, with these digests. Everything else passes by: answers of the
 *    interface, and what has a cookie or a token.
 * 3. Another build has another cache, and removes the old one.
 */

/** A worker, which the types of a page do not know. */
const worker = /** @type {any} */ (self);
/** @type {Record<string, string>} */
const FILES = worker.FILES;
const PREFIX = 'svc-console-';
/** A stopped daemon takes connections and does not answer. */
const ANSWER_MS = 5000;

worker.addEventListener('install', (/** @type {any} */ event) => event.waitUntil(keep()));
worker.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(removeOld()));
worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (origin === location.origin && request.method === 'GET' && Object.hasOwn(FILES, pathname))
    event.respondWith(answer(request, pathname));
});

/** The name of the cache: the digest of the list. */
async function cacheName() {
  const list = new TextEncoder().encode(JSON.stringify(FILES));
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', list));
  return PREFIX + btoa(String.fromCharCode(...digest));
}

async function keep() {
  const cache = await caches.open(await cacheName());
  const requests = Object.entries(FILES).map(
    ([path, integrity]) =>
      new Request(path, {
        integrity,
        credentials: 'omit',
        cache: 'no-cache',
        headers: path === '/' ? { accept: 'text/html' } : {},
      }),
  );
  await cache.addAll(requests);
  await worker.skipWaiting();
}

async function removeOld() {
  const present = await cacheName();
  const old = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== present);
  await Promise.all(old.map((name) => caches.delete(name)));
}

/**
 * @param {Request} request
 * @param {string} path
 */
async function answer(request, path) {
  const late = new Promise((_, reject) =>
    setTimeout(reject, ANSWER_MS, new Error('The daemon does not answer.')),
  );
  try {
    return await Promise.race([fetch(request), late]);
  } catch (error) {
    const cache = await caches.open(await cacheName());
    const kept = await cache.match(path, { ignoreVary: true });
    if (kept === undefined) throw error;
    return kept;
  }
}
