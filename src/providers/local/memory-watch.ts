import { readFile } from 'node:fs/promises';
import { filesOfModel } from '../../models/gguf/parts.ts';

/**
 * Watches the private memory of a process. Weights mapped from the model file do not count, which
 * only Linux can separate.
 *
 * 1. `onExceeded` is called at most once, and never after `stop`.
 * 2. One reading runs at a time. Readings are more frequent once half of the bound is used.
 */
export class MemoryWatch {
  private readonly pid: number;
  private readonly onExceeded: (used_bytes: number) => void;
  private timer: NodeJS.Timeout | null = null;
  private stopped = false;

  constructor(
    pid: number,
    { path, memoryBytes }: { path: string; memoryBytes: number },
    onExceeded: (used_bytes: number) => void,
  ) {
    this.pid = pid;
    this.onExceeded = onExceeded;
    if (process.platform === 'linux') void this.begin(path, memoryBytes);
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer ?? undefined);
  }

  /** Adds the size of the file on disk: repacked weights need about that much. */
  private async begin(path: string, memoryBytes: number): Promise<void> {
    const found = await filesOfModel(path).catch(() => null);
    await this.look(memoryBytes + (found?.disk_bytes ?? 0));
  }

  private async look(bound: number): Promise<void> {
    const used = await ownMemory(this.pid);
    if (this.stopped) return;
    if (used > bound) {
      this.stop();
      this.onExceeded(used);
    } else
      this.timer = setTimeout(
        () => void this.look(bound),
        used > bound / 2 ? SOON_MS : LATER_MS,
      ).unref();
  }
}

const SOON_MS = 100;
const LATER_MS = 500;

/** Private bytes in memory and in swap. 0: the process has exited. */
async function ownMemory(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const kib = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0);
  return (kib('RssAnon') + kib('VmSwap')) * 1024;
}
