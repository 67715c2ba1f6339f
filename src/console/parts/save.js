// @ts-check
import { el } from './dom.js';
import { textOf } from './messages.js';

/**
 * Saves a conversation up to a run as a file: each message under its role, whole, as Markdown.
 * @param {import('../state/model.js').Run} run
 * @param {string | null} title
 */
export function saveMarkdown(run, title) {
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
