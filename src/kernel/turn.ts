let end: Promise<void> | null = null;

/**
 * Resolves when this turn of the event loop has read what was ready. All callers of one turn go on
 * together, so what they append shares a commit.
 */
export function endOfTurn(): Promise<void> {
  end ??= new Promise((resolve) =>
    setImmediate(() => {
      end = null;
      resolve();
    }),
  );
  return end;
}
