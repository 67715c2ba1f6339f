// @ts-check

import { PROMPT_CHARACTERS, RECENT_MORE, RECENT_SHOWN, REFRESH_MS } from '../bounds.js';
import { ApiError, ask } from '../daemon/api.js';
import { batchCalls, inTurn } from '../parts/act.js';
import { answererOf } from '../parts/answerer.js';
import { formatTime } from '../parts/clock.js';
import { askConfirmation, askText } from '../parts/confirm.js';
import { byId, el, place as placeRows, say } from '../parts/dom.js';
import { textOf } from '../parts/messages.js';
import { addressOf, go, onPlace, place } from '../state/address.js';
import {
  conversationOf,
  conversations,
  nameOf,
  remove,
  rename,
  runsOf,
} from '../state/conversations.js';
import { model, on } from '../state/model.js';
import { onEvent } from '../state/present.js';

/**
 * The conversations: a list to continue from, and the title of the open one. Questions that were
 * asked once, such as with `svc run`, are apart.
 *
 * 1. `shown` are the latest ones that were read. A failed request changes nothing.
 * 2. `open` is the conversation of the shown run; null without one.
 *
 * @typedef {import('../state/conversations.js').Conversation} Conversation
 */

/** @type {Conversation[]} */
let shown = [];
/** Where older ones begin; null at the end. @type {string | null} */
let older = null;
/** @type {Conversation | null} */
let open = null;
/** What the search found; null without words. @type {Conversation[] | null} */
let found = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let typed;

export function mountRecent() {
  words().addEventListener('input', () => {
    clearTimeout(typed);
    typed = setTimeout(() => void act(find), REFRESH_MS);
  });
  byId('recent-more').addEventListener('click', () => void act(readOlder));
  byId('chat-rename').addEventListener('click', () => open && void act(renameAction(open)));
  byId('chat-delete').addEventListener('click', () => open && void act(removeAction(open)));
  byId('chat-save').addEventListener('click', () => model.run && saveMarkdown(model.run, title()));
  onEvent(({ type }, moved) => {
    if (moved && /^(run|conversation)\./.test(type)) soon();
  });
  on(['connection'], soon);
  on(['run'], () => {
    if (open === null || model.run === null || open.id !== conversationIdOf(model.run)) {
      open = null;
      soon();
    }
    draw();
  });
  onPlace(() => {
    draw();
    soon();
  });
}

const words = () => /** @type {HTMLInputElement} */ (byId('recent-find'));

/** @param {import('../state/model.js').Run} run */
function conversationIdOf(run) {
  return run.conversation ?? run.id;
}

function title() {
  return open?.title ?? null;
}

/** @param {() => Promise<void>} work */
async function act(work) {
  say(byId('recent-said'), '');
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(byId('recent-said'), error.message);
  }
}

function soon() {
  if (model.connected && place().page === 'chat') readSoon();
}
const readSoon = batchCalls(() =>
  // What cannot be read now is read after the next event.
  read().catch((error) => {
    if (!(error instanceof ApiError)) throw error;
  }),
);

const read = inTurn(async () => {
  const { run } = model;
  if (run !== null) {
    const one = await conversationOf(run.id);
    if (model.run?.id === run.id) open = one;
  } else if (place().id === null) {
    const page = await conversations(Math.max(RECENT_SHOWN, shown.length), null);
    shown = page.conversations;
    older = page.next;
  }
  draw();
});

async function readOlder() {
  const page = await conversations(RECENT_MORE, older);
  shown = [...shown, ...page.conversations];
  older = page.next;
  draw();
}

/** The words of finished runs, and the titles that are shown. The last words win. */
async function find() {
  const wanted = words().value.trim();
  const query = `words=${encodeURIComponent(wanted)}&limit=${RECENT_SHOWN}`;
  const page = wanted === '' ? null : await ask(`/v1/runs/search?${query}`);
  if (words().value.trim() !== wanted) return;
  found = page === null ? null : foundIn(page.runs, wanted.toLowerCase());
  draw();
}

/**
 * One row of each conversation, at the newest run that has the words.
 * @param {import('../../contract/contract.ts').SearchPage['runs']} runs
 * @param {string} wanted
 */
function foundIn(runs, wanted) {
  const rows = new Map(
    shown.filter((one) => one.title?.toLowerCase().includes(wanted)).map((one) => [one.id, one]),
  );
  for (const { conversation: id, snippet: prompt, ...run } of runs)
    if (!rows.has(id))
      rows.set(id, {
        ...(shown.find((one) => one.id === id) ?? { id, title: null, turns: 0, client: '' }),
        prompt,
        run: { ...run, cloud: false },
      });
  return [...rows.values()];
}

function draw() {
  const { run } = model;
  const isOpen = place().page === 'chat' && run !== null;
  for (const id of ['chat-rename', 'chat-delete', 'chat-save']) byId(id).hidden = !isOpen;
  say(byId('chat-h'), (isOpen ? title() : null) ?? 'Chat');
  const rows = found ?? shown;
  byId('chat-recent').hidden = isOpen || place().id !== null || shown.length === 0;
  const [chats, once] = found === null ? splitChats(rows) : /** @type {const} */ ([rows, []]);
  placeRows(byId('recent-chats'), chats.map(row), 'conversation');
  placeRows(byId('recent-once'), once.map(row), 'conversation');
  byId('recent-single').hidden = once.length === 0;
  say(byId('recent-count'), `Single questions (${once.length})`);
  byId('recent-more').hidden = found !== null || older === null;
  say(byId('recent-none'), found?.length === 0 ? 'No conversation has these words.' : '');
}

/** Conversations, and single questions. @param {Conversation[]} rows */
function splitChats(rows) {
  const isChat = (/** @type {Conversation} */ { turns, title: chosen, client }) =>
    turns > 1 || chosen !== null || client === 'console' || client.startsWith('chat ');
  return /** @type {const} */ ([rows.filter(isChat), rows.filter((one) => !isChat(one))]);
}

/** @param {Conversation} one */
function row(one) {
  const { id, run, turns } = one;
  const name = nameOf(one);
  const count = turns === 0 ? null : `${turns} ${turns === 1 ? 'question' : 'questions'}`;
  const facts = [
    found === null || one.title === null ? null : one.prompt,
    answererOf(run),
    count,
    formatTime(run.created_at, { to: 'minute' }),
  ];
  const button = (/** @type {string} */ text, /** @type {() => Promise<void>} */ work) =>
    el(
      'button',
      {
        type: 'button',
        class: 'quiet',
        'aria-label': `${text} ${name}`,
        click: () => void act(work),
      },
      text,
    );
  return el(
    'li',
    { 'data-conversation': id },
    el('a', { href: addressOf('chat', run.id) }, name.slice(0, PROMPT_CHARACTERS)),
    el('small', {}, facts.filter((fact) => fact !== null).join(' · ')),
    button('Rename', renameAction(one)),
    button('Delete', removeAction(one)),
  );
}

/** @param {Conversation} one */
function renameAction(one) {
  return async () => {
    const text = await askText('Title of the conversation', 'Rename', one.title ?? '');
    if (text === null) return;
    await rename(one, text.trim());
    if (open?.id === one.id) open = { ...open, title: text.trim() || null };
    await read();
  };
}

/** @param {Conversation} one */
function removeAction(one) {
  return async () => {
    const runs = await runsOf(one);
    const count = `${runs.length} ${runs.length === 1 ? 'run' : 'runs'}`;
    const question = `Delete “${nameOf(one).slice(0, PROMPT_CHARACTERS)}”? Its ${count}, with what was asked and answered, will be removed from the log.`;
    if (!(await askConfirmation(question, 'Delete it'))) return;
    const trouble = await remove(one, runs);
    shown = shown.filter(({ id }) => id !== one.id);
    found = found?.filter(({ id }) => id !== one.id) ?? null;
    if (open?.id === one.id) go('chat');
    say(byId('announce'), 'The conversation was deleted.');
    say(byId('recent-said'), trouble ?? '');
    await read();
  };
}

/**
 * Saves a conversation up to a run as a file: each message under its role, whole, as Markdown.
 * @param {import('../state/model.js').Run} run
 * @param {string | null} title
 */
function saveMarkdown(run, title) {
  const { messages, system, prompt, output, id } = run;
  const sections = messages?.map(({ role, content }) =>
    section(role, content.map(textOf).join('\n')),
  ) ?? [...(system === null ? [] : [section('system', system)]), section('user', prompt)];
  const text = [`# ${title ?? `Conversation, ${id}`}`, ...sections, section('assistant', output)];
  const url = URL.createObjectURL(new Blob([`${text.join('\n\n')}\n`], { type: 'text/markdown' }));
  el('a', { href: url, download: `${id}.md` }).click();
  setTimeout(() => URL.revokeObjectURL(url));
}

/**
 * @param {string} role
 * @param {string} text
 */
function section(role, text) {
  return `## ${role[0]?.toUpperCase()}${role.slice(1)}\n\n${text.trim()}`;
}
