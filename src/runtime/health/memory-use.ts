/** What the process takes up. `trouble`: why the system could not be asked now; then the figures are the last known ones. */
export interface MemoryUse {
  rss_bytes: number;
  heap_used_bytes: number;
  trouble: string | null;
}

let last = { rss_bytes: 0, heap_used_bytes: 0 };

/** Asking opens a file of the system, so it fails when the process has no descriptors left: health does not fail with it. */
export function memoryUse(ask: () => NodeJS.MemoryUsage = process.memoryUsage): MemoryUse {
  try {
    const { rss, heapUsed } = ask();
    last = { rss_bytes: rss, heap_used_bytes: heapUsed };
    return { ...last, trouble: null };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown reason';
    return {
      ...last,
      trouble: `The daemon cannot open a file of the system (${code}): new runs may fail. Raise its limit of open files (ulimit -n).`,
    };
  }
}
