// @ts-check

import { byId, say } from '../parts/dom.js';
import { ApiError, ask, askText, onSignedOut, signIn } from './api.js';
import { dropSession, recallSession } from './proof.js';

/**
 * Signs in: with the ticket in the address of `svc console`, with the cookie, or with the token.
 * @param {{ enter: () => void, leave: () => void }} listeners
 */
export function mountSession({ enter, leave }) {
  const form = /** @type {HTMLFormElement} */ (byId('sign-in'));
  const token = /** @type {HTMLInputElement} */ (byId('token'));
  const show = (/** @type {boolean} */ isOut) => {
    document.body.classList.toggle('signed-out', isOut);
    form.hidden = !isOut;
    for (const id of ['main', 'nav', 'sign-out']) byId(id).hidden = isOut;
  };
  const refuse = () => {
    void dropSession();
    leave();
    show(true);
    token.focus();
  };
  const accept = () => {
    show(false);
    enter();
  };
  onSignedOut(refuse);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const error = await trySignIn({ token: token.value.trim() });
    token.value = '';
    say(byId('sign-in-said'), error ?? '');
    if (error === null) accept();
  });
  byId('sign-out').addEventListener('click', async () => {
    await ask('/v1/session', { method: 'DELETE' }).catch(() => {});
    refuse();
  });
  // A second ticket for an open page changes only the fragment of its address.
  window.addEventListener('hashchange', () => {
    if (ticketIn(location.hash) !== null) void begin();
  });
  const begin = async () => {
    const ticket = ticketIn(location.hash);
    if (ticket !== null) {
      history.replaceState(null, '', location.pathname);
      const error = await trySignIn({ ticket });
      say(byId('sign-in-said'), error ?? '');
    }
    // A page that was never signed in needs no refusal to know it.
    if (!(await recallSession())) {
      refuse();
      await askText('/livez').catch(({ code }) => {
        if (code === 'unreachable') say(byId('sign-in-said'), AWAY);
      });
    } else
      await ask('/v1/session').then(accept, (error) =>
        error.status === 401 ? undefined : accept(),
      );
  };
  void begin();
}

const AWAY = 'The daemon is away. In a terminal, svc console starts it and signs you in.';

/** The other fragments are addresses of pages. @param {string} hash */
function ticketIn(hash) {
  return new URLSearchParams(hash.slice(1)).get('ticket');
}

/**
 * Null on success, else the reason.
 * @param {{ ticket: string } | { token: string }} secret
 * @returns {Promise<string | null>}
 */
async function trySignIn(secret) {
  try {
    await signIn(secret);
    return null;
  } catch (error) {
    return error instanceof ApiError ? error.message : 'That did not work.';
  }
}
