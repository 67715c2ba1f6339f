// @ts-check
import { formatTime } from '../parts/clock.js';
import { byId, say } from '../parts/dom.js';
import { model, on, snapshot } from '../state/model.js';
import { log } from '../state/present.js';
import { at, goLive, heading, stepBy, travelTo } from '../state/travel.js';

/** The slider over the log, and the banner that marks a past position. */
export function mountTime() {
  slider().addEventListener('input', () => {
    const seq = Number(slider().value);
    if (seq >= model.last_seq) goLive();
    else void travelTo(seq);
    say(byId('time-seq'), `${seq}`);
  });
  byId('time-back').addEventListener('click', () => stepBy(-1));
  byId('time-forth').addEventListener('click', () => stepBy(1));
  for (const id of ['time-live', 'past-live']) byId(id).addEventListener('click', goLive);
  on(['snapshot', 'events'], draw);
}

const slider = () => /** @type {HTMLInputElement} */ (byId('time-slider'));
let last = '';

function draw() {
  const now = at();
  const shown = snapshot();
  if (shown === null) return;
  const seq = heading() ?? now ?? model.last_seq;
  slider().min = String(Math.max(1, model.now?.first_seq ?? 1));
  slider().max = String(model.last_seq);
  slider().value = String(seq);
  slider().setAttribute(
    'aria-valuetext',
    now === null
      ? `the present, event ${seq}`
      : `event ${seq} of ${model.last_seq}, ${formatTime(shown.at)}`,
  );
  say(byId('time-seq'), String(seq));
  say(byId('time-last'), `of ${model.last_seq}`);
  byId('time-live').setAttribute('aria-pressed', String(now === null));
  document.body.classList.toggle('past', now !== null);
  byId('past').hidden = now === null;
  const event = now === null ? undefined : log.upTo(now).at(-1);
  say(
    byId('past-text'),
    now === null
      ? ''
      : `The past: after event ${now}${event?.seq === now ? `, ${event.type}` : ''}, ${formatTime(shown.at)}.`,
  );
  announce(now === null ? 'The present' : `The past, event ${now}`);
}

/** @param {string} text */
function announce(text) {
  if (last !== '' && last !== text && text.split(',')[0] !== last.split(',')[0])
    say(byId('announce'), text);
  last = text;
}
