/**
 * Words that are one of a few, and the filters of runs. Quick commands need them, and the tables of
 * options and limits take long to build.
 */

/** The states in which a run has ended. Its last event has the same name. */
export const RUN_ENDS = ['completed', 'failed', 'cancelled', 'interrupted', 'timed_out'] as const;
export type RunEnd = (typeof RUN_ENDS)[number];

/** The states of a run, by which runs are listed. `machines/run/chart.ts` refuses another one. */
export const RUN_STATES = [
  'queued',
  'starting',
  'streaming',
  'backoff',
  'suspended',
  'calling',
  'awaiting_approval',
  'awaiting_decision',
  'continuing',
  'cancelling',
  ...RUN_ENDS,
] as const;
export type RunState = (typeof RUN_STATES)[number];

/** What a run may ask for if it is cut off. */
export const RECOVERIES = ['resume', 'restart', 'end'] as const;

/** The policy for a tool call: carry it out, ask a person, or deny it. */
export const TOOL_POLICIES = ['allow', 'ask', 'deny'] as const;
export type ToolPolicy = (typeof TOOL_POLICIES)[number];
/** As a message names them: `allow, ask or deny`. */
export const POLICY_WORDS = listWithOr(TOOL_POLICIES);

export function listWithOr(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** What a run says when one of its time limits has passed. */
export const TIMEOUT_ERROR: Readonly<Record<string, string>> = {
  queue: 'The run waited too long in the queue.',
  total: 'The run took longer than its time limit.',
  first_output: 'The provider did not begin to answer in time.',
  idle: 'The provider stopped sending in the middle of its answer.',
};

/** The scope of a token, from seeing all to changing everything. */
export const SCOPES = ['read', 'run', 'approve', 'admin'] as const;

/** Levels of the log of the daemon, lowest first. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const;

/** By what runs are listed: one row each. The command line, the contract and HTTP read it. */
export interface RunFilter {
  type: 'text' | 'word' | 'flag';
  words?: readonly string[];
  /** Its letter on the command line, which means the same in every command. */
  short?: string;
  /** Its value in help. */
  value?: string;
  summary: string;
}

export const RUN_FILTERS = {
  state: { type: 'word', words: RUN_STATES, value: '<state>', summary: 'Runs in this state.' },
  provider: { type: 'text', short: 'p', value: '<id>', summary: 'Runs of this provider.' },
  model: { type: 'text', short: 'm', value: '<name>', summary: 'Runs of the model of this name.' },
  cloud: { type: 'flag', summary: 'Runs whose prompt left this machine.' },
  conversation: { type: 'text', value: '<id>', summary: 'Runs of the conversation of this run.' },
} as const satisfies Record<string, RunFilter>;

export type RunFilterName = keyof typeof RUN_FILTERS;
export const runFilters = Object.entries(RUN_FILTERS) as [RunFilterName, RunFilter][];
/** What each filter is, by its type. */
export type ByFilter<Text, Word, Flag> = {
  [N in RunFilterName]: (typeof RUN_FILTERS)[N]['type'] extends 'flag'
    ? Flag
    : (typeof RUN_FILTERS)[N]['type'] extends 'word'
      ? Word
      : Text;
};

/** The same for each filter of a type. */
export function byFilter<Text, Word, Flag>(
  text: Text,
  word: (words: readonly string[]) => Word,
  flag: Flag,
): ByFilter<Text, Word, Flag> {
  const values = runFilters.map(([name, { type, words = [] }]) => [
    name,
    type === 'flag' ? flag : type === 'word' ? word(words) : text,
  ]);
  return Object.fromEntries(values) as ByFilter<Text, Word, Flag>;
}
