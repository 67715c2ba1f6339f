// @ts-check
/**
 * The data of the page, in one place. Views read it and get its changes.
 *
 * 1. `now` is the present state. `past` is the state at a past position, and null in the present.
 * 2. `run` is the chosen run at that position. Its output grows with the events, without further
 *    requests.
 *
 * @typedef {import('../../contract/contract.ts').StateSnapshot} Snapshot
 * @typedef {import('../../contract/contract.ts').MachinesRecord['machines'][number]} Machine
 * @typedef {import('../../contract/contract.ts').InstanceRecord} Instance
 * @typedef {import('../../contract/contract.ts').RunWhyRecord} Why
 * @typedef {import('../../contract/contract.ts').EventRecord} LogEvent
 * @typedef {import('../../contract/contract.ts').RunRecord} Run
 * @typedef {import('../../contract/approvals.ts').ApprovalRecord} Approval
 * @typedef {'machines' | 'snapshot' | 'runs' | 'run' | 'output' | 'events' | 'connection'
 * | 'walk' | 'models' | 'approvals'} Part
 */

export const model = {
  /** @type {readonly Machine[]} */
  machines: [],
  /** @type {Snapshot | null} */
  now: null,
  /** @type {Snapshot | null} */
  past: null,
  /** @type {readonly Run[]} */
  runs: [],
  /** What waits for a person now. @type {readonly Approval[]} */
  approvals: [],
  /** @type {Run | null} */
  run: null,
  /** @type {Why | null} */
  why: null,
  /** The last position of the log that the page has. */
  last_seq: 0,
  connected: false,
  /** When the daemon was last known to be there. Milliseconds since the epoch. */
  seen_at: 0,
  /** Why the connection is lost, if known. */
  lost: '',
};

/** @type {Map<Part, Set<() => void>>} */
const listeners = new Map();
/** @type {Set<Part>} */
const pending = new Set();

/**
 * Calls the listener when one of these parts has changed, at most once a frame.
 * @param {readonly Part[]} parts
 * @param {() => void} listener
 */
export function on(parts, listener) {
  for (const part of parts) listeners.set(part, (listeners.get(part) ?? new Set()).add(listener));
}

/** @param {Part} part */
export function markChanged(part) {
  if (pending.size === 0) schedule();
  pending.add(part);
}

/** The snapshot that the page shows. */
export function snapshot() {
  return model.past ?? model.now;
}

/** A page in the background draws no frames. Its memory must not wait for one. */
function schedule() {
  if (document.hidden) setTimeout(tell, 250);
  else requestAnimationFrame(tell);
}

function tell() {
  const called = new Set([...pending].flatMap((part) => [...(listeners.get(part) ?? [])]));
  pending.clear();
  for (const listener of called) listener();
}
