// @ts-check
import { model } from './model.js';

/**
 * What the machines' shapes tell about paths and colours.
 * @typedef {import('./model.js').Machine} Machine
 */

/** The same as in the diagrams: the first of these tags that a state carries decides. */
const PAINTS = ['ready', 'live', 'active', 'stable'];

/** @param {string} name */
export function machineOf(name) {
  return model.machines.find((machine) => machine.name === name);
}

/**
 * The colour of a state.
 * @param {string} machine
 * @param {string} path
 */
export function paintOf(machine, path) {
  const state = machineOf(machine)?.states.find((other) => other.path === path);
  if (state === undefined) return 'plain';
  if (state.type === 'final')
    return ['failed', 'interrupted', 'timed_out'].includes(path) ? 'final bad' : 'final';
  return PAINTS.find((tag) => state.tags.includes(tag)) ?? 'plain';
}

/**
 * Whether a state is another one or is around it. The empty path is around all.
 * @param {string} outer
 * @param {string} path
 */
export function holds(outer, path) {
  return outer === '' || path === outer || path.startsWith(`${outer}.`);
}

/**
 * The transitions that an event may cause in a state: those of the innermost state that takes it.
 * @param {Machine} machine
 * @param {string} path
 * @param {string} event
 */
export function transitionsFor({ transitions }, path, event) {
  const taken = transitions.filter(
    (transition) => transition.event === event && holds(transition.source, path),
  );
  const depth = Math.max(...taken.map(({ source }) => source.length));
  return taken.filter(({ source }) => source.length === depth);
}

/**
 * What leads out of a state.
 * @param {Machine} machine
 * @param {string} path
 */
export function leaving({ transitions }, path) {
  return transitions.filter(({ source, target }) => holds(source, path) && target !== source);
}

/**
 * The innermost state that is entered with this one.
 * @param {Machine} machine
 * @param {string} path
 */
export function entered({ states }, path) {
  return states.find((state) => holds(path, state.path) && state.type !== 'compound')?.path ?? path;
}
