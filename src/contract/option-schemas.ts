import * as v from 'valibot';
import { GRAMMAR_CHARS } from '../forms/gbnf.ts';
import { recordedTool, responseFormat, tool, toolChoice } from './messages/messages.ts';
import {
  type Option,
  type OptionName,
  optionRows,
  options,
  type RecordedName,
  recordedNames,
  STOPS_MAX,
} from './options.ts';
import {
  flag,
  nonEmptyList,
  numberFrom,
  oneOf,
  text,
  whole,
  wholeCapped,
  wholeFrom,
  words,
} from './vocabulary.ts';

/** The schemas of the rows of `options`, for requests and for records. */

/** Most tokens whose odds a request may change. */
const BIASES_MAX = 1024;
/** The odds of a token change by at most so much. */
const BIAS_MAX = 100;

/** Characters of a regular expression, and of each text of a choice; and how many texts. */
const REGEX_CHARS = 8192;
const CHOICE_CHARS = 4096;
const CHOICES_MAX = 2000;

function withMaxLength<S extends v.GenericSchema<string>>(schema: S, most: number) {
  return v.pipe(schema, v.maxLength(most, `must have at most ${most} characters.`));
}

const forms = {
  tools: v.array(tool, 'must be a list of tools.'),
  tool_choice: toolChoice,
  response_format: responseFormat,
  stop: v.pipe(
    v.array(words, 'must be a list of texts.'),
    v.maxLength(STOPS_MAX, `must have at most ${STOPS_MAX} texts.`),
  ),
  suffix: text,
  lora: v.record(
    v.pipe(v.string(), v.regex(/^(\d|1[0-5])$/, 'must be the id of an adapter, from 0 to 15.')),
    numberFrom(-BIAS_MAX, BIAS_MAX),
    'must be an object with ids of adapters, and a number for each.',
  ),
  regex: withMaxLength(words, REGEX_CHARS),
  choice: v.pipe(
    nonEmptyList(
      withMaxLength(words, CHOICE_CHARS),
      'must be a list of texts.',
      'must have at least one text.',
    ),
    v.maxLength(CHOICES_MAX, `must have at most ${CHOICES_MAX} texts.`),
  ),
  grammar: withMaxLength(words, GRAMMAR_CHARS),
  logit_bias: v.pipe(
    v.record(
      v.pipe(v.string(), v.regex(/^(0|[1-9]\d{0,8})$/, 'must be the id of a token.')),
      numberFrom(-BIAS_MAX, BIAS_MAX),
      'must be an object with ids of tokens, and a number for each.',
    ),
    v.check(
      (biases) => Object.keys(biases).length <= BIASES_MAX,
      `must have at most ${BIASES_MAX} tokens.`,
    ),
  ),
};

type Table = typeof options;
type SchemaOf<N extends OptionName> = N extends keyof typeof forms
  ? (typeof forms)[N]
  : Table[N] extends { words: infer W extends readonly string[] }
    ? ReturnType<typeof oneOf<W>>
    : Table[N] extends { type: 'flag' }
      ? typeof flag
      : ReturnType<typeof numberFrom>;

/** In a record the bounds do not matter: they may have been others when it was written. */
function schemaOf(name: OptionName, isBounded: boolean): v.GenericSchema {
  const { type, words, min = 0, max = 0, capped }: Option = options[name];
  if (name === 'tools' && !isBounded) return v.array(recordedTool);
  if (type === 'form') return forms[name as keyof typeof forms];
  if (type === 'flag') return flag;
  if (words !== undefined) return oneOf(words);
  if (!isBounded) return type === 'whole' ? whole : v.number();
  if (capped === true) return wholeCapped(min, max);
  return type === 'whole' ? wholeFrom(min, max) : numberFrom(min, max);
}

/** The options of a request. */
export const optionEntries = Object.fromEntries(
  optionRows.map(([name]) => [name, v.nullish(schemaOf(name, true))]),
) as { [N in OptionName]: v.NullishSchema<SchemaOf<N>, undefined> };

/** The options that a record shows. */
export const recordedOptions = Object.fromEntries(
  recordedNames.map((name) => [name, v.exactOptional(schemaOf(name, false))]),
) as { [N in RecordedName]: v.ExactOptionalSchema<SchemaOf<N>, undefined> };
