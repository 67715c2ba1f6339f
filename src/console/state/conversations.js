// @ts-check
import { LONG_MS, RUNS_SHOWN } from '../bounds.js';
import { ask } from '../daemon/api.js';

/**
 * Conversations, as the daemon lists them.
 *
 * @typedef {import('../../contract/contract.ts').ConversationPage} Page
 * @typedef {Page['conversations'][number]} Conversation
 */

/**
 * The page after another one, or the first. Throws ApiError.
 * @param {number} limit
 * @param {string | null} before
 * @returns {Promise<Page>}
 */
export function conversations(limit, before) {
  return ask(`/v1/conversations?limit=${limit}${before === null ? '' : `&before=${before}`}`);
}

/**
 * The conversation of a run. Throws ApiError.
 * @param {string} run_id
 * @returns {Promise<Conversation | null>}
 */
export async function conversationOf(run_id) {
  const page = await ask(`/v1/conversations?limit=1&conversation=${run_id}`);
  return page.conversations[0] ?? null;
}

/** Its name for the user. @param {Conversation} one */
export function nameOf({ title, prompt, id }) {
  return title ?? (prompt.trim() || id);
}

/**
 * Gives a title; an empty one takes it away. Every client sees it. Throws ApiError.
 * @param {Conversation} one
 * @param {string} title
 */
export async function rename({ id }, title) {
  const metadata = title === '' ? {} : { title };
  await ask(`/v1/conversations/${id}`, { method: 'POST', body: { metadata } });
}

/** The ids of its runs, newest first. Throws ApiError. @param {Conversation} one */
export async function runsOf({ id }) {
  /** @type {string[]} */
  const ids = [];
  for (let before = ''; ; ) {
    const page = await ask(
      `/v1/runs?conversation=${id}&texts=short&limit=${RUNS_SHOWN}${before === '' ? '' : `&before=${before}`}`,
    );
    ids.push(
      ...[...page.runs, ...(page.damaged ?? [])].map((/** @type {{ id: string }} */ run) => run.id),
    );
    if (page.next === null) return ids;
    before = page.next;
  }
}

/**
 * Removes runs from the log, newest first, since a turn repeats the turns before it. Answers why
 * texts may still be in the log. Throws ApiError.
 * @param {Conversation} one
 * @param {readonly string[]} run_ids
 * @returns {Promise<string | null>}
 */
export async function remove({ id }, run_ids) {
  let trouble = null;
  for (const run_id of run_ids)
    ({ trouble = null } = await ask(`/v1/runs/${run_id}`, {
      method: 'DELETE',
      within_ms: LONG_MS,
    }));
  // A conversation that a program made is more than its runs.
  if (!id.startsWith('run_')) await ask(`/v1/conversations/${id}`, { method: 'DELETE' });
  return trouble;
}
