// @ts-check

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
 * a row is replaced, the focus moves to the same button of its successor.
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
  const focused = [...old.querySelectorAll('button')].indexOf(
    /** @type {HTMLButtonElement} */ (document.activeElement),
  );
  old.replaceWith(row);
  if (focused >= 0) row.querySelectorAll('button')[focused]?.focus({ preventScroll: true });
  return row;
}

/**
 * A state in its colour of the diagrams.
 * @param {string} path
 * @param {string} paint
 */
export function chip(path, paint) {
  return el('span', { class: `chip ${paint}` }, path);
}
