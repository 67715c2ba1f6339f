import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { lastError } from '../connect/last-error.ts';
import { bytes } from '../print/format.ts';
import { type Check, ok, type Patient, warn } from './check.ts';

export async function checkLogs({ paths }: Patient): Promise<Check[]> {
  const names = await readdir(paths.logs).catch(() => null);
  if (names === null) return [];
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(paths.logs, name)).then(
        (info) => info.size,
        () => 0,
      ),
    ),
  );
  return [ok('logs', `${bytes(sizes.reduce((sum, size) => sum + size, 0))} in ${paths.logs}`)];
}

/** What the process wrote when it could not log: it is empty unless something broke. */
export async function checkLastWords({ paths }: Patient): Promise<Check[]> {
  const text = (await readFile(paths.stderr, 'utf8').catch(() => '')).trim();
  if (text === '') return [];
  return [
    warn(
      'last words',
      text.split('\n').slice(-LINES).join(' | ').slice(-LENGTH),
      `The whole is in ${paths.stderr}`,
    ),
  ];
}

/** Why the last daemon ended, if it said so: a log that takes no event, such as on a disk that fails, is told only here. */
export async function checkLastError({ paths, alive }: Patient): Promise<Check[]> {
  if (alive !== null) return [];
  const error = await lastError(paths.logs);
  if (error === null) return [];
  return [
    warn(
      'last error',
      `${String(error.msg)} (${error.code}, ${String(error.time)})`,
      'See: svc logs --level error',
    ),
  ];
}

const LINES = 3;
const LENGTH = 400;
