// @ts-check
import { VALUE_CHARACTERS } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { act, inTurn } from '../parts/act.js';
import { copyButton } from '../parts/copy.js';
import { byId, el, place as placeRows, say } from '../parts/dom.js';
import { onPlace, place } from '../state/address.js';
import { onLook } from '../state/look.js';
import { model, on } from '../state/model.js';

/**
 * The settings: what each is, where it comes from, and the command that changes it. The page writes
 * none, since the file belongs to its user. It can have the daemon apply the file.
 *
 * 1. `record` is the last one that was read. Rows are drawn again only when it, or the choice of
 *    rows, has changed.
 * 2. A row that is open stays open, also when it is drawn again.
 *
 * @typedef {import('../../contract/settings.ts').SettingsRecord} Settings
 * @typedef {import('../../contract/settings.ts').SettingRecord} Setting
 */
export function mountSettings() {
  for (const id of ['settings-find', 'settings-which']) byId(id).addEventListener('input', draw);
  const apply = byId('settings-apply');
  apply.addEventListener('click', () => {
    if (apply.getAttribute('aria-disabled') !== 'true') void act(apply, 'settings-said', applyFile);
  });
  onPlace(() => void read());
  on(['connection'], () => void read());
  onLook(() => void read());
}

/** @type {Settings | null} */
let record = null;

const read = inTurn(async () => {
  if (!model.connected || place().page !== 'settings') return;
  const found = await ask('/v1/settings').catch(() => null);
  if (found === null || JSON.stringify(found) === JSON.stringify(record)) return;
  record = found;
  draw();
});

async function applyFile() {
  const { applied, after_restart } = await ask('/v1/settings/apply', { method: 'POST' });
  const sentences = [
    applied.length === 0 ? '' : `In effect now: ${applied.join(', ')}.`,
    after_restart.length === 0 ? '' : `In effect after svc restart: ${after_restart.join(', ')}.`,
  ];
  say(byId('settings-done'), sentences.filter((text) => text !== '').join(' '));
  await read();
}

function draw() {
  if (record === null) return;
  const { settings, file, file_exists, pending, problem } = record;
  const shown = settings.filter(isWanted);
  const open = new Set(
    [
      .../** @type {NodeListOf<HTMLElement>} */ (byId('settings-rows').querySelectorAll('[open]')),
    ].map(({ dataset }) => dataset.setting),
  );
  placeRows(
    byId('settings-rows'),
    shown.map((one) => row(one, open.has(one.key))),
    'setting',
  );
  say(byId('settings-file'), file);
  say(byId('settings-missing'), file_exists ? '' : ' (not there yet)');
  say(byId('settings-note'), `${shown.length} of ${settings.length} settings.`);
  const waits = byId('settings-pending');
  waits.hidden = pending.length === 0 && problem === null;
  waits.className = `problem ${problem === null ? 'mild' : ''}`;
  const canApply = settings.some((one) => one.pending !== null && one.change === 'live');
  byId('settings-apply').hidden = problem !== null || !canApply;
  say(
    byId('settings-pending-text'),
    problem === null
      ? `The file was changed, and not all of it is in effect yet: ${pending.join(', ')}.${canApply ? '' : ' It takes effect after svc restart.'}`
      : `The file cannot be read, so the next start will fail. ${problem}`,
  );
}

/** A search looks at every setting. @param {Setting} one */
function isWanted(one) {
  const words = /** @type {HTMLInputElement} */ (byId('settings-find')).value.trim().toLowerCase();
  if (words !== '') return `${one.key} ${one.meaning}`.toLowerCase().includes(words);
  const which = /** @type {HTMLSelectElement} */ (byId('settings-which')).value;
  const isLimit = one.key.startsWith('limits.');
  const isChanged = one.source !== 'default' || one.pending !== null;
  if (which === 'changed') return isChanged;
  return which === 'all' || isLimit === (which === 'limits');
}

/** @type {Record<Setting['change'], string>} */
const IN_EFFECT = { live: 'at once', command: 'in the next command', restart: 'after svc restart' };

/**
 * @param {Setting} one
 * @param {boolean} open
 */
function row(one, open) {
  const { key, value, source, pending, change } = one;
  const waits = change === 'live' ? 'not applied' : 'needs a restart';
  return el(
    'details',
    { class: 'setting', 'data-setting': key, open },
    el(
      'summary',
      {},
      el('code', {}, key),
      el('span', { class: `value ${source === 'default' ? 'usual' : ''}` }, brief(textOf(value))),
      source === 'default' ? null : el('span', { class: 'chip active' }, source),
      pending === null ? null : el('span', { class: 'chip warn' }, waits),
    ),
    el('p', {}, one.meaning),
    facts(one),
    editor(one),
  );
}

/** @param {Setting} one */
function facts({ default: usual, expects, source, variable, change, pending }) {
  /** @type {Record<string, string>} */
  const strong = {
    environment: `The variable ${variable} of the daemon. The file has no effect while it is set.`,
    flag: 'A flag of the command that started the daemon. The file has no effect.',
  };
  const rows = [
    ['Comes from', strong[source] ?? source],
    ['File says', pending === null ? null : brief(textOf(pending.value))],
    ['Default', brief(textOf(usual))],
    ['Takes', expects],
    ['Variable', variable],
    ['A change takes effect', IN_EFFECT[change]],
  ];
  return el(
    'dl',
    {},
    ...rows.flatMap(([name = '', value]) =>
      value == null ? [] : [el('div', {}, el('dt', {}, name), el('dd', {}, value))],
    ),
  );
}

/** The command that sets the value of the field. @param {Setting} one */
function editor({ key, value, hidden, change }) {
  const command = el('code', {});
  const field = el('input', {
    type: 'text',
    autocomplete: 'off',
    spellcheck: 'false',
    placeholder: 'the default',
    value: hidden ? '' : textOf(value),
    input: () => show(),
  });
  const text = () => {
    const text = field.value.trim();
    const set = `svc config set ${key} ${text === '' ? '--remove' : quoteForShell(text)}`;
    return change === 'restart' ? `${set} && svc restart` : set;
  };
  const show = () => say(command, text());
  show();
  return el(
    'div',
    { class: 'editor' },
    el('label', {}, 'New value ', field),
    el(
      'div',
      { class: 'code' },
      el(
        'div',
        { class: 'bar' },
        el('small', {}, 'In a terminal'),
        copyButton(text, `Copy the command for ${key}`),
      ),
      el('pre', {}, command),
    ),
  );
}

/** As `svc config set` takes it. @param {unknown} value */
function textOf(value) {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** @param {string} text */
function brief(text) {
  return text.length > VALUE_CHARACTERS ? `${text.slice(0, VALUE_CHARACTERS)} …` : text;
}

/** For a shell. @param {string} text */
function quoteForShell(text) {
  return /^[\w./:@%+=][\w./:@%+=,-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
