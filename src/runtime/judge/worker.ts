import { answerQuestions } from '../../async/foreign-child.ts';
import { problemOfAnswer } from './answers.ts';
import { type Judging, problemOfArguments } from './arguments.ts';

export interface Question extends Judging {
  about: 'arguments' | 'answer';
}

const problemOf = { arguments: problemOfArguments, answer: problemOfAnswer };

/** Process that judges arguments and answers by schemas of others, which may be hostile. */
answerQuestions(({ about, ...judging }: Question) => problemOf[about](judging));
