import { type ControlClient, connect } from '../../control/client.ts';
import type { Results } from '../../control/results.ts';
import { SvcError } from '../../errors.ts';
import type { Context } from '../context.ts';
import { onInterrupt } from '../interrupt.ts';
import { note, print, printError, printJson } from '../output.ts';
import { openStdout, type StdoutStream } from '../stdout-stream.ts';
import { ending } from './ending.ts';
import { noteBuiltIn } from './note-built-in.ts';
import { AnswerPrinter } from './print-answer.ts';
import { readPrompt } from './read-prompt.ts';
import { ready } from './ready.ts';
import { readRunInput } from './run-input.ts';

type Run = Results['run.get'];

/**
 * Asks, and prints the answer as it is made.
 *
 * 1. The work goes on for as long as somebody waits for it: Ctrl-C, and a reader of stdout who leaves, cancel the run.
 * 2. After Ctrl-C the command ends when the work has stopped; a second Ctrl-C does not wait for that.
 * 3. The exit code tells the end of the run.
 */
export async function run(context: Context): Promise<number> {
  const { args, flags, paths, json } = context;
  const input = readRunInput(flags);
  const prompt = await readPrompt(args[0], paths);
  await ready(context);
  const client = await connect(paths.socket);
  try {
    return flags.detach === true ? await detach(client, { ...input, prompt }, json) : await answer(client, { ...input, prompt }, context);
  } finally {
    client.close();
  }
}

async function detach(client: ControlClient, input: Record<string, unknown>, json: boolean): Promise<number> {
  const record = await client.call('run.start', input);
  if (json) printJson(record);
  else print(record.id);
  return 0;
}

async function answer(client: ControlClient, input: Record<string, unknown>, { flags, json, paths }: Context): Promise<number> {
  const interrupt = onInterrupt(() => json || note('Cancelling; Ctrl-C again leaves at once.'));
  const stdout = openStdout();
  const printer = json ? null : new AnswerPrinter(stdout);
  const live = flags['no-stream'] === true ? null : printer;
  const record = await follow(client, input, AbortSignal.any([interrupt.signal, stdout.gone]), {
    accepted: (run) => json || noteBuiltIn(run, paths),
    output: (text) => live?.append(text),
  }).catch(async (error: unknown) => {
    await printer?.end('', false);
    throw error;
  });
  await printer?.end(interrupt.signal.aborted ? '' : record.output, record.state === 'completed');
  interrupt.release();
  return finish(record, json, stdout, interrupt.signal.aborted);
}

interface Steps {
  accepted(run: Run): void;
  output(text: string): Promise<void> | undefined;
}

/** From the start of the run to its end. What stops the work is sent once the run is known; the end is waited for all the same. */
async function follow(client: ControlClient, input: Record<string, unknown>, stop: AbortSignal, steps: Steps): Promise<Run> {
  const stream = client.stream('run.start', { ...input, stream: true });
  let id = '';
  const cancel = () => void client.call('run.cancel', { id }, { timeout_ms: CANCEL_MS }).catch(() => {});
  for await (const event of stream) {
    if ('run' in event) {
      id = event.run.id;
      if (stop.aborted) cancel();
      stop.addEventListener('abort', cancel);
      steps.accepted(event.run);
    } else if (event.type === 'run.output_appended' && !stop.aborted) await steps.output(String(event.data.text ?? ''));
  }
  return stream.result.catch((error: unknown) => {
    if (id === '' || !(error instanceof SvcError) || error.code !== 'connection_lost') throw error;
    throw new SvcError('connection_lost', error.message, { cause: error.cause, hint: `What it kept of the run: svc start, then svc runs show ${id}` });
  });
}

/** Above the longest grace that the daemon can be configured to give the work. */
const CANCEL_MS = 660_000;

function finish(record: Run, json: boolean, stdout: StdoutStream, interrupted: boolean): number {
  if (stdout.gone.aborted) return 0;
  if (json) printJson(record);
  const { exit, error } = ending(record);
  // Whoever has just pressed Ctrl-C needs no advice.
  if (interrupted && !json && error?.code === 'run_cancelled') note(error.message);
  else if (error !== null) printError(error, json);
  return exit;
}
