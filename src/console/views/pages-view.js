// @ts-check
import { byId, say } from '../parts/dom.js';
import { onPlace } from '../state/address.js';
import { chooseRun } from '../state/chosen-run.js';
import { model, on } from '../state/model.js';
import { showMachineOf } from './machines-view.js';

/** Shows the sections of the page that the address names, and chooses its run. */
export function mountPages() {
  onPlace(show);
  on(['run', 'snapshot', 'connection', 'approvals'], drawTitle);
  // The fragment is the address of the page, so the link moves the focus itself.
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault();
    byId('main').focus();
  });
}

/** @type {import('../state/address.js').Place} */
let shown = { page: 'chat', id: null };

/** @param {import('../state/address.js').Place} place */
function show(place) {
  if (shown.page !== place.page) say(byId('announce'), `Page ${place.page}`);
  shown = place;
  document.body.dataset.page = place.page;
  for (const section of /** @type {NodeListOf<HTMLElement>} */ (
    document.querySelectorAll('[data-pages]')
  ))
    section.hidden = !section.dataset.pages?.split(' ').includes(place.page);
  for (const link of /** @type {NodeListOf<HTMLElement>} */ (
    document.querySelectorAll('#nav [data-page]')
  )) {
    const isHere = link.dataset.page === (place.page === 'run' ? 'runs' : place.page);
    if (isHere) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (place.page === 'run' || place.page === 'chat') void chooseRun(place.id);
  if (place.page === 'run') showMachineOf('run');
  else if (place.page === 'machines' && place.id !== null) showMachineOf(place.id);
  window.scrollTo(0, 0);
  drawTitle();
}

/** The tab of the browser says what the page shows. */
function drawTitle() {
  const { run, now, connected, approvals } = model;
  const about =
    shown.id !== null && run?.id === shown.id
      ? `${run.prompt.slice(0, 40)} · ${run.state}`
      : `${shown.page[0]?.toUpperCase()}${shown.page.slice(1)}`;
  const waits = approvals.length === 0 ? '' : `(${approvals.length}) `;
  document.title = `${now !== null && !connected ? 'gone · ' : waits}${about} · svc`;
}
