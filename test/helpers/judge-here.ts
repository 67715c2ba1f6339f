import { problemOfArguments } from '../../src/runtime/tools/arguments.ts';
import type { ArgumentsJudge } from '../../src/runtime/tools/arguments-judge.ts';

/** Judges in this process, at once. The schemas of tests are harmless. */
export const judgeHere: ArgumentsJudge = {
  judge: async (written, { schema }) => ({
    problem: problemOfArguments({ written, schema: JSON.stringify(schema), characters: 2000 }),
  }),
  warm() {},
};
