/** What lives have opened and not closed yet: daemons, servers, disks. A life that throws leaves that to whoever leads it. */
const opened = new Set<() => unknown>();

/** Returns the way to close it, which closes it once. */
export function closeLater(close: () => unknown): () => Promise<void> {
  opened.add(close);
  return async () => {
    if (opened.delete(close)) await close();
  };
}

/** What was opened last is closed first. */
export async function closeOpened(): Promise<void> {
  for (const close of [...opened].reverse()) {
    if (!opened.delete(close)) continue;
    // Why the life has failed is told, not what came of that.
    await Promise.resolve()
      .then(close)
      .catch(() => undefined);
  }
}
