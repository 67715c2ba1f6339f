import { randomUUID } from 'node:crypto';
import { hasCode, SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { connectDaemon } from '../connect/connect-daemon.ts';
import type { Context } from '../context.ts';
import { onInterrupt } from '../interrupt.ts';
import { isTerminal, note, print, printError, printJson } from '../print/output.ts';
import { openStdout, type StdoutStream } from '../print/stdout-stream.ts';
import { AwayLine } from './away-line.ts';
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
  if (flags.detach === true && flags['cancel-on-disconnect'] === true)
    throw new SvcError(
      'usage',
      'With --detach nobody waits for the run, so --cancel-on-disconnect does not go with it.',
    );
  const prompt = await readPrompt(args[0], context.paths);
  await ready(context);
  // With a key of its own, a start whose answer was lost can be sent again. Its form tells that no other request has it.
  const input: Input = { idempotency_key: `svc-run-${randomUUID()}`, ...given, prompt };
  return flags.detach === true ? detach(context, input, json) : answer(context, input);
}

async function detach(context: Context, input: Input, json: boolean): Promise<number> {
  const start = async (): Promise<Run> => {
    const client = await connectDaemon(context.paths);
    return client.call('run.start', input).finally(() => client.close());
  };
  const record = await start().catch(async (error: unknown) => {
    if (!hasCode(error, 'connection_lost')) throw error;
    await ready(context);
    return start();
  });
  if (json) printJson(record);
  else print(oneLine(record.id));
  return 0;
}

async function answer(context: Context, input: Input): Promise<number> {
  const { flags, json, paths } = context;
  const interrupt = onInterrupt(() => json || note('Cancelling; Ctrl-C again leaves at once.'));
  const stdout = openStdout();
  const printer = json ? null : new AnswerPrinter(stdout);
  const cancel = AbortSignal.any([interrupt.signal, stdout.gone]);
  const steps = printing(flags['no-stream'] === true ? null : printer, json, cancel);
  const accepted = (run: Run) => {
    steps.accepted(run);
    if (!json) noteBuiltIn(run, paths);
  };
  const record = await followRun({
    ...{ paths, what: { start: input }, cancel },
    steps: { ...steps, accepted },
    revive: flags['no-start'] === true ? null : () => ready(context, { quiet: true }),
    patience: async () =>
      typeof input.timeout_ms === 'number' ? input.timeout_ms : configuredPatience(paths),
  }).catch(async (error: unknown) => {
    await printer?.end('', false);
    throw error;
  });
  const output = steps.unprinted(record);
  await printer?.end(interrupt.signal.aborted ? '' : output, record.state === 'completed');
  interrupt.release();
  return finish({ record, output, json, stdout, interrupted: interrupt.signal.aborted });
}

/** How long a run is followed while the daemon is lost again and again. */
export async function configuredPatience({ config }: Context['paths']): Promise<number> {
  const { limitsOf } = await import('../config/limits.ts');
  return limitsOf(config).reconnect_ms;
}

export interface Printing extends Steps {
  accepted(run: Run): void;
  /** The answer, but for what was printed on the way. */
  unprinted(record: Run): string;
}

/**
 * What is printed on the way, up to `stop`, and what is gathered for the end.
 *
 * 1. The answer is what its events told. What the record holds may be less, since history can be kept without some of it; it
 *    counts only where no event told anything.
 * 2. An answer that may be asked again from its beginning is printed at its end only.
 */
export function printing(live: AnswerPrinter | null, json: boolean, stop: AbortSignal): Printing {
  let printer = live;
  let told = false;
  let gathered: string[] = [];
  const line = new AwayLine(() => live?.leaveLine() === true);
  return {
    accepted: (run) => {
      if (run.recovery === 'restart') printer = null;
    },
    output: (text) => {
      told = true;
      if (printer === null) gathered.push(text);
      else if (!stop.aborted) return printer.append(text);
      return undefined;
    },
    discarded: () => {
      gathered = [];
      if (!json) note('The run is asked again from its beginning.');
    },
    waiting: (position) =>
      json || !isTerminal(2) || note(`Waiting in the queue, at place ${position}.`),
    away: () => json || line.begin(),
    back: () => line.end(),
    unprinted: (record) => (told ? gathered.join('') : record.output),
  };
}

export interface Finished {
  record: Run;
  /** The answer as --json shows it. */
  output: string;
  json: boolean;
  stdout: StdoutStream;
  interrupted: boolean;
}

export function finish({ record, output, json, stdout, interrupted }: Finished): number {
  if (stdout.gone.aborted) return 0;
  if (json) printJson({ ...record, output });
  const { exit, error } = ending(record);
  // Whoever has just pressed Ctrl-C needs no advice.
  if (interrupted && !json && error?.code === 'run_cancelled') note(oneLine(error.message));
  else if (error !== null) printError(error, json);
  return exit;
}
