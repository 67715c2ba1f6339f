import type { ResponseFormat } from '../../contract/messages/parts.ts';
import type { AnswerOptions } from '../../contract/options.ts';
import { SvcError } from '../../errors.ts';
import { GrammarError, parseGbnf, type Rules, writeRules } from '../../forms/gbnf.ts';
import { TooManyWays, Ways } from '../../forms/ways.ts';
import { BRANCHES_MAX } from './branches.ts';
import { Choices } from './choice.ts';
import { textRule } from './pattern.ts';
import { UnknownPattern } from './ranges.ts';
import { type SchemaGrammar, schemaGrammar } from './schema.ts';

/** The form that the text of an answer must have, by the option that says it. */
export type TextForm =
  | ({ readonly param: 'response_format' } & Pick<ResponseFormat, 'schema'>)
  | { readonly param: 'regex' | 'grammar'; readonly text: string }
  | { readonly param: 'choice'; readonly texts: readonly string[] };

/** Null: the text is free. */
export function textFormOf(options: AnswerOptions): TextForm | null {
  const { response_format, regex, choice, grammar } = options;
  if (response_format !== undefined)
    return { param: 'response_format', schema: response_format.schema };
  if (regex !== undefined) return { param: 'regex', text: regex };
  if (grammar !== undefined) return { param: 'grammar', text: grammar };
  return choice === undefined ? null : { param: 'choice', texts: choice };
}

/** A grammar, and the rules that a client wrote, whose ways are counted as the text grows. */
export interface TextGrammar extends SchemaGrammar {
  rules?: Rules;
}

/** Throws capability_missing for a form that the engine cannot enforce. */
export function textGrammar(form: TextForm): TextGrammar {
  switch (form.param) {
    case 'response_format':
      return schemaGrammar(form.schema ?? { type: 'object' }, 'refuse');
    case 'choice': {
      const { rule, rules, branches } = new Choices().of(form.texts);
      if (branches > BRANCHES_MAX) throw tooManyWays('choice');
      return { text: [`root ::= ${rule}`, ...rules].join('\n'), unsaid: [] };
    }
    case 'regex':
      return regexGrammar(form.text);
    case 'grammar': {
      const rules = rulesIn(form.text);
      countWays(rules);
      return { text: writeRules(rules), unsaid: [], rules };
    }
  }
}

function rulesIn(grammar: string): Rules {
  try {
    return parseGbnf(grammar);
  } catch (thrown) {
    if (!(thrown instanceof GrammarError)) throw thrown;
    throw new SvcError('invalid_request', `grammar cannot be read. ${thrown.message}`, {
      param: 'grammar',
    });
  }
}

function regexGrammar(regex: string): TextGrammar {
  try {
    const { rule, unsaid } = textRule(regex);
    return { text: `root ::= ${rule}`, unsaid: unsaid === null ? [] : [unsaid] };
  } catch (thrown) {
    if (!(thrown instanceof UnknownPattern)) throw thrown;
    throw new SvcError(
      'capability_missing',
      `The engine cannot enforce the regular expression: ${thrown.message}.`,
      { param: 'regex' },
    );
  }
}

/** Counts the ways in which an answer can begin. Throws capability_missing. */
export function countWays(rules: Rules): Ways {
  try {
    return new Ways(rules, BRANCHES_MAX);
  } catch (thrown) {
    throw thrown instanceof TooManyWays ? tooManyWays('grammar') : thrown;
  }
}

/** The same after more text. */
export function takeText(ways: Ways, text: string): void {
  try {
    ways.take(text);
  } catch (thrown) {
    throw thrown instanceof TooManyWays ? tooManyWays('grammar') : thrown;
  }
}

function tooManyWays(param: TextForm['param']): SvcError {
  return new SvcError(
    'capability_missing',
    `The ${param} leaves more than ${BRANCHES_MAX} ways to continue at one place.`,
    { param, hint: 'Write once what two ways begin with: "a" ("b" | "c"), not "a" "b" | "a" "c".' },
  );
}
