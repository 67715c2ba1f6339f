const ends = new Set<() => void>();
process.once('exit', () => {
  for (const end of ends) end();
});

/** Calls it when this process exits, so that a measurement that fails leaves no server. */
export function atExit(end: () => void): void {
  ends.add(end);
}
