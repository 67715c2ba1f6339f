/** Memory of the process. `trouble` says why the figures are old: a new read failed. */
export interface MemoryUse {
  rss_bytes: number;
  heap_used_bytes: number;
  trouble: string | null;
}

let last = { rss_bytes: 0, heap_used_bytes: 0 };

/** A read opens a system file, so it fails without a free descriptor. Health must not fail then. */
export function memoryUse(read: () => NodeJS.MemoryUsage = process.memoryUsage): MemoryUse {
  try {
    const { rss, heapUsed } = read();
    last = { rss_bytes: rss, heap_used_bytes: heapUsed };
    return { ...last, trouble: null };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown reason';
    return {
      ...last,
      trouble:
        `The daemon cannot open a system file (${code}), so new runs may fail. ` +
        'Raise its limit of open files (ulimit -n).',
    };
  }
}
