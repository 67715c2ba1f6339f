import { openLogs } from '../../../logs/files.ts';

/**
 * The last error in the log file of the last daemon; the event log may lack it. Null also for a log
 * that cannot be read.
 */
export async function lastError(folder: string): Promise<Record<string, unknown> | null> {
  const lines = await lastLines(folder).catch(() => []);
  const boot_id = lines.at(-1)?.boot_id;
  return lines.findLast((line) => line.boot_id === boot_id && isError(line)) ?? null;
}

/**
 * Why this boot of the daemon ended, as a sentence; null if its log does not say. Without an id:
 * the boot of the last line.
 */
export async function endOf(id: string | null, folder: string): Promise<string | null> {
  const all = await lastLines(folder).catch(() => []);
  const boot_id = id ?? all.at(-1)?.boot_id;
  const lines = all.filter((line) => line.boot_id === boot_id);
  const failure = lines.findLast((line) => line.failure !== undefined)?.failure;
  const error = lines.findLast((line) => isError(line) && line.code === failure);
  return error === undefined
    ? null
    : `It ended with an error: ${String(error.msg)} (${String(failure)})`;
}

function isError({ level, code }: Record<string, unknown>): boolean {
  return level === 'error' && typeof code === 'string';
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

/** Skips the first line if it is cut. */
function parseLine(line: string): Record<string, unknown>[] {
  try {
    return [JSON.parse(line) as Record<string, unknown>];
  } catch {
    return [];
  }
}

const END_BYTES = 65_536;
