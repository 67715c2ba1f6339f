import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { openLogs } from '../../logs/files.ts';
import { bytes } from '../format.ts';
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
  return [warn('last words', text.split('\n').slice(-LINES).join(' | ').slice(-LENGTH), `The whole is in ${paths.stderr}`)];
}

/** Why the last daemon ended, if it said so: a log that takes no event, such as on a disk that fails, is told only here. */
export async function checkLastError({ paths, alive }: Patient): Promise<Check[]> {
  if (alive !== null) return [];
  const lines = await lastLines(paths.logs);
  const boot_id = lines.at(-1)?.boot_id;
  const error = lines.findLast((line) => line.level === 'error' && typeof line.code === 'string' && line.boot_id === boot_id);
  if (error === undefined) return [];
  return [warn('last error', `${String(error.msg)} (${error.code}, ${String(error.time)})`, 'See: svc logs --level error')];
}

async function lastLines(folder: string): Promise<Record<string, unknown>[]> {
  const sources = openLogs(folder);
  try {
    const [newest] = sources;
    if (newest === undefined) return [];
    const start = Math.max(0, newest.size - END_BYTES);
    const text = (await newest.read(start, newest.size - start)).toString('utf8');
    return text.split('\n').flatMap(parseLine);
  } finally {
    for (const source of sources) source.close();
  }
}

/** The first line may be cut. */
function parseLine(line: string): Record<string, unknown>[] {
  try {
    return [JSON.parse(line) as Record<string, unknown>];
  } catch {
    return [];
  }
}

const END_BYTES = 65_536;
const LINES = 3;
const LENGTH = 400;
