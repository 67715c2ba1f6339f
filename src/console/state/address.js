// @ts-check
/**
 * Which page is shown. The fragment of the address says it: a page can be shared, reloaded and left
 * with the back button. A fragment never reaches the server.
 *
 * @typedef {'chat' | 'runs' | 'run' | 'approvals' | 'models' | 'overview' | 'machines' | 'log'
 * | 'settings'} Page
 * @typedef {{ page: Page, id: string | null }} Place
 */

/** Pages with an id after their name. */
const WITH_ID = new Set(['chat', 'runs', 'approvals', 'machines']);
const PAGES = new Set([
  'chat',
  'runs',
  'approvals',
  'models',
  'overview',
  'machines',
  'log',
  'settings',
]);

/** The page of the address. An unknown one is the chat. @returns {Place} */
export function place() {
  const [name = '', rawId = ''] = location.hash.replace(/^#\/?/, '').split('/');
  const page = PAGES.has(name) ? name : 'chat';
  const id = WITH_ID.has(page) && rawId !== '' ? readId(rawId) : null;
  return { page: /** @type {Page} */ (page === 'runs' && id !== null ? 'run' : page), id };
}

/** @param {string} text */
function readId(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The address of a page.
 * @param {Page} page
 * @param {string | null} [id]
 */
export function addressOf(page, id = null) {
  const name = page === 'run' ? 'runs' : page;
  return id === null ? `#/${name}` : `#/${name}/${encodeURIComponent(id)}`;
}

/**
 * @param {Page} page
 * @param {string | null} [id]
 */
export function go(page, id = null) {
  location.hash = addressOf(page, id);
}

/**
 * Calls the listener with the page, now and at each change.
 * @param {(place: Place) => void} listener
 */
export function onPlace(listener) {
  window.addEventListener('hashchange', () => listener(place()));
  listener(place());
}
