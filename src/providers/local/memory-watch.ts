import { readFile } from 'node:fs/promises';
import { platform } from '../../home/platform.ts';
import { filesOfModel } from '../../models/index.ts';

export interface MemoryListener {
  /** The memory that the processes have now, their mapped files too. */
  onUsed(resident_bytes: number): void;
  /** Their private memory is beyond the bound. */
  onExceeded(private_bytes: number): void;
}

/**
 * Watches the memory of a process and of its descendants. Weights mapped from the model file do not
 * count against the bound, which only Linux can separate.
 *
 * 1. `onExceeded` is called at most once, and nothing after `stop`.
 * 2. One reading runs at a time. Readings are more frequent once half of the bound is used.
 */
export class MemoryWatch {
  private readonly pid: number;
  private readonly listener: MemoryListener;
  private timer: NodeJS.Timeout | null = null;
  private stopped = false;

  constructor(
    pid: number,
    { path, memoryBytes }: { path: string; memoryBytes: number },
    listener: MemoryListener,
  ) {
    this.pid = pid;
    this.listener = listener;
    if (platform.hasProc) void this.begin(path, memoryBytes);
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
    const { own, resident } = await memoryOf(this.pid);
    if (this.stopped) return;
    this.listener.onUsed(resident);
    if (own > bound) {
      this.stop();
      this.listener.onExceeded(own);
    } else
      this.timer = setTimeout(
        () => void this.look(bound),
        own > bound / 2 ? SOON_MS : LATER_MS,
      ).unref();
  }
}

const SOON_MS = 100;
const LATER_MS = 500;

/** Private bytes in memory and in swap, and all bytes in memory. 0: the process has exited. */
async function memoryOf(pid: number): Promise<{ own: number; resident: number }> {
  const all = await Promise.all(
    (await processTree(pid)).map(async (each) => {
      const status = await readFile(`/proc/${each}/status`, 'utf8').catch(() => '');
      return (field: string) =>
        1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0);
    }),
  );
  const sum = (...fields: string[]) =>
    all.reduce((total, bytes) => fields.reduce((more, field) => more + bytes(field), total), 0);
  return { own: sum('RssAnon', 'VmSwap'), resident: sum('VmRSS', 'VmSwap') };
}

/** The process and its descendants, up to a bound (Linux). */
export async function processTree(pid: number): Promise<number[]> {
  const all = [pid];
  for (let at = 0; at < all.length && all.length < PROCESSES_MAX; at += 1) {
    const file = `/proc/${all[at]}/task/${all[at]}/children`;
    const children = await readFile(file, 'utf8').catch(() => '');
    all.push(...children.split(' ').filter(Boolean).map(Number));
  }
  return all;
}

const PROCESSES_MAX = 256;
