import { answerQuestions } from '../../async/foreign-child.ts';
import { problemOfAnswer, problemOfText, type TextForm } from './answers.ts';
import { type Judging, problemOfArguments } from './arguments.ts';

export interface Question extends Judging {
  /** `choice` and so on: the options of the request with that name. */
  about: 'arguments' | 'schema' | TextForm;
}

const problemOf = {
  arguments: problemOfArguments,
  schema: problemOfAnswer,
  regex: problemOfText.regex,
  choice: problemOfText.choice,
  grammar: problemOfText.grammar,
};

/** Process that judges arguments and answers by third-party schemas, which may be hostile. */
answerQuestions(({ about, ...judging }: Question) => problemOf[about](judging));
