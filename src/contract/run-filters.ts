import { RUN_STATES } from './options.ts';

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
