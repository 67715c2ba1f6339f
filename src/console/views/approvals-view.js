// @ts-check
import { SETTLE_MS } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { follow } from '../daemon/socket.js';
import { actionButton } from '../parts/act.js';
import { formatTime } from '../parts/clock.js';
import { askConfirmation } from '../parts/confirm.js';
import { byId, chip, el, place as placeRows, say } from '../parts/dom.js';
import { addressOf, onPlace, place } from '../state/address.js';
import { markChanged, model, on } from '../state/model.js';
import { wordsOf } from '../state/tone.js';

/**
 * The calls of tools that wait for a person, always of the present.
 *
 * 1. The daemon sends the newest of them, then what changes. So what was decided elsewhere leaves.
 * 2. A card stays the same element, with its text and its busy button, while its call waits.
 * 3. When a card leaves, others move. For a moment they take no clicks, and the focus goes to a
 *    card and to no button. So a second click or a second Enter decides about no other call.
 *
 * @typedef {import('../state/model.js').Approval} Approval
 */
export function mountApprovals() {
  on(['approvals', 'snapshot'], draw);
  onPlace(draw);
  on(['run', 'snapshot'], drawLinks);
}

/** Older calls that wait too. */
let older = 0;
/** Why the list may be old; empty when it is not. */
let problem = '';

/**
 * Until the signal aborts. The first message of a connection has all calls that are shown.
 * @param {AbortSignal} signal
 */
export function followApprovals(signal) {
  let isFirst = true;
  return follow({
    path: () => '/v1/approvals/events',
    onOpen: () => {
      isFirst = true;
    },
    onMessage: (changes) => {
      take(changes, isFirst ? [] : model.approvals);
      isFirst = false;
      problem = '';
    },
    onLost: () => {
      problem = 'The daemon does not say which calls wait. The page asks it again.';
      markChanged('approvals');
    },
    signal,
  });
}

/**
 * @param {import('../../contract/approvals.ts').ApprovalChanges} changes
 * @param {readonly Approval[]} before
 */
function take(changes, before) {
  const known = new Set(model.approvals.map(keyOf));
  const fresh = changes.approvals.findLast((one) => !known.has(keyOf(one)));
  if (fresh !== undefined) say(byId('announce'), `${nameOf(fresh)} waits for you.`);
  const waiting = new Map(before.map((one) => [one.id, one]));
  for (const id of changes.removed ?? []) waiting.delete(id);
  for (const one of changes.approvals) waiting.set(one.id, one);
  model.approvals = [...waiting.values()].toSorted(
    (a, b) => Date.parse(a.since) - Date.parse(b.since),
  );
  older = changes.older ?? 0;
  markChanged('approvals');
}

/** @param {Approval} one */
function keyOf({ id, state, since }) {
  return `${id} ${state} ${since}`;
}

/** @param {Approval} one */
function nameOf({ server, tool }) {
  return visible(`${server}/${tool}`);
}

function draw() {
  const count = model.approvals.length + older;
  const badge = byId('approvals-count');
  badge.hidden = count === 0;
  if (badge.dataset.count !== String(count))
    badge.replaceChildren(String(count), el('span', { class: 'unseen' }, ' wait for you'));
  badge.dataset.count = String(count);
  drawCards(place().page === 'approvals' ? place().id : null);
  say(byId('approvals-note'), problem || note(count));
}

/** @param {number} count */
function note(count) {
  if (count === 0) return 'No call of a tool waits for you.';
  const shown = older > 0 ? ` The newest ${model.approvals.length} are shown.` : '';
  const present = model.past === null ? '' : ' This is the present, not the past.';
  return `${count === 1 ? '1 call waits' : `${count} calls wait`} for you.${shown}${present}`;
}

/** @param {string | null} run its calls come first */
function drawCards(run) {
  const list = byId('approvals-list');
  const old = new Map(
    /** @type {HTMLElement[]} */ ([...list.children]).map((node) => [node.dataset.card, node]),
  );
  const order = (/** @type {Approval} */ one) => (one.run === run ? 0 : 1);
  const cards = model.approvals
    .toSorted((a, b) => order(a) - order(b))
    .map((one) => old.get(keyOf(one)) ?? card(one));
  const hadFocus = list.contains(document.activeElement);
  placeRows(list, cards, 'card');
  if (hadFocus && !list.contains(document.activeElement))
    (cards[0] ?? byId('approvals-h')).focus({ preventScroll: true });
  if ([...old.values()].every((node) => cards.includes(node))) return;
  list.classList.add('settling');
  clearTimeout(settling);
  settling = setTimeout(() => list.classList.remove('settling'), SETTLE_MS);
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let settling;

/** @param {Approval} one */
function card(one) {
  const { id, run, state, since, until, description, target } = one;
  const isLost = state === 'lost';
  const field = isLost
    ? el('textarea', { rows: 2 })
    : el('input', { maxlength: 1000, autocomplete: 'off' });
  const end =
    until === null
      ? ''
      : ` Without a decision it is denied at ${formatTime(until, { to: 'second' })}.`;
  return el(
    'article',
    {
      class: 'card',
      tabindex: -1,
      'data-card': keyOf(one),
      'data-approval': id,
      'aria-label': nameOf(one),
    },
    el(
      'div',
      { class: 'bar' },
      el('h3', {}, nameOf(one)),
      chip('tool_call', state),
      el('span', { class: 'faint' }, wordsOf('tool_call', state)),
      el('a', { class: 'end', href: addressOf('run', run) }, 'Show the run'),
    ),
    el(
      'p',
      { class: 'faint', title: since },
      `Since ${formatTime(since, { to: 'second' })}.${end}`,
    ),
    target === null ? '' : el('p', { class: 'said' }, `Server: ${visible(target)}`),
    description === null ? '' : el('p', { class: 'said' }, `It says: ${visible(description)}`),
    changesOf(one),
    el('pre', { class: 'arguments' }, visible(indentJson(one.arguments))),
    el(
      'label',
      {},
      isLost ? 'What the tool answered' : 'Why, if it is denied (the model hears it)',
      field,
    ),
    el('div', { class: 'bar' }, ...(isLost ? cutOff(one, field) : drawWaiting(one, field))),
  );
}

/**
 * The diff of a call that changes a file, once it is read: the list has none.
 * @param {Approval} one
 */
function changesOf({ id }) {
  const shown = el('pre', { class: 'changes', hidden: true });
  const path = `/v1/approvals/${encodeURIComponent(id)}`;
  ask(path).then(
    ({ changes }) => {
      shown.hidden = changes === null;
      shown.textContent = visible(changes ?? '');
    },
    // A call that was decided meanwhile leaves, and so does its card.
    () => {},
  );
  return shown;
}

/**
 * @param {Approval} one
 * @param {HTMLInputElement | HTMLTextAreaElement} reason
 */
function drawWaiting(one, reason) {
  const name = nameOf(one);
  const always = async () => {
    const question = `Allow ${name} from now on, without a question?`;
    if (!(await askConfirmation(question, 'Always allow it', 'Cancel'))) return;
    await decide(one, { decision: 'allow', always: true }, 'is allowed from now on');
    const undo = `svc mcp set ${one.server} --tool ${one.tool}=ask`;
    say(byId('approvals-undo'), visible(`${name} is allowed from now on. To undo it: ${undo}`));
  };
  const deny = () => {
    const why = reason.value.trim();
    return decide(one, { decision: 'deny', ...(why === '' ? {} : { reason: why }) }, 'is denied');
  };
  return [
    button('Allow', name, () => decide(one, { decision: 'allow' }, 'is allowed')),
    button('Always allow', name, always),
    button('Deny', name, deny, true),
  ];
}

/**
 * @param {Approval} one
 * @param {HTMLInputElement | HTMLTextAreaElement} result
 */
function cutOff(one, result) {
  const name = nameOf(one);
  const give = async () => {
    if (result.value !== '')
      return decide(one, { decision: 'result', result: result.value }, 'has this result');
    say(byId('approvals-said'), 'Write what the tool answered.');
    result.focus();
  };
  return [
    button('Give this result', name, give),
    button('Go on without', name, () => decide(one, { decision: 'skip' }, 'has no result')),
    button('Repeat', name, () => decide(one, { decision: 'repeat' }, 'is carried out again'), true),
  ];
}

/**
 * @param {string} text
 * @param {string} name
 * @param {() => Promise<unknown>} work
 */
function button(text, name, work, bad = false) {
  return actionButton(text, `${text}: ${name}`, 'approvals-said', work, { bad });
}

/**
 * @param {Approval} one
 * @param {Omit<import('../../contract/approvals.ts').DecisionInput, 'id'>} body
 * @param {string} said
 */
async function decide(one, body, said) {
  const path = `/v1/approvals/${encodeURIComponent(one.id)}`;
  await ask(path, { method: 'POST', body });
  // The daemon says so too. Until then the page lets it go.
  model.approvals = model.approvals.filter((each) => keyOf(each) !== keyOf(one));
  markChanged('approvals');
  say(byId('announce'), `${nameOf(one)} ${said}.`);
}

/** From the chat and the page of a run that waits. */
function drawLinks() {
  const { run, past } = model;
  for (const link of document.querySelectorAll('a[data-decide]')) {
    const waits = run !== null && past === null && run.state.startsWith('awaiting_');
    link.toggleAttribute('hidden', !waits);
    if (waits) link.setAttribute('href', addressOf('approvals', run.id));
  }
}

/**
 * A foreign text that a person decides about. What cannot be seen, or looks like another
 * character, is spelled as JSON escapes it: `spellUnseen` of the terminal does the same. Line
 * breaks and tabs stay.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(UNSEEN, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

const UNSEEN =
  /(?![\t\n ]|(?<=\p{Extended_Pictographic}|[#*0-9](?=\ufe0f\u20e3))\ufe0f|(?<=\p{Extended_Pictographic}\ufe0f?|\p{Emoji_Modifier})\u200d(?=\p{Extended_Pictographic}))[\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800\u{1d159}\u{16fe4}]/gu;

/**
 * JSON in a form for people. Values that are deep stay as they are written: their form is huge.
 * @param {string} json
 */
export function indentJson(json) {
  try {
    const text = JSON.stringify(JSON.parse(json), null, 2);
    return text.length > GROWTH * json.length + GROWTH ? json : text;
  } catch {
    return json;
  }
}

/** How many times as long the form for people may be. */
const GROWTH = 20;
