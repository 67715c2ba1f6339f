import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { LOCAL } from '../../src/runtime/providers/providers.ts';
import type { Answer } from './answers.ts';
import type { RunView } from './oracle.ts';
import { undisturbed } from './stream.ts';
import { hold } from './violation.ts';

/**
 * The recorded output is always a prefix of the undisturbed answer, token by token. At the end it
 * is the whole answer.
 */
export function checkOutput(run: RunView, event: StoredEvent): void {
  const { context } = run.snapshot;
  if (event.type === 'run.started' && event.data.resumes !== true) run.token_ids = [];
  if (event.type === 'run.output_appended') {
    run.token_ids.push(...(event.data.token_ids as number[]));
    const whole = answerOf(run);
    const text = whole.texts.join('');
    hold(
      'output',
      text.startsWith(context.output),
      () =>
        `${run.alias} has ${JSON.stringify(context.output)}, undisturbed it is ${JSON.stringify(text)}`,
    );
    hold(
      'output',
      run.token_ids.every((id, index) => id === whole.token_ids[index]),
      () => `the tokens of ${run.alias} are ${run.token_ids}, not ${whole.token_ids}`,
    );
    hold(
      'output',
      !context.resumable || fits(whole, run.token_ids, context.output),
      () => `text and tokens of ${run.alias} do not belong together`,
    );
  }
  if (event.type !== 'run.completed') return;
  const whole = answerOf(run);
  hold(
    'output',
    context.output === whole.texts.join(''),
    () =>
      `${run.alias} ended with ${JSON.stringify(context.output)} of ${JSON.stringify(whole.texts.join(''))}`,
  );
  hold(
    'output',
    run.token_ids.length === whole.token_ids.length,
    () => `${run.alias} ended with ${run.token_ids.length} of ${whole.token_ids.length} tokens`,
  );
}

function fits(whole: Answer, token_ids: readonly number[], output: string): boolean {
  return whole.texts.slice(0, token_ids.length).join('') === output;
}

/** The answer of the present target. So no answer has output of two targets. */
function answerOf({ snapshot: { context } }: RunView): Answer {
  const { request, attempt, turns } = context;
  return undisturbed(request, attempt, request.provider === LOCAL, turns.length);
}
