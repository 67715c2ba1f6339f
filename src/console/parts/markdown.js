// @ts-check
import { MARKDOWN_CHARACTERS, MARKDOWN_DEPTH } from '../bounds.js';
import { copyButton } from './copy.js';
import { el } from './dom.js';

/**
 * Draws Markdown. A library reads it into tokens, and this file makes elements from them.
 *
 * 1. No text is ever read as HTML: HTML in an answer is shown as it is written.
 * 2. Only the elements that are named here exist. A link leads to http, https or mail. No picture
 *    is loaded.
 * 3. A block that did not change stays, so that a selection survives while the answer grows.
 * 4. A text that is too long, too deep or unreadable is drawn as it is written.
 *
 * @typedef {import('marked').Token} Token
 * @typedef {(text: string) => Token[]} Lexer
 */

/** A constant, so that the type checker does not look for the file. The daemon serves it. */
const LIBRARY = '/console/marked.js';
/** @type {Lexer | null} */
let lexer = null;
/** The Markdown of each box. @type {WeakMap<Element, { text: string, blocks: string[] }>} */
const drawn = new WeakMap();

/** Loads the library. Until then, and without it, Markdown is drawn as it is written. */
export async function loadMarkdown() {
  lexer = (await import(LIBRARY)).lexer;
}

/**
 * Replaces what the box shows.
 * @param {HTMLElement} box
 * @param {string} text
 */
export function drawMarkdown(box, text) {
  const before = drawn.get(box);
  if (before?.text === text) return;
  const tokens = lexOrNull(text);
  if (tokens === null) {
    box.replaceChildren(el('pre', { class: 'as-is' }, text));
    drawn.set(box, { text, blocks: [] });
    return;
  }
  const blocks = tokens.filter(({ type }) => type !== 'space' && type !== 'def');
  // A definition at the end changes the links of blocks before it.
  const links = tokens.filter(({ type }) => type === 'def').map(({ raw }) => raw);
  const keys = blocks.map(({ raw }) => JSON.stringify([raw, links]));
  const same = keys.findIndex((key, index) => key !== before?.blocks[index]);
  const kept = same < 0 ? keys.length : same;
  while (box.childNodes.length > kept) box.lastChild?.remove();
  for (const token of blocks.slice(kept)) box.append(drawBlock(token, 0));
  drawn.set(box, { text, blocks: keys });
}

/** Called when something else is drawn into the box. @param {Element} box */
export function forgetMarkdown(box) {
  drawn.delete(box);
}

/** Null: the text is drawn as it is written. @param {string} text */
function lexOrNull(text) {
  if (lexer === null || text.length > MARKDOWN_CHARACTERS || isDeep(text)) return null;
  try {
    return lexer(text);
  } catch {
    return null;
  }
}

/**
 * Whether the library would need seconds for the text: it has lists and quotes within each other,
 * or marks in one line that open and never close.
 * @param {string} text
 */
export function isDeep(text) {
  return text.split('\n').some((line) => {
    const [begin = ''] = (RULE.test(line) ? null : NESTED.exec(line)) ?? [];
    const marks = begin.match(/>|[-*+.)][ \t]/g)?.length ?? 0;
    const indent = /^[ \t]*/.exec(line)?.[0].replaceAll('\t', '    ').length ?? 0;
    return (
      marks > MARKDOWN_DEPTH ||
      (marks > 0 && indent > MARKDOWN_DEPTH * 4) ||
      (line.match(OPENING)?.length ?? 0) > MARKS_OF_A_LINE
    );
  });
}

/** A horizontal rule. */
const RULE = /^[ \t]*(?:-[ \t]*)+$|^[ \t]*(?:\*[ \t]*)+$/;
const NESTED = /^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|>[ \t]?)+/;
const OPENING = /[*_~]{1,3}|\[|`+|</g;
/** No real text has more in one line. */
const MARKS_OF_A_LINE = 2000;

/**
 * Draws a block as one node, so that a block and its node have the same index.
 * @param {Token} token
 * @param {number} depth
 * @returns {Node}
 */
function drawBlock(token, depth) {
  if (depth > MARKDOWN_DEPTH) return el('p', {}, token.raw);
  const inner = () => drawInlines(token, depth + 1);
  switch (token.type) {
    case 'heading':
      return el(HEADINGS[Math.min(token.depth, 4) - 1] ?? 'h6', {}, ...inner());
    case 'code':
      return drawCode(token.text, token.lang ?? '');
    case 'blockquote':
      return el('blockquote', {}, ...drawBlocks(token.tokens ?? [], depth + 1));
    case 'list':
      return drawList(token, depth);
    case 'table':
      return drawTable(token, depth);
    case 'hr':
      return el('hr');
    case 'html':
      return el('p', {}, token.raw.trimEnd());
    case 'paragraph':
    case 'text':
      return el('p', {}, ...inner());
    default:
      return el('p', {}, token.raw);
  }
}

/** The page has two levels of headings itself. @type {readonly (keyof HTMLElementTagNameMap)[]} */
const HEADINGS = ['h3', 'h4', 'h5', 'h6'];

/**
 * @param {readonly Token[]} tokens
 * @param {number} depth
 */
function drawBlocks(tokens, depth) {
  return tokens
    .filter(({ type }) => type !== 'space' && type !== 'def')
    .map((token) => drawBlock(token, depth));
}

/**
 * @param {any} token
 * @param {number} depth
 */
function drawList(token, depth) {
  const items = token.items.map((/** @type {any} */ item) =>
    el(
      'li',
      {},
      ...item.tokens
        .filter((/** @type {Token} */ { type }) => type !== 'space' && type !== 'def')
        .flatMap((/** @type {Token} */ inner) =>
          inner.type === 'text' && !item.loose
            ? drawInlines(inner, depth + 1)
            : [inner.type === 'checkbox' ? checkboxText(inner) : drawBlock(inner, depth + 1)],
        ),
    ),
  );
  if (!token.ordered) return el('ul', {}, ...items);
  return el('ol', { start: Number.isInteger(token.start) ? token.start : null }, ...items);
}

/** @param {any} token */
function checkboxText(token) {
  return token.checked ? '☑ ' : '☐ ';
}

/**
 * @param {any} token
 * @param {number} depth
 */
function drawTable(token, depth) {
  /** @param {'td' | 'th'} tag @param {any} cell */
  const cellOf = (tag, cell) =>
    el(
      tag,
      { class: cell.align === null ? null : `to-${cell.align}` },
      ...drawInlines(cell, depth + 1),
    );
  const head = token.header.map((/** @type {any} */ cell) => cellOf('th', cell));
  const rows = token.rows.map((/** @type {any[]} */ row) =>
    el('tr', {}, ...row.map((cell) => cellOf('td', cell))),
  );
  return el(
    'div',
    { class: 'scroll', tabindex: 0 },
    el('table', {}, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...rows)),
  );
}

/**
 * @param {string} text
 * @param {string} language
 */
function drawCode(text, language) {
  return el(
    'div',
    { class: 'code' },
    el(
      'div',
      { class: 'bar' },
      el('small', {}, language),
      copyButton(() => text, 'Copy the code'),
    ),
    el('pre', { tabindex: 0 }, el('code', {}, text)),
  );
}

/**
 * Draws the inner tokens of a token, or its text if it has none.
 * @param {{ tokens?: Token[], text?: string, raw?: string }} token
 * @param {number} depth
 * @returns {(Node | string)[]}
 */
function drawInlines(token, depth) {
  if (token.tokens === undefined) return [decodeEntities(token.text ?? token.raw ?? '')];
  return token.tokens.map((inner) => drawInline(inner, depth));
}

/**
 * @param {any} token
 * @param {number} depth
 * @returns {Node | string}
 */
function drawInline(token, depth) {
  if (depth > MARKDOWN_DEPTH) return token.raw;
  const inner = () => drawInlines(token, depth + 1);
  switch (token.type) {
    case 'strong':
    case 'em':
    case 'del':
      return el(/** @type {'strong' | 'em' | 'del'} */ (token.type), {}, ...inner());
    case 'codespan':
      return el('code', {}, token.text);
    case 'br':
      return el('br');
    case 'link':
      return drawLink(token.href, inner());
    case 'image':
      return drawLink(token.href, [`[image: ${token.text || token.href}]`]);
    case 'escape':
      return token.text;
    case 'text':
      return token.tokens === undefined ? decodeEntities(token.text) : el('span', {}, ...inner());
    default:
      return token.raw;
  }
}

/**
 * @param {string} href
 * @param {(Node | string)[]} inner
 */
function drawLink(href, inner) {
  const url = URL.canParse(href) ? new URL(href) : null;
  if (url === null || !['http:', 'https:', 'mailto:'].includes(url.protocol))
    return el('span', {}, ...inner);
  return el(
    'a',
    { href: url.href, title: url.href, target: '_blank', rel: 'noopener noreferrer' },
    ...inner,
  );
}

/** @type {Record<string, string>} */
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

/**
 * Replaces entities by their characters, because a text node does not decode them.
 * @param {string} text
 */
function decodeEntities(text) {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{2,8}));/gi, (all, dec, hex, name) => {
    if (name !== undefined) return ENTITIES[name] ?? all;
    const code = dec === undefined ? Number.parseInt(hex, 16) : Number(dec);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
      ? String.fromCodePoint(code)
      : '\ufffd';
  });
}
