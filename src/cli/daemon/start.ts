import { SvcError } from '../../errors.ts';
import type { Paths } from '../../paths.ts';
import type { Context } from '../context.ts';
import { secondsFlag } from '../flag-values.ts';
import { note, print, printJson } from '../output.ts';
import { settingFlags } from './serve.ts';
import { type Started, type StartOptions, startDaemon, WAIT } from './start-daemon.ts';

export async function run({ paths, flags, json }: Context): Promise<number> {
  const wait_ms = secondsFlag(flags, 'wait', WAIT) ?? WAIT.default_ms;
  const started = await startOrExplain({ paths, flags: settingFlags(flags), wait_ms }, json);
  printStarted(started, json);
  return 0;
}

export function printStarted({ status, started }: Started, json: boolean): void {
  if (json) {
    printJson({ ...status, started });
    return;
  }
  print(`${started ? 'svc is ready' : 'svc is running already'} (pid ${status.pid}).`);
  print([status.addresses.http && `  http  ${status.addresses.http}`, status.addresses.grpc && `  grpc  ${status.addresses.grpc}`].filter(Boolean).join('\n'));
}

/** A start that fails shows the last that the daemon wrote. */
export async function startOrExplain(options: StartOptions, json: boolean): Promise<Started> {
  const since = Date.now();
  try {
    return await startDaemon(options);
  } catch (error) {
    const log = await lastLines(options.paths, since).catch(() => []);
    if (!(error instanceof SvcError) || log.length === 0) throw error;
    if (!json) {
      const { formatLine } = await import('../logs/format-line.ts');
      note(log.map((line) => formatLine(line, 2)).join('\n'));
    }
    throw new SvcError(error.code, error.message, {
      cause: error.cause,
      hint: error.hint,
      details: { ...error.details, log },
      ...(error.param === null ? {} : { param: error.param }),
    });
  }
}

const LINES = 10;

/** Its log since then, and where it could not log, what it wrote besides. */
async function lastLines(paths: Paths, since: number): Promise<string[]> {
  const { readTail } = await import('../../logs/tail.ts');
  const lines = await readTail(paths.logs, { lines: LINES, since });
  if (lines.length > 0) return lines;
  const { readFileSync, statSync } = await import('node:fs');
  if (statSync(paths.stderr).mtimeMs < since) return [];
  return readFileSync(paths.stderr, 'utf8').trimEnd().split('\n').slice(-LINES);
}
