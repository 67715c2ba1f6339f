import { answerQuestions } from '../../async/foreign-child.ts';
import { asExhausted } from '../../descriptors.ts';
import { checkGguf, invalidError, otherKindOf, shapeOf, weightsOf } from '../../models/index.ts';
import type { CheckedFile, CheckResult } from './load-check.ts';

/** Process that checks the header of one model file as strictly as that of a download. */
answerQuestions((file: CheckedFile) =>
  check(file).catch((error: Error): CheckResult => {
    const exhausted = asExhausted(error);
    // A lack of descriptors is not about the file.
    if (exhausted !== null) throw error;
    return { problem: error.message, shape: null };
  }),
);

async function check({ path, header_bytes }: CheckedFile): Promise<CheckResult> {
  const [header] = await checkGguf(path, header_bytes);
  const other = otherKindOf(header);
  if (other !== null) throw invalidError(other);
  return { problem: null, shape: shapeOf(header, await weightsOf(path)) };
}
