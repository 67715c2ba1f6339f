/**
 * The open resources of the tests: daemons, servers, disks. If a test throws, its caller closes
 * them.
 */
const opened = new Set<() => unknown>();

/** Returns a function that closes it once. */
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
    // Report the first error, not the errors that follow from it.
    await Promise.resolve()
      .then(close)
      .catch(() => undefined);
  }
}
