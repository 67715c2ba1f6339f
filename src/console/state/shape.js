// @ts-check
import { model } from './model.js';

/**
 * States and their transitions, from the machines' shapes.
 * @typedef {import('./model.js').Machine} Machine
 */

/** @param {string} name */
export function machineOf(name) {
  return model.machines.find((machine) => machine.name === name);
}

/**
 * True for a state that nothing leads out of.
 * @param {string} machine
 * @param {string} path
 */
export function isFinal(machine, path) {
  return machineOf(machine)?.states.find((state) => state.path === path)?.type === 'final';
}

/**
 * A state and the states around it, the innermost first. The empty path, of the machine, is last.
 * @param {Machine} machine
 * @param {string} path
 * @returns {string[]}
 */
function lineage(machine, path) {
  const state = machine.states.find((other) => other.path === path);
  return path === '' ? [''] : [path, ...lineage(machine, state?.parent ?? '')];
}

/**
 * True if a state is another one or contains it. The empty path contains all.
 * @param {Machine} machine
 * @param {string} outer
 * @param {string} path
 */
export function holds(machine, outer, path) {
  return lineage(machine, path).includes(outer);
}

/**
 * The transitions that an event may cause in a state, the innermost first. Those of an outer state
 * count only while every inner one has a guard.
 * @param {Machine} machine
 * @param {string} path
 * @param {string} event
 */
export function transitionsFor(machine, path, event) {
  const found = [];
  for (const outer of lineage(machine, path)) {
    const here = machine.transitions.filter((one) => one.source === outer && one.event === event);
    found.push(...here);
    if (here.some(({ guard }) => guard === null)) break;
  }
  return found;
}

/**
 * The transitions out of a state.
 * @param {Machine} machine
 * @param {string} path
 */
export function edgesFrom(machine, path) {
  return machine.transitions.filter(
    ({ source, target }) => holds(machine, source, path) && target !== source,
  );
}

/**
 * The innermost state that is entered with this one.
 * @param {Machine} machine
 * @param {string} path
 * @returns {string}
 */
export function innermostState(machine, path) {
  const inner = machine.states.find((state) => state.path === path)?.initial ?? null;
  return inner === null ? path : innermostState(machine, inner);
}
