// @ts-check
import { MESSAGE_CHARACTERS, MESSAGES_SHOWN } from '../bounds.js';
import { el } from './dom.js';

/**
 * The messages of a run, and the parts of its answer besides text.
 *
 * @typedef {NonNullable<import('../state/model.js').Run['messages']>[number]['content'][number]}
 * Part
 * @typedef {{ role: string, name: string, text: string, kind: string }} Line
 */

/**
 * The last messages. Empty when the prompt says it all.
 * @param {import('../state/model.js').Run} run
 * @returns {Line[]}
 */
export function conversation({ messages = [] }) {
  const lines = messages.flatMap(({ role, content }) => content.map((part) => line(role, part)));
  const cut = lines.length - MESSAGES_SHOWN;
  if (cut <= 0) return lines;
  const left = {
    role: '',
    name: '',
    text: `${cut} parts before these are left out.`,
    kind: 'left-out',
  };
  return [left, ...lines.slice(cut)];
}

/**
 * The messages of the last turn, and those before it.
 * @param {readonly Line[]} lines
 */
export function lastTurn(lines) {
  let start = Math.max(
    0,
    lines.findLastIndex(({ role }) => role === 'user'),
  );
  while (start > 0 && lines[start - 1]?.role === 'user') start -= 1;
  return { before: lines.slice(0, start), turn: lines.slice(start) };
}

/**
 * All that was said before the answer, also of a run that has only a prompt.
 * @param {import('../state/model.js').Run} run
 * @returns {Line[]}
 */
export function turnsBefore(run) {
  if (run.messages !== undefined) return conversation(run);
  /** @param {string} role @param {string} text */
  const textLine = (role, text) => line(role, { type: 'text', text });
  return [
    ...(run.system === null ? [] : [textLine('system', run.system)]),
    ...(run.prompt === '' ? [] : [textLine('user', run.prompt)]),
  ];
}

/**
 * Whether the next turn can follow the run: reasoning alone is not an answer.
 * @param {import('../state/model.js').Run} run
 */
export function isAnswered({ output, output_parts = [] }) {
  return output !== '' || output_parts.some(({ type }) => type === 'tool_call');
}

/**
 * What the answer has besides its text.
 * @param {import('../state/model.js').Run} run
 */
export function silentParts({ output_parts = [] }) {
  return output_parts
    .filter(({ type }) => type !== 'text')
    .slice(-MESSAGES_SHOWN)
    .map((part) => line('', part));
}

/**
 * @param {string} role
 * @param {Part} part
 * @returns {Line}
 */
function line(role, part) {
  const name = [role, NAMES[part.type]].filter((word) => word !== '').join(', ');
  return { role, name, text: shorten(textOf(part)), kind: part.type };
}

const NAMES = {
  text: '',
  image: 'image',
  audio: 'audio',
  reasoning: 'reasoning',
  refusal: 'refusal',
  tool_call: 'calls a tool',
  tool_result: 'result',
};

/** @param {Part} part */
export function textOf(part) {
  if ('media_type' in part) return `[${part.media_type}, ${Math.ceil(part.size_bytes / 1024)} KiB]`;
  if (part.type === 'tool_call') return `${part.name} ${part.arguments}`;
  return part.text;
}

/** @param {string} text */
function shorten(text) {
  return text.length > MESSAGE_CHARACTERS ? `${text.slice(0, MESSAGE_CHARACTERS)}…` : text;
}

/** The content of each box, as a text. @type {WeakMap<HTMLElement, string>} */
const drawn = new WeakMap();

/**
 * Replaces the lines of a list only if they have changed, so that a selection survives.
 * @param {HTMLElement} box
 * @param {readonly Line[]} lines
 */
export function fill(box, lines) {
  const shown = JSON.stringify(lines);
  if (drawn.get(box) === shown) return;
  drawn.set(box, shown);
  box.hidden = lines.length === 0;
  box.replaceChildren(
    ...lines.map(({ name, text, kind }) =>
      el(
        'div',
        { class: `part ${kind}` },
        el('small', { class: 'faint' }, name),
        el('pre', {}, text),
      ),
    ),
  );
}
