import { hasCode, SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { listFlag, textFlag } from '../terminal/parse/flag-values.ts';
import { isTerminal, print, printJson } from '../terminal/print/output.ts';
import { openStdout } from '../terminal/print/stdout-stream.ts';
import { answerTo, type Input, newKey } from './answer.ts';
import { starterOf } from './ensure-daemon.ts';
import { isAbsent } from './follow.ts';
import { readFormat, readPrompt, readRunInput, withFiles } from './run-input.ts';
import { withTargetOfShell } from './target-of-shell.ts';

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
  if (isChat(context)) return (await import('../chat/chat.ts')).run(context);
  const fromFlags = readRunInput(flags);
  if (flags.detach === true && flags['cancel-on-disconnect'] === true)
    throw new SvcError(
      'usage',
      '--detach and --cancel-on-disconnect exclude each other: with --detach no client waits.',
    );
  const optional = flags.file !== undefined;
  const prompt = await readPrompt(args, context.paths, { optional });
  const format = await readFormat(flags, context.paths);
  const preset = await presetOf({ ...fromFlags, ...format, prompt }, context);
  const target = await withTargetOfShell(preset, context.paths);
  const request = await withFiles(target, listFlag(flags, 'file'), context.paths);
  const input: Input = { idempotency_key: newKey(), ...request };
  if (flags.detach === true) return detach(context, input);
  return (await answerTo(context, input, openStdout())).exit;
}

/** The request with the preset of --preset. */
async function presetOf<T extends Record<string, unknown> & { prompt: string }>(
  input: T,
  { flags, paths }: Context,
): Promise<T> {
  const name = textFlag(flags, 'preset');
  if (name === undefined) return input;
  const { withPreset } = await import('./preset.ts');
  return withPreset(input, name, paths);
}

async function detach(context: Context, input: Input): Promise<number> {
  const { paths, json } = context;
  const start = () => askDaemon(paths, 'run.start', input);
  const record = await start().catch(async (error: unknown) => {
    const startDaemon = starterOf(context);
    if (!hasCode(error, 'connection_lost') && (startDaemon === null || !isAbsent(error)))
      throw error;
    await startDaemon?.('absent');
    return start();
  });
  if (json) printJson(record);
  else print(oneLine(record.id));
  return 0;
}

/**
 * A user at a terminal who gives no prompt wants to type it. A flag that only one request can have
 * still wants its prompt on the command line.
 */
function isChat({ args, flags, json }: Context): boolean {
  const gives = args.length > 0 || json || OF_ONE_REQUEST.some((name) => flags[name] !== undefined);
  return !gives && isTerminal(0) && isTerminal(1);
}

const OF_ONE_REQUEST = ['detach', 'file', 'preset', 'schema', 'idempotency-key'] as const;
