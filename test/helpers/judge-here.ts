import { problemOfAnswer, problemOfText } from '../../src/runtime/judge/answers.ts';
import { problemOfArguments } from '../../src/runtime/judge/arguments.ts';
import type { AnswerJudge, ArgumentsJudge } from '../../src/runtime/judge/judge.ts';

/** Judges in this process, at once. The schemas of tests are harmless. */
export const judgeHere: ArgumentsJudge & AnswerJudge = {
  judge: async (written, { schema }) => ({
    problem: problemOfArguments({ written, schema: JSON.stringify(schema), characters: 2000 }),
  }),
  compare: async (written, { about, form }) => {
    const judging = { written, schema: JSON.stringify(form), characters: 2000 };
    return about === 'schema' ? problemOfAnswer(judging) : problemOfText[about](judging);
  },
  warmUp() {},
};
