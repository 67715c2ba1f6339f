import { spawnSync } from 'node:child_process';
import { appendFileSync, chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeLater } from './opened.ts';

/** A small disk that a test fills and frees. */
export interface Disk {
  folder: string;
  fill(): void;
  free(): void;
  unmount(): Promise<void>;
}

export function mountDisk(): Disk {
  const folder = mkdtempSync(join(tmpdir(), 'svc-disk-'));
  const { status } = spawnSync('mount', [
    '-t',
    'tmpfs',
    '-o',
    'size=24m,mode=700',
    'tmpfs',
    folder,
  ]);
  if (status !== 0) {
    rmSync(folder, { recursive: true });
    throw new Error('mounting is not permitted here');
  }
  chmodSync(folder, 0o700);
  const ballast = join(folder, 'ballast');
  return {
    folder,
    fill: () => {
      for (const bytes of [256 * 1024, 4096]) while (take(ballast, bytes));
    },
    free: () => rmSync(ballast, { force: true }),
    unmount: closeLater(() => {
      // Lazily, since a test that failed may have left its daemon running.
      spawnSync('umount', ['-l', folder]);
      rmSync(folder, { recursive: true, force: true });
    }),
  };
}

/** False when there is no space for so many bytes more. */
function take(file: string, bytes: number): boolean {
  try {
    appendFileSync(file, Buffer.alloc(bytes));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false;
    throw error;
  }
}

/** Whether mounting is permitted here. */
export const canMount = await tryToMount();

async function tryToMount(): Promise<boolean> {
  try {
    await mountDisk().unmount();
    return true;
  } catch {
    return false;
  }
}
