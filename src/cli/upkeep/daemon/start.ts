import { readFileSync, statSync } from 'node:fs';
import { isOpenInClear } from '../../../config/address.ts';
import { SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { oneLine } from '../../../logs/plain.ts';
import type { Context } from '../../terminal/context.ts';
import { secondsFlag } from '../../terminal/parse/flag-values.ts';
import { daemonText } from '../../terminal/print/format.ts';
import { hasColour, note, print, printJson, warn } from '../../terminal/print/output.ts';
import { settingFlags } from './serve.ts';
import { type DaemonStart, type StartOptions, startDaemon, WAIT } from './start-daemon.ts';

export async function run({ paths, flags, json }: Context): Promise<number> {
  const wait_ms = secondsFlag(flags, 'wait', WAIT) ?? WAIT.default_ms;
  const settings = settingFlags(flags);
  const replace = flags.replace === true;
  const started = await startOrExplain({ paths, flags: settings, wait_ms, replace }, () => !json);
  printStarted(started, json);
  if (!started.started) noteNotApplied(settings);
  return 0;
}

export function printStarted({ status, started }: DaemonStart, json: boolean): void {
  if (json) {
    printJson({ ...status, started });
    return;
  }
  const takesRuns = !/^running\.disk_/.test(status.state_path);
  const state = started
    ? takesRuns
      ? 'svc is ready'
      : 'svc has started'
    : 'svc is running already';
  print(`${state} (pid ${status.pid}).`);
  if (!takesRuns)
    note(`It takes no runs: ${daemonText(oneLine(status.state_path))}. See why: svc status`);
  print(
    [
      status.addresses.http && `  http  ${oneLine(status.addresses.http)}`,
      status.addresses.grpc && `  grpc  ${oneLine(status.addresses.grpc)}`,
    ]
      .filter(Boolean)
      .join('\n'),
  );
  if (started && status.warning != null) warn(status.warning);
  if (status.addresses.http !== null && isOpenInClear(status.addresses.http))
    note('Other machines can reach this address, and tokens and prompts can be read on the way.');
}

/** A running daemon keeps its settings until a restart. */
function noteNotApplied(settings: StartOptions['flags']): void {
  const words = Object.entries(settings).map(
    ([name, value]) => `--${name.replaceAll('_', '-')} ${value}`,
  );
  if (words.length > 0)
    note(
      `Not applied, because svc is running already: ${words.join(' ')}. To apply: ` +
        `svc restart ${words.join(' ')}`,
    );
}

/**
 * Adds the last lines of the daemon's log to the error of a failed start. `isShown`: they are
 * printed too.
 */
export async function startOrExplain(
  options: StartOptions,
  isShown: (error: SvcError) => boolean,
): Promise<DaemonStart> {
  const before = { at: Date.now(), bytes: sizeOf(options.paths.stderr) };
  try {
    return await startDaemon(options);
  } catch (error) {
    const log = await readWrittenSince(options.paths, before, error).catch(() => []);
    if (!(error instanceof SvcError) || log.length === 0) throw error;
    if (isShown(error)) note(log.join('\n'));
    const { cause, hint, param, details } = error;
    throw new SvcError(error.code, error.message, {
      cause,
      hint,
      details: { ...details, log },
      ...(param === null ? {} : { param }),
    });
  }
}

const LINES = 10;

/** The log of the daemon; its stderr if it could not log. */
async function readWrittenSince(
  paths: Paths,
  { at, bytes }: { at: number; bytes: number },
  error: unknown,
): Promise<string[]> {
  const { readTail } = await import('../../../logs/tail.ts');
  const { readLine } = await import('../../../logs/filter.ts');
  const { createLineFormat } = await import('../../../logs/format-line.ts');
  const { terminalColumns } = await import('../../../logs/width.ts');
  const lines = await readTail(paths.logs, { lines: LINES, since: at, level: 'warn' });
  const form = createLineFormat({
    colour: hasColour(2),
    columns: () => terminalColumns(process.stderr),
  });
  const isRepeat = (line: string) => {
    return error instanceof SvcError && readLine(line)?.code === error.code;
  };
  if (lines.length > 0) return lines.filter((line) => !isRepeat(line)).map(form);
  const text = readFileSync(paths.stderr).subarray(bytes).toString('utf8').trimEnd();
  return text === '' ? [] : text.split('\n').slice(-LINES).map(oneLine);
}

/** The code that opens the file reports its problems. */
function sizeOf(file: string): number {
  try {
    return statSync(file).size;
  } catch {
    return 0;
  }
}
