export { type ArgumentsReader, argumentsReader, unquote, withoutControl } from './arguments.ts';
export { CALLS, GENERIC, PYTHONIC_FENCE } from './calls.ts';
export { type CallRow, rowOf, type ThoughtRow } from './form.ts';
export { isNote } from './grammar/merge.ts';
export {
  countWays,
  type TextForm,
  takeText,
  textFormOf,
  textGrammar,
} from './grammar/text-form.ts';
export { argumentsGrammar, headRule, literal } from './grammar.ts';
export { KEY, learnCalls, learnThoughts, PROBES, type Probe, type Shown } from './learn.ts';
export { type Found, matchAt, type Pattern } from './pattern.ts';
export { TAGS, THOUGHTS } from './thoughts.ts';
export { callsText } from './write.ts';
