// @ts-check
import { markChanged, model } from './model.js';
import { innermostState, machineOf, transitionsFor } from './shape.js';

/**
 * The state of each machine, from the events as they arrive, so that their edges light at once. The
 * snapshot, which comes a little later, decides: an event with several possible targets leaves the
 * state open until then.
 *
 * @typedef {import('./model.js').LogEvent} LogEvent
 * @typedef {import('./model.js').Instance} Instance
 * @typedef {{ machine: string, stream: string, event: string, from: string | null, to: string |
 * null, seq: number }} Step
 */

/** @type {Map<string, string | null>} */
let places = new Map();
/** @type {Map<string, Step>} the last step of each machine that is shown */
let steps = new Map();

/** @param {string} stream */
export function lastStep(stream) {
  return steps.get(stream) ?? null;
}

/** @param {string} stream */
export function placeOf(stream) {
  return places.get(stream) ?? null;
}

/**
 * Applies an event. Returns true when a state has changed, or may have.
 * @param {LogEvent} event
 */
export function walk({ stream, type, seq, version }) {
  const name = type.split('.')[0] ?? '';
  const machine = machineOf(name);
  if (machine === undefined) return true;
  const from = places.get(stream) ?? null;
  const to = version === 1 ? machine.initial : from === null ? null : targetOf(machine, from, type);
  places.set(stream, to);
  steps.set(stream, {
    machine: name,
    stream,
    event: type,
    from: version === 1 ? null : from,
    to,
    seq,
  });
  markChanged('walk');
  return to === null || to !== from;
}

/**
 * Applies the snapshot: present states, and ended machines. Later events stay.
 * @param {Pick<import('./model.js').Snapshot, 'instances' | 'seq'>} snapshot
 * @param {string | null} keep the stream of the chosen run, which may have ended
 */
export function settle({ instances, seq: reached }, keep) {
  const before = steps;
  places = new Map(instances.map(({ stream, state_path }) => [stream, state_path]));
  steps = new Map();
  for (const { stream, state_path, seq } of instances) {
    const step = before.get(stream);
    if (step === undefined) continue;
    if (step.seq > seq) places.set(stream, step.to);
    steps.set(stream, step.to === null && step.seq === seq ? { ...step, to: state_path } : step);
  }
  for (const [stream, step] of before) {
    if (steps.has(stream) || (step.seq <= reached && stream !== keep)) continue;
    steps.set(stream, step);
    places.set(stream, step.to);
  }
  markChanged('walk');
}

/** Another position: only its own event is known. */
export function forget() {
  places = new Map();
  steps = new Map();
}

/**
 * @param {import('./model.js').Machine} machine
 * @param {string} from
 * @param {string} type
 */
function targetOf(machine, from, type) {
  const targets = new Set(
    transitionsFor(machine, from, type).map(({ source, target }) =>
      target === source ? from : innermostState(machine, target),
    ),
  );
  return targets.size === 1 ? ([...targets][0] ?? null) : null;
}

/** The chosen run. */
export function chosenStream() {
  return model.run?.id ?? null;
}
