/**
 * What all code of a process shares, as texts and references by name. A test file that changes it
 * changes the files after it in the same process.
 */
export type ProcessState = ReadonlyMap<string, unknown>;

const SHARED: Readonly<Record<string, object>> = {
  '': globalThis,
  process,
  'process.stdout': process.stdout,
  'process.stderr': process.stderr,
  Date,
  Math,
  JSON,
  console,
  performance,
};

export function processState(): ProcessState {
  const state = new Map<string, unknown>([
    ['the working folder', process.cwd()],
    ['the umask', process.umask()],
  ]);
  for (const [name, value] of Object.entries(process.env)) state.set(`process.env.${name}`, value);
  for (const event of process.eventNames())
    state.set(`the listeners of process for "${String(event)}"`, process.listenerCount(event));
  for (const [owner, object] of Object.entries(SHARED))
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(object)))
      if (typeof value === 'function') state.set(owner === '' ? name : `${owner}.${name}`, value);
  return state;
}

/** The names of what is not as it was. What Node or a library loads on demand is no change. */
export function changes(before: ProcessState, after: ProcessState): string[] {
  const isNew = (name: string) => !before.has(name) && typeof after.get(name) === 'function';
  return [...new Set([...before.keys(), ...after.keys()])].filter(
    (name) => before.get(name) !== after.get(name) && !isNew(name),
  );
}

/** What keeps the process alive: how many of each type. */
export function openResources(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const type of process.getActiveResourcesInfo())
    counts.set(type, (counts.get(type) ?? 0) + 1);
  return counts;
}
