// @ts-check
import { model } from './model.js';
import { innermostState, machineOf, transitionsFor } from './shape.js';
import { at } from './travel.js';

/** Which edge of a diagram a step takes. */

/**
 * True if the step is known to change the state.
 * @param {import('./walk.js').Step | null} step
 */
export function isMove(step) {
  return step !== null && step.from !== null && step.to !== null && step.from !== step.to;
}

/**
 * The last step of the chosen run, by its events.
 * @param {string} stream
 * @returns {import('./walk.js').Step | null}
 */
export function recordedMove(stream) {
  const { why } = model;
  if (why?.run_id !== stream) return null;
  const events = why.events.filter(({ seq }) => seq <= (at() ?? model.last_seq));
  const index = events.findLastIndex(
    ({ state_path }, i) => i > 0 && state_path !== events[i - 1]?.state_path,
  );
  const [before, last] = [events[index - 1], events[index]];
  return before === undefined || last === undefined
    ? null
    : {
        machine: 'run',
        stream,
        event: last.type,
        from: before.state_path,
        to: last.state_path,
        seq: last.seq,
      };
}

/**
 * The name of a step's edge. Empty if it is unknown, or if the state did not change.
 * @param {import('./walk.js').Step} step
 */
export function edgeOf({ machine, event, from, to }) {
  const shape = machineOf(machine);
  if (shape === undefined || to === null) return '';
  const edges =
    from === null
      ? shape.transitions.filter((one) => one.event === event)
      : transitionsFor(shape, from, event);
  const taken = edges.filter((one) => innermostState(shape, one.target) === to);
  const sources = new Set(taken.map(({ source }) => source));
  const [first] = taken;
  return first === undefined || (from === null && sources.size > 1)
    ? ''
    : `edge:${first.source}|${first.event}|${first.target}`;
}
