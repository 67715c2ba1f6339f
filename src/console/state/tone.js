// @ts-check
/**
 * What a state means for the user: its tone, and plain words. The tone is `good`, `active`, `warn`,
 * `bad` or `plain`. A colour never says it alone: the name of the state is beside it.
 *
 * @typedef {'good' | 'active' | 'warn' | 'bad' | 'plain'} Tone
 * @typedef {readonly [Tone, string]} Meaning
 */

/** By machine, then by state path. @type {Record<string, Record<string, Meaning>>} */
const MEANINGS = {
  daemon: {
    'starting.binding': ['active', 'It starts: it takes its addresses.'],
    'starting.opening': ['active', 'It starts: it opens its log.'],
    'starting.recovering': ['active', 'It starts: it recovers the runs of its last life.'],
    'starting.probing': ['active', 'It starts: it looks which providers answer.'],
    ready: ['good', 'It waits for runs.'],
    'running.accepting': ['good', 'It answers runs, and takes more.'],
    'running.saturated': ['warn', 'Its queue is full: it refuses new runs.'],
    'running.disk_full': ['bad', 'The disk is full: it refuses new runs.'],
    'running.disk_stalled': ['bad', 'The disk takes no writes: it refuses new runs.'],
    'stopping.draining': ['warn', 'It stops when its runs have ended.'],
    'stopping.closing': ['warn', 'It stops now.'],
    stopped: ['plain', 'It has stopped.'],
    failed: ['bad', 'It has failed.'],
  },
  run: {
    queued: ['plain', 'It waits for its turn.'],
    suspended: ['warn', 'The daemon went away. It continues by itself.'],
    calling: ['active', 'The tools that the model called work.'],
    awaiting_approval: ['warn', 'The model wants to call a tool, and needs your approval.'],
    awaiting_decision: ['warn', 'A tool was cut off. You decide what becomes of its call.'],
    continuing: ['plain', 'The tools have answered. It waits for its next turn.'],
    backoff: ['warn', 'An attempt failed. It tries again soon.'],
    starting: ['active', 'It was sent to the model, and waits for the first token.'],
    streaming: ['active', 'The model answers.'],
    'cancelling.by_request': ['warn', 'You cancelled it. Its work ends.'],
    'cancelling.by_deadline': ['warn', 'Its time is over. Its work ends.'],
    'cancelling.by_stop': ['warn', 'The daemon stops. Its work ends.'],
    completed: ['good', 'The answer is complete.'],
    failed: ['bad', 'It failed.'],
    cancelled: ['plain', 'It was cancelled.'],
    timed_out: ['bad', 'It took longer than it may.'],
    interrupted: ['bad', 'It was cut off and was not continued.'],
  },
  tool_call: {
    made: ['active', 'The model called a tool.'],
    requested: ['warn', 'It waits until it is allowed.'],
    allowed: ['active', 'It was allowed, and begins.'],
    started: ['active', 'The tool works.'],
    lost: ['warn', 'It was cut off, and may have done its work. You decide what becomes of it.'],
    denied: ['plain', 'It was not carried out.'],
    finished: ['good', 'The tool has answered.'],
    dropped: ['plain', 'Its run ended before it began.'],
    abandoned: ['warn', 'Its run ended while it worked.'],
  },
  provider: {
    unknown: ['plain', 'It was not asked yet.'],
    available: ['good', 'It answers.'],
    degraded: ['warn', 'Its last answer failed. It is still asked.'],
    unavailable: ['bad', 'It failed several times in a row, so it is not asked for a while.'],
    rate_limited: ['warn', 'It asked for a pause.'],
    unauthorised: ['bad', 'It refuses the key.'],
    'half_open.ready': ['warn', 'The next request tries whether it answers again.'],
    'half_open.trying': ['active', 'One request tries whether it answers again.'],
    probing: ['active', 'The daemon looks whether it answers.'],
    removed: ['plain', 'It was removed.'],
  },
  engine: {
    cold: ['plain', 'No model is in memory.'],
    starting: ['active', 'Its process starts.'],
    loading: ['active', 'The model is read into memory.'],
    'warm.idle': ['good', 'The model is in memory and waits.'],
    'warm.busy': ['active', 'The model computes an answer.'],
    'stopping.asked': ['warn', 'The model leaves memory.'],
    'stopping.killed': ['warn', 'Its process is killed.'],
    crashed: ['bad', 'Its process died.'],
  },
  pull: {
    resolving: ['active', 'It looks for the file.'],
    downloading: ['active', 'The file arrives.'],
    backoff: ['warn', 'The download broke. It continues soon.'],
    'verifying.hashing': ['active', 'The file is checked.'],
    'verifying.placing': ['active', 'The file is put into the models folder.'],
    cancelling: ['warn', 'Its work ends. The downloaded part is kept.'],
    completed: ['good', 'The model is there.'],
    failed: ['bad', 'The download failed.'],
    cancelled: ['plain', 'The download was cancelled. Its part is kept.'],
  },
  lease: {
    joining: ['active', 'The node asks the database for a lease.'],
    'holding.renewed': ['good', 'The node has a lease.'],
    'holding.late': ['warn', 'The lease was not renewed in time.'],
    leaving: ['warn', 'The node ends its runs, then its lease.'],
    left: ['plain', 'The node left the fleet.'],
    lost: ['bad', 'The node lost its lease.'],
  },
  mcp: {
    stopped: ['plain', 'Its process does not run. The next call starts it.'],
    failing: ['warn', 'It failed. It is started again after a pause.'],
    open: ['bad', 'It failed several times in a row, so it is not started for a while.'],
    starting: ['active', 'It starts, and lists its tools.'],
    'ready.idle': ['good', 'It waits for calls.'],
    'ready.busy': ['active', 'A tool works.'],
    stopping: ['warn', 'Its process ends.'],
  },
  conversation: { open: ['good', 'Runs can join it.'], deleted: ['plain', 'It is deleted.'] },
  model: {
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
  },
};

/** @type {Meaning} */
const UNKNOWN = ['plain', ''];

/**
 * Of a state, or of the first known one in it: `half_open` is as good as `half_open.ready`.
 * @param {string} machine
 * @param {string} path
 * @returns {Meaning}
 */
function meaningOf(machine, path) {
  const states = MEANINGS[machine] ?? {};
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
