import { randomUUID } from 'node:crypto';
import { hasCode, SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { onInterrupt } from '../interrupt.ts';
import { isTerminal, note, print, printError, printJson } from '../print/output.ts';
import { openStdout, type StdoutStream } from '../print/stdout-stream.ts';
import { DisconnectLine } from './disconnect-line.ts';
import { ending } from './ending.ts';
import { ensureDaemon } from './ensure-daemon.ts';
import { followRun, isAbsent, type Run, type Steps } from './follow.ts';
import { noteBuiltIn } from './note-built-in.ts';
import { AnswerPrinter } from './print-answer.ts';
import { readPrompt } from './read-prompt.ts';
import { readRunInput } from './run-input.ts';

type Input = Record<string, unknown> & { idempotency_key: string };

/**
 * Starts a run and prints its answer as it arrives.
 *
 * 1. Ctrl-C and a closed stdout cancel the run.
 * 2. After Ctrl-C the command ends when the work has stopped. A second Ctrl-C ends it at once.
 * 3. A daemon that dies meanwhile is started again, and the answer is complete and without repeats.
 * 4. The exit code is the outcome of the run.
 */
export async function run(context: Context): Promise<number> {
  const { args, flags } = context;
  const given = readRunInput(flags);
  if (flags.detach === true && flags['cancel-on-disconnect'] === true)
    throw new SvcError(
      'usage',
      '--detach and --cancel-on-disconnect exclude each other: with --detach no client waits.',
    );
  const prompt = await readPrompt(args[0], context.paths);
  // With the key, a start whose answer was lost can be sent again. No other request has this key.
  const input: Input = { idempotency_key: `svc-run-${randomUUID()}`, ...given, prompt };
  return flags.detach === true ? detach(context, input) : answer(context, input);
}

async function detach(context: Context, input: Input): Promise<number> {
  const { paths, flags, json } = context;
  const start = () => askDaemon(paths, 'run.start', input);
  const record = await start().catch(async (error: unknown) => {
    const mayStart = flags['no-start'] !== true;
    if (!hasCode(error, 'connection_lost') && !(mayStart && isAbsent(error))) throw error;
    if (mayStart) await ensureDaemon(context);
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
    paths,
    what: { start: input },
    cancel,
    steps: { ...steps, accepted },
    startDaemon:
      flags['no-start'] === true
        ? null
        : (reason) => ensureDaemon(context, { quiet: json || reason === 'lost' }),
    patience: async () =>
      typeof input.timeout_ms === 'number' ? input.timeout_ms : configuredPatience(paths),
  }).catch(async (error: unknown) => {
    await printer?.end('', false);
    throw error;
  });
  const output = steps.unprinted(record);
  await printer?.end(interrupt.signal.aborted ? '' : output, isAnswered(record));
  interrupt.release();
  return finish({ record, output, json, stdout, interrupted: interrupt.signal.aborted });
}

/** How long a run is followed while the daemon is lost repeatedly. */
export async function configuredPatience({ config }: Context['paths']): Promise<number> {
  const { limitsOf } = await import('../config/limits.ts');
  return limitsOf(config).reconnect_ms;
}

export interface Printing extends Steps {
  accepted(run: Run): void;
  /** The part of the answer that was not printed yet. */
  unprinted(record: Run): string;
}

/**
 * Prints the answer until `stop`, and collects what is printed at the end.
 *
 * 1. The answer comes from the events. The record may have less of it, because the log can omit
 *    output; it is used only if no event had output.
 * 2. The answer of a run that may start again is printed at the end only.
 */
export function printing(live: AnswerPrinter | null, json: boolean, stop: AbortSignal): Printing {
  let printer = live;
  let hadOutput = false;
  let collected: string[] = [];
  const line = new DisconnectLine(() => live?.leaveLine() === true);
  return {
    accepted: (run) => {
      if (run.recovery === 'restart') printer = null;
    },
    output: (text) => {
      hadOutput = true;
      if (printer === null) collected.push(text);
      else if (!stop.aborted) return printer.append(text);
      return undefined;
    },
    discarded: () => {
      collected = [];
      if (!json) note('The run starts again from the beginning.');
    },
    waiting: (position) => json || !isTerminal(2) || note(`Waiting in the queue (${position}).`),
    onDisconnect: () => json || line.begin(),
    onReconnect: () => line.end(),
    unprinted: (record) => (hadOutput ? collected.join('') : record.output),
  };
}

/** Whether the answer is complete and is text. An empty text is printed as an empty line. */
export function isAnswered({ state, output, output_parts }: Run): boolean {
  return state === 'completed' && (output !== '' || output_parts === undefined);
}

/** What a complete answer without text is instead. */
function noteSilence({ id, state, output, output_parts = [] }: Run): void {
  if (state !== 'completed' || output !== '' || output_parts.length === 0) return;
  const names = output_parts.flatMap((part) => (part.type === 'tool_call' ? [part.name] : []));
  const did =
    names.length > 0
      ? `The model called ${names.length === 1 ? 'the tool' : 'the tools'} ${names.join(', ')}`
      : output_parts.some(({ type }) => type === 'refusal')
        ? 'The model refused to answer'
        : 'The model wrote only its reasoning';
  note(oneLine(`${did}. See: svc runs show ${id}`));
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
  else if (output === '') noteSilence(record);
  const { exit, error } = ending(record);
  // After Ctrl-C a hint is noise.
  if (interrupted && !json && error?.code === 'run_cancelled') note(oneLine(error.message));
  else if (error !== null) printError(error, json);
  return exit;
}
