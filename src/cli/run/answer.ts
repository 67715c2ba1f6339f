import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { anySignal } from '../../async/signals.ts';
import type { Paths } from '../../home/paths.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import { keyOfThisShell } from '../terminal/connect/shell-key.ts';
import type { Context } from '../terminal/context.ts';
import { onInterrupt } from '../terminal/interrupt.ts';
import { note, paint } from '../terminal/print/output.ts';
import type { StdoutStream } from '../terminal/print/stdout-stream.ts';
import { starterOf } from './ensure-daemon.ts';
import { followRun, type Run } from './follow.ts';
import { AnswerPrinter, createPrinting, finish, isAnswered } from './print-answer.ts';
import type { ToolLines } from './tool-lines.ts';

/** A request to start a run, with the key under which it can be sent again. */
export type Input = Record<string, unknown> & { idempotency_key: string };

/**
 * With the key, a start whose answer was lost can be sent again. No other request has this key. It
 * is no secret, and node:crypto is slow to load.
 */
export function newKey(): string {
  const digits = (count: number) =>
    Array.from({ length: count }, () => Math.floor(Math.random() * 16).toString(16)).join('');
  return `svc-run-${[8, 4, 4, 4, 12].map(digits).join('-')}`;
}

export interface AnswerOutcome {
  record: Run;
  /** The exit code of the outcome. */
  exit: number;
}

/**
 * Starts a run and prints its answer. Ctrl-C and a closed stdout cancel the run. A user hears of it
 * if the run has not stopped `quiet_ms` later.
 */
export async function answerTo(
  context: Context,
  input: Input,
  stdout: StdoutStream,
  quiet_ms = 0,
): Promise<AnswerOutcome> {
  const say = () => context.json || note('Cancelling; Ctrl-C again leaves at once.');
  let later: NodeJS.Timeout | undefined;
  const interrupt = onInterrupt(() => {
    if (quiet_ms === 0) say();
    else later = setTimeout(say, quiet_ms);
  });
  try {
    return await follow(context, input, stdout, interrupt.signal);
  } finally {
    clearTimeout(later);
    interrupt.release();
  }
}

async function follow(
  context: Context,
  input: Input,
  stdout: StdoutStream,
  interrupt: AbortSignal,
): Promise<AnswerOutcome> {
  const { flags, json, paths } = context;
  const printer = json ? null : new AnswerPrinter(stdout);
  const cancel = anySignal([interrupt, stdout.gone]);
  const steps = createPrinting(flags['no-stream'] === true ? null : printer, json, cancel);
  const accepted = (run: Run) => {
    steps.onAccepted(run);
    if (!json) noteBuiltIn(run, paths);
    if (!json) noteTurns(turnsText(run.turns_of));
  };
  let tools: ToolLines | undefined;
  const tool: NonNullable<typeof steps.onToolEvent> = async (run_id, type, data) => {
    await steps.onToolEvent?.(run_id, type, data);
    if (!json && type !== 'run.turn_completed') {
      tools ??= new (await import('./tool-lines.ts')).ToolLines(paths);
      tools.hear(run_id, type, data);
    }
  };
  // Ctrl-C at a question of a tool ends the run, and so the question.
  cancel.addEventListener('abort', () => tools?.close(), { once: true });
  const ended = () => {
    tools?.close();
    steps.onEnd?.();
  };
  const record = await followRun({
    paths,
    what: { start: input },
    cancel,
    steps: { ...steps, onAccepted: accepted, onToolEvent: tool, onEnd: ended },
    startDaemon: starterOf(context),
    patience: async () =>
      typeof input.timeout_ms === 'number' ? input.timeout_ms : configuredPatience(paths),
  }).catch(async (error: unknown) => {
    await printer?.end('', false);
    throw error;
  });
  const output = steps.unprintedOf(record);
  await printer?.end(interrupt.aborted ? '' : output, isAnswered(record));
  if (!json) await noteBase(record, paths);
  const shown = await withReason(record, input, paths);
  const { hasText, maxTokens } = steps;
  const interrupted = interrupt.aborted;
  const stats = flags.stats === true;
  const seen = { output, json, stdout, interrupted, stats, hasText, maxTokens };
  return { record: shown, exit: finish({ record: shown, ...seen }) };
}

/**
 * A run that failed for want of a key that this shell has says so. A run without a provider says
 * that the default one failed.
 */
async function withReason(record: Run, input: Input, paths: Paths): Promise<Run> {
  const { error, provider: id } = record;
  if (error?.code.startsWith('provider_') !== true) return record;
  const isAboutKey = error.code === 'provider_unauthorised';
  const isUnnamed = id !== LOCAL && !isNamed(id, input);
  if (!isAboutKey && !isUnnamed) return record;
  const { providers } = await askDaemon(paths, 'provider.list', {}, { timeout_ms: LIST_MS }).catch(
    () => ({ providers: [] }),
  );
  const provider = providers.find((each) => each.id === id);
  if (provider === undefined) return record;
  const own = isAboutKey ? keyOfThisShell(provider, paths) : null;
  if (own !== null) return { ...record, error: own.body() };
  if (!provider.default || !isUnnamed) return record;
  const message = `${id} was called because it is your default provider. ${error.message}`;
  const hint = `${error.hint} To choose another default: svc provider default local`;
  return { ...record, error: { ...error, message, hint } };
}

const LOCAL = 'local';
/** The daemon has the list in memory. */
const LIST_MS = 3_000;

/** Whether the request itself names the provider. */
function isNamed(id: string, { provider, model, cloud, conversation }: Input): boolean {
  const models = Array.isArray(model) ? model : [model];
  const names = models.some((name) => name === id || String(name).startsWith(`${id}/`));
  return names || provider !== undefined || cloud === true || conversation !== undefined;
}

/** How long a run is followed while the daemon is lost repeatedly. */
export async function configuredPatience({ config }: Context['paths']): Promise<number> {
  const { limitsOf } = await import('../terminal/offline/limits.ts');
  return limitsOf(config).reconnect_ms;
}

/** Says once that the conversation has turns of other programs. */
function noteTurns(text: string): void {
  if (text !== '' && text !== noted) note(`This conversation ${text}.`);
  noted = text;
}
let noted = '';

/** Empty if no program asked a turn. */
export function turnsText(turns_of: readonly string[] = []): string {
  return turns_of.length === 0 ? '' : `has turns of the token ${turns_of.join(', ')}`;
}

/** Says once, at a terminal, that the model has no form of a conversation. */
async function noteBase({ provider, model }: Run, paths: Paths): Promise<void> {
  if (provider !== LOCAL || !process.stderr.isTTY || isBaseNoted) return;
  const { models } = await askDaemon(paths, 'model.ps', {}, { timeout_ms: LIST_MS }).catch(() => ({
    models: [],
  }));
  const base = models.some((each) => each.name === model && each.chat_template === 'none');
  if (!base) return;
  isBaseNoted = true;
  note(paint('dim', BASE, 2));
}
let isBaseNoted = false;
const BASE = 'base model: it continues text';

const BUILT_IN = /^(local\/)?svc-mini$/;

/** Says once per home that the built-in model is small, and how to use another. */
function noteBuiltIn({ provider, model }: Run, paths: Paths): void {
  if (provider !== 'local' || !BUILT_IN.test(model)) return;
  try {
    mkdirSync(paths.cache, { recursive: true, mode: 0o700 });
    writeFileSync(join(paths.cache, 'built-in-noted'), '', { flag: 'wx', mode: 0o600 });
  } catch {
    // The warning was printed before, or the file cannot be written. Do not repeat it.
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
