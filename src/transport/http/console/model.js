// @ts-check
/**
 * What the page shows, in one place; the views read it and are told when a part of it has changed.
 *
 * 1. `now` is the present picture. `past` is the one of the moment that is looked at; null while that is the present.
 * 2. `run` is the chosen run as it was at that moment; its output grows with the events, not by asking again.
 *
 * @typedef {import('../../../runtime/contract.ts').StateSnapshot} Picture
 * @typedef {import('../../../runtime/contract.ts').MachinesRecord['machines'][number]} Machine
 * @typedef {import('../../../runtime/contract.ts').InstanceRecord} Instance
 * @typedef {import('../../../runtime/contract.ts').RunWhyRecord} Why
 * @typedef {import('../../../runtime/contract.ts').EventRecord} LogEvent
 * @typedef {import('../../../runtime/contract.ts').RunRecord} Run
 * @typedef {'machines' | 'picture' | 'runs' | 'run' | 'output' | 'events' | 'connection' | 'walk'} Part
 */

export const model = {
  /** @type {readonly Machine[]} */
  machines: [],
  /** @type {Picture | null} */
  now: null,
  /** @type {Picture | null} */
  past: null,
  /** @type {readonly Run[]} */
  runs: [],
  /** @type {Run | null} */
  run: null,
  /** @type {Why | null} */
  why: null,
  /** The end of the log, as far as its events have come. */
  last_seq: 0,
  connected: false,
  /** Why the connection is lost, where it is known. */
  lost: '',
};

/** @type {Map<Part, Set<() => void>>} */
const listeners = new Map();
/** @type {Set<Part>} */
const pending = new Set();

/**
 * Calls when one of these parts has changed, at most once for each frame that is drawn.
 * @param {readonly Part[]} parts
 * @param {() => void} listener
 */
export function on(parts, listener) {
  for (const part of parts) listeners.set(part, (listeners.get(part) ?? new Set()).add(listener));
}

/** @param {Part} part */
export function changed(part) {
  if (pending.size === 0) schedule();
  pending.add(part);
}

/** The picture that is looked at. */
export function picture() {
  return model.past ?? model.now;
}

/** A page in the background draws no frames, and its memory must not wait for one. */
function schedule() {
  if (document.hidden) setTimeout(tell, 250);
  else requestAnimationFrame(tell);
}

function tell() {
  const called = new Set([...pending].flatMap((part) => [...(listeners.get(part) ?? [])]));
  pending.clear();
  for (const listener of called) listener();
}
