import { randomUUID } from 'node:crypto';
import { connect } from '../../control/client.ts';
import { SvcError } from '../../errors.ts';
import type { Context } from '../context.ts';
import { onInterrupt } from '../interrupt.ts';
import { isTerminal, note, print, printError, printJson } from '../output.ts';
import { openStdout, type StdoutStream } from '../stdout-stream.ts';
import { ending } from './ending.ts';
import { followRun, type Run, type Steps } from './follow.ts';
import { noteBuiltIn } from './note-built-in.ts';
import { AnswerPrinter } from './print-answer.ts';
import { readPrompt } from './read-prompt.ts';
import { ready } from './ready.ts';
import { readRunInput } from './run-input.ts';

type Input = Record<string, unknown> & { idempotency_key: string };

/**
 * Asks, and prints the answer as it is made.
 *
 * 1. The work goes on for as long as somebody waits for it: Ctrl-C, and a reader of stdout who leaves, cancel the run.
 * 2. After Ctrl-C the command ends when the work has stopped; a second Ctrl-C does not wait for that.
 * 3. A daemon that dies on the way is brought back, and the answer is printed whole: no byte twice, none missing.
 * 4. The exit code tells the end of the run.
 */
export async function run(context: Context): Promise<number> {
  const { args, flags, json } = context;
  const given = readRunInput(flags);
  const prompt = await readPrompt(args[0], context.paths);
  await ready(context);
  // With a key of its own, a start whose answer was lost can be sent again.
  const input: Input = { idempotency_key: `run-${randomUUID()}`, ...given, prompt };
  return flags.detach === true ? detach(context, input, json) : answer(context, input);
}

async function detach(context: Context, input: Input, json: boolean): Promise<number> {
  const start = async (): Promise<Run> => {
    const client = await connect(context.paths.socket);
    return client.call('run.start', input).finally(() => client.close());
  };
  const record = await start().catch(async (error: unknown) => {
    if (!(error instanceof SvcError) || error.code !== 'connection_lost') throw error;
    await ready(context);
    return start();
  });
  if (json) printJson(record);
  else print(record.id);
  return 0;
}

async function answer(context: Context, input: Input): Promise<number> {
  const { flags, json, paths } = context;
  const interrupt = onInterrupt(() => json || note('Cancelling; Ctrl-C again leaves at once.'));
  const stdout = openStdout();
  const printer = json ? null : new AnswerPrinter(stdout);
  const record = await followRun({
    ...{ paths, what: { start: input }, cancel: AbortSignal.any([interrupt.signal, stdout.gone]) },
    steps: answering(context, flags['no-stream'] === true ? null : printer),
    revive: flags['no-start'] === true ? null : () => ready(context),
  }).catch(async (error: unknown) => {
    await printer?.end('', false);
    throw error;
  });
  await printer?.end(interrupt.signal.aborted ? '' : record.output, record.state === 'completed');
  interrupt.release();
  return finish(record, json, stdout, interrupt.signal.aborted);
}

function answering({ json, paths }: Context, live: AnswerPrinter | null): Steps {
  const steps = printing(live, json);
  const accepted = (run: Run) => {
    steps.accepted(run);
    if (!json) noteBuiltIn(run, paths);
  };
  return { ...steps, accepted };
}

/** What is printed on the way. An answer that may be asked again from its beginning is printed at its end only. */
export function printing(live: AnswerPrinter | null, json: boolean): Steps & { accepted(run: Run): void } {
  let printer = live;
  return {
    accepted: (run) => {
      if (run.recovery === 'restart') printer = null;
    },
    output: (text) => printer?.append(text),
    discarded: () => json || note('The run is asked again from its beginning.'),
    waiting: (position) => json || !isTerminal(2) || note(`Waiting in the queue, at place ${position}.`),
    away: () => json || note('The daemon is gone; waiting for it to come back.'),
  };
}

export function finish(record: Run, json: boolean, stdout: StdoutStream, interrupted: boolean): number {
  if (stdout.gone.aborted) return 0;
  if (json) printJson(record);
  const { exit, error } = ending(record);
  // Whoever has just pressed Ctrl-C needs no advice.
  if (interrupted && !json && error?.code === 'run_cancelled') note(error.message);
  else if (error !== null) printError(error, json);
  return exit;
}
