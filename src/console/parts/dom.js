// @ts-check
import { toneOf, wordsOf } from '../state/tone.js';

/**
 * A new element. Text children become text nodes: no data of the daemon is ever read as HTML.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number | boolean | null | ((event: Event) => void)>} [attributes]
 * a function is a listener, true an empty attribute, false or null none
 * @param {...(Node | string | null)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (value !== false && value !== null)
      node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/**
 * A new element of a drawing.
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...Node} children
 */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/**
 * An element that the page always has.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @returns {T}
 */
export function byId(id) {
  const node = document.getElementById(id);
  if (node === null) throw new Error(`The page has no ${id}.`);
  return /** @type {T} */ (node);
}

/**
 * Sets a text only if it changes, so that screen readers do not repeat it.
 * @param {Element} node
 * @param {string} text
 */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Replaces the options of a choice, and keeps the chosen one if it still exists.
 * @param {HTMLSelectElement} select
 * @param {readonly { value: string, text: string }[]} options
 */
export function setOptions(select, options) {
  const key = JSON.stringify(options);
  if (select.dataset.options === key) return;
  select.dataset.options = key;
  const { value } = select;
  select.replaceChildren(
    ...options.map((option) => el('option', { value: option.value }, option.text)),
  );
  if (options.some((option) => option.value === value)) select.value = value;
}

/**
 * Replaces rows. `key` names the data attribute that identifies a row. An unchanged row stays. When
 * a row is replaced, the focus moves to the same button or link of its successor.
 * @param {Element} parent
 * @param {readonly HTMLElement[]} rows
 * @param {string} key
 */
export function place(parent, rows, key) {
  const wanted = new Map(rows.map((row) => [row.dataset[key], row]));
  const kept = new Map();
  for (const old of /** @type {HTMLElement[]} */ ([...parent.children])) {
    const row = wanted.get(old.dataset[key]);
    if (row === undefined) old.remove();
    else kept.set(row, old.isEqualNode(row) ? old : replace(old, row));
  }
  // A row in its place is not touched: moving an element loses the focus.
  let next = parent.firstElementChild;
  for (const row of rows) {
    const node = kept.get(row) ?? row;
    if (node === next) next = node.nextElementSibling;
    else parent.insertBefore(node, next);
  }
}

/**
 * @param {HTMLElement} old
 * @param {HTMLElement} row
 */
function replace(old, row) {
  const stops = (/** @type {HTMLElement} */ node) =>
    /** @type {HTMLElement[]} */ ([...node.querySelectorAll('button, a')]);
  const focused = stops(old).indexOf(/** @type {HTMLElement} */ (document.activeElement));
  old.replaceWith(row);
  if (focused >= 0) stops(row)[focused]?.focus({ preventScroll: true });
  return row;
}

/**
 * A state in the colour of its meaning, and its meaning in words.
 * @param {string} machine
 * @param {string} path
 */
export function chip(machine, path) {
  return el(
    'span',
    { class: `chip ${toneOf(machine, path)}`, title: wordsOf(machine, path) || null },
    path,
  );
}
