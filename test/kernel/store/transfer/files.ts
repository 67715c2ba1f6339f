import { openSqliteSource } from '../../../../src/kernel/store/sqlite/export.ts';
import { openSqliteTarget } from '../../../../src/kernel/store/sqlite/import.ts';
import { exportLog } from '../../../../src/kernel/store/transfer/export.ts';
import { type ImportResult, importLog } from '../../../../src/kernel/store/transfer/import.ts';
import type { LogSource, LogTarget } from '../../../../src/kernel/store/transfer/port.ts';
import { defaultLimits, limitSpecs } from '../../../../src/limits.ts';
import { foldRows } from '../../../../src/observability/history/fold-rows.ts';
import type { Place } from '../samples.ts';

type Files = Pick<Place, 'database' | 'highWater'>;

/** The small reserve makes an open quick. */
export const limits = { ...defaultLimits, reserve_bytes: limitSpecs.reserve_bytes.min };

export function sourceOf({ database, highWater }: Files): LogSource {
  const source = openSqliteSource({ database, highWater, limits });
  if (source === null) throw new Error('there is no log');
  return source;
}

export function targetOf({ database, highWater }: Files): LogTarget {
  return openSqliteTarget({ database, highWater, limits });
}

/** The text of a log. Closes the source. */
export async function textOf(source: LogSource): Promise<string> {
  const pieces: string[] = [];
  try {
    for await (const piece of exportLog(source, { program: '1.0.0', now: 0 })) pieces.push(piece);
  } finally {
    await source.close();
  }
  return pieces.join('');
}

/** Imports a text in chunks of some bytes. Closes the target. */
export async function take(
  target: LogTarget,
  text: string | Uint8Array,
  chunk = 65_536,
): Promise<ImportResult> {
  const bytes = Buffer.from(text);
  const file = async function* () {
    for (let at = 0; at < bytes.length; at += chunk) yield bytes.subarray(at, at + chunk);
  };
  try {
    return await importLog(file(), { target, folder: foldRows() });
  } finally {
    await target.close();
  }
}

/** Two stores with the same log have the same text after the header. */
export function afterHeader(text: string): string {
  return text.slice(text.indexOf('\n') + 1);
}
