import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasCode, SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import { keyOfThisShell } from '../connect/shell-key.ts';
import type { Context } from '../context.ts';
import { onInterrupt } from '../interrupt.ts';
import { textFlag } from '../parse/flag-values.ts';
import { note, print, printJson } from '../print/output.ts';
import { openStdout } from '../print/stdout-stream.ts';
import { starterOf } from './ensure-daemon.ts';
import { followRun, isAbsent, type Run } from './follow.ts';
import { AnswerPrinter, finish, isAnswered, printing } from './print-answer.ts';
import { readPrompt, readRunInput, withFiles } from './run-input.ts';
import { withTargetOfShell } from './target-of-shell.ts';

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
  const optional = flags.file !== undefined;
  const prompt = await readPrompt(args, context.paths, { optional });
  const target = withTargetOfShell(await presetOf({ ...given, prompt }, context));
  const asked = await withFiles(target, context);
  const input: Input = { idempotency_key: newKey(), ...asked };
  return flags.detach === true ? detach(context, input) : answer(context, input);
}

/** The request with the preset of --preset. */
async function presetOf<T extends Record<string, unknown> & { prompt: string }>(
  asked: T,
  { flags, paths }: Context,
): Promise<T> {
  const name = textFlag(flags, 'preset');
  if (name === undefined) return asked;
  const { withPreset } = await import('./preset.ts');
  return withPreset(asked, name, paths);
}

/**
 * With the key, a start whose answer was lost can be sent again. No other request has this key. It
 * is no secret, and node:crypto is slow to load.
 */
function newKey(): string {
  const digits = (count: number) =>
    Array.from({ length: count }, () => Math.floor(Math.random() * 16).toString(16)).join('');
  return `svc-run-${[8, 4, 4, 4, 12].map(digits).join('-')}`;
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
    startDaemon: starterOf(context),
    patience: async () =>
      typeof input.timeout_ms === 'number' ? input.timeout_ms : configuredPatience(paths),
  }).catch(async (error: unknown) => {
    await printer?.end('', false);
    throw error;
  });
  const output = steps.unprinted(record);
  await printer?.end(interrupt.signal.aborted ? '' : output, isAnswered(record));
  interrupt.release();
  const shown = await withOwnKey(record, paths);
  const { hasText, maxTokens } = steps;
  const interrupted = interrupt.signal.aborted;
  const stats = flags.stats === true;
  return finish({ record: shown, output, json, stdout, interrupted, stats, hasText, maxTokens });
}

/** A run that failed without a key which this shell has says so. */
async function withOwnKey(record: Run, paths: Paths): Promise<Run> {
  if (record.error?.code !== 'provider_unauthorised') return record;
  const { providers } = await askDaemon(paths, 'provider.list').catch(() => ({ providers: [] }));
  const provider = providers.find(({ id }) => id === record.provider);
  const own = provider === undefined ? null : keyOfThisShell(provider, paths);
  return own === null ? record : { ...record, error: own.body() };
}

/** How long a run is followed while the daemon is lost repeatedly. */
export async function configuredPatience({ config }: Context['paths']): Promise<number> {
  const { limitsOf } = await import('../config/limits.ts');
  return limitsOf(config).reconnect_ms;
}

const BUILT_IN = /^(local\/)?svc-mini$/;

/** Says once per home that the built-in model is small, and how to use another. */
function noteBuiltIn({ provider, model }: Run, paths: Paths): void {
  if (provider !== 'local' || !BUILT_IN.test(model)) return;
  try {
    mkdirSync(paths.cache, { recursive: true, mode: 0o700 });
    writeFileSync(join(paths.cache, 'built-in-noted'), '', { flag: 'wx', mode: 0o600 });
  } catch {
    // It was said before, or the file cannot be written. Do not repeat it for each prompt.
    return;
  }
  note(
    [
      'This is the built-in model: it is small and knows only svc.',
      'For a larger one: svc model pull qwen3:0.6b, then svc run "…" --model qwen3:0.6b.',
      'See also: svc model search, svc provider add --help',
    ].join(' '),
  );
}
