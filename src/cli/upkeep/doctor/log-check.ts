import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { lastError } from '../../terminal/connect/last-error.ts';
import { bytes } from '../../terminal/print/format.ts';
import { type Check, type DoctorContext, ok, warn } from './check.ts';

export async function checkLogs({ paths }: DoctorContext): Promise<Check[]> {
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

/** The stderr of the daemon is empty unless something broke. */
export async function checkStderr({ paths }: DoctorContext): Promise<Check[]> {
  const text = (await readFile(paths.stderr, 'utf8').catch(() => '')).trim();
  if (text === '') return [];
  return [
    warn(
      'stderr',
      text.split('\n').slice(-LINES).join(' | ').slice(-LENGTH),
      `All of it is in ${paths.stderr}`,
    ),
  ];
}

/** Why the last daemon ended. A failing disk is reported only here, not in the event log. */
export async function checkLastError({ paths, running }: DoctorContext): Promise<Check[]> {
  if (running !== null) return [];
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
