// @ts-check
/**
 * What a state means for the user: its tone, and plain words. The tone is `good`, `active`, `warn`,
 * `bad` or `plain`. A colour never says it alone: the name of the state is beside it.
 *
 * @typedef {'good' | 'active' | 'warn' | 'bad' | 'plain'} Tone
 * @typedef {readonly [Tone, string]} Meaning
 */

/** Of a model, which is no machine. @type {Record<string, Meaning>} */
const MODEL = {
  available: ['good', 'It is there, and not in memory.'],
  not_checked: ['plain', 'Its file was not read yet.'],
  loaded: ['good', 'It is in memory.'],
  idle: ['good', 'It is in memory and waits.'],
  busy: ['active', 'It computes an answer.'],
  loading: ['active', 'It is read into memory.'],
  unloading: ['warn', 'It leaves memory.'],
  failed: ['bad', 'It could not be loaded.'],
  invalid: ['bad', 'Its file cannot be used.'],
  partial: ['warn', 'Its download is not complete.'],
};

/** By machine, then by state path. @type {Record<string, Record<string, Meaning>>} */
let meanings = { model: MODEL };

/** A name that is not read by the type checker: the daemon writes the file from the machines. */
const MEANINGS = '/console/meanings.js';

/** Loads what the states of the machines mean. Without it they are plain, and have no words. */
export async function loadMeanings(from = MEANINGS) {
  meanings = { ...(await import(from)).meanings, model: MODEL };
}

/** @type {Meaning} */
const UNKNOWN = ['plain', ''];

/**
 * Of a state, or of the first known one in it: `half_open` is as good as `half_open.ready`.
 * @param {string} machine
 * @param {string} path
 * @returns {Meaning}
 */
function meaningOf(machine, path) {
  const states = meanings[machine] ?? {};
  const inner = Object.keys(states).find((other) => other.startsWith(`${path}.`));
  return states[path] ?? (inner === undefined ? undefined : states[inner]) ?? UNKNOWN;
}

/** The activity of the daemon, in a word or two. @param {string} path */
export function daemonSays(path) {
  const [outer = '', inner = ''] = path.split('.');
  return DAEMON_DOES[inner] ?? (outer === 'running' ? inner.replaceAll('_', ' ') : outer);
}

/** @type {Record<string, string>} */
const DAEMON_DOES = { accepting: 'answering', saturated: 'queue full' };

/**
 * @param {string} machine
 * @param {string} path
 */
export function toneOf(machine, path) {
  return meaningOf(machine, path)[0];
}

/**
 * @param {string} machine
 * @param {string} path
 */
export function wordsOf(machine, path) {
  return meaningOf(machine, path)[1];
}
