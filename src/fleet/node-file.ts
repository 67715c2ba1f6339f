import { readFileSync } from 'node:fs';
import { whyUnusable } from '../causes.ts';
import { SvcError } from '../errors.ts';
import { writeAtomic } from '../home/atomic-write.ts';

/** What a home knows of its node. Only a daemon with a shared log has the file. */
export interface NodeFile {
  /** The name of this home in its fleet. It never changes. */
  node_id: string;
  /** The last boot that joined, and the boot of the system that it ran in. */
  boot_id: string | null;
  host_boot_id: string | null;
}

/** Null if there is no file. Throws home_unusable. */
export function readNodeFile(path: string): NodeFile | null {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw unusable(path, `it cannot be read: ${whyUnusable(cause)}`, cause);
  }
  const file = parseNodeFile(text);
  if (file === null) throw unusable(path, 'it was not written by svc');
  return file;
}

/** Mode 0600, replaced at once, and on disk before it returns. Throws home_unusable. */
export async function writeNodeFile(path: string, file: NodeFile): Promise<void> {
  try {
    await writeAtomic(path, `${JSON.stringify(file, null, 2)}\n`, { sync: true });
  } catch (cause) {
    throw unusable(path, `it cannot be written: ${whyUnusable(cause)}`, cause);
  }
}

function parseNodeFile(text: string): NodeFile | null {
  try {
    const { node_id, boot_id, host_boot_id } = JSON.parse(text) as Record<string, unknown>;
    const isName = (value: unknown) => value === null || typeof value === 'string';
    return typeof node_id === 'string' && node_id !== '' && isName(boot_id) && isName(host_boot_id)
      ? ({ node_id, boot_id, host_boot_id } as NodeFile)
      : null;
  } catch {
    return null;
  }
}

function unusable(path: string, problem: string, cause?: unknown): SvcError {
  return new SvcError('home_unusable', `The file of this node, ${path}, is unusable: ${problem}.`, {
    cause,
    hint: 'Correct its owner and mode. Without the file, the daemon joins its fleet as a new node.',
  });
}
