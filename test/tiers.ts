import { existsSync } from 'node:fs';
import { importersByFile, importsOf } from './layers.ts';

/**
 * Which files a tier runs, and in which order.
 *
 * 1. The tier `all` has every file. The tier `quick` has no file that starts a process or that is
 *    slow.
 * 2. A file starts processes when it, or a test file it imports, imports `node:child_process`.
 * 3. The slowest files go first, so that no long file runs alone at the end.
 */
export const TIERS = ['all', 'quick'] as const;

export type Tier = (typeof TIERS)[number];

/**
 * Paths that begin the names of slow files, slowest first by processor time. They start much, walk
 * whole graphs of states, or load large third-party client libraries.
 */
export const SLOWEST: readonly string[] = [
  'test/attack/bombs.test.ts',
  'test/attack/attacks.test.ts',
  'test/mutate/mutate.test.ts',
  'test/browser/chat.test.ts',
  'test/browser/console.test.ts',
  'test/e2e/streams.test.ts',
  'test/e2e/resume.test.ts',
  'test/e2e/postgres.test.ts',
  'test/e2e/faults.test.ts',
  'test/e2e/fleet',
  'test/browser/',
  'test/e2e/walk.test.ts',
  'test/walk/kernel.test.ts',
  'test/engine/engine.test.ts',
  'test/providers/local/hostile-models.test.ts',
  'test/providers/local/resume',
  'test/kernel/store/projection.test.ts',
  'test/cli/run.test.ts',
  'test/kernel/store/sqlite.test.ts',
  'test/kernel/store/prune.test.ts',
  'test/torture/',
  'test/machines/daemon-paths.test.ts',
  'test/models/',
  'test/e2e/',
  'test/engine/',
  'test/providers/local/',
  'test/providers/mini/',
  'test/kernel/store/',
  'test/machines/cover.test.ts',
  'test/transport/http/hostile.test.ts',
  'test/transport/http/connections.test.ts',
  'test/transport/http/large.test.ts',
  'test/transport/conformance.test.ts',
  'test/machines/step.test.ts',
  'test/machines/random.test.ts',
  'test/machines/hygiene.test.ts',
  'test/machines/closed-loop.test.ts',
  'test/machines/deadlines.test.ts',
  'test/machines/ends.test.ts',
  'test/dialects/openai/libraries.test.ts',
  'test/dialects/openai/responses-langchain.test.ts',
  'test/dialects/openai/responses-ai-sdk.test.ts',
  'test/walk/',
  'test/sim/',
];

/** Small files in folders of slow ones. */
const SMALL: Readonly<Record<string, string>> = {
  'test/models': 'catalogue failure hub/choose hub/reference pull ranges together',
  'test/engine':
    'confidence decoder gpu idle output-batcher prompt-parts reader/reader repetition sequences ' +
    'threads threads-now time-limit token-text',
  'test/providers/local': 'engine-builds memory-watch messages model-files server-provider',
  'test/kernel/store':
    'chain damaged-page indexes memory-fleet presence prune-order run-age ' +
    'schema short-run sync thrown-error transfer/import',
  'test/walk': 'recorded',
};

export const SMALL_FILES: ReadonlySet<string> = new Set(
  Object.entries(SMALL).flatMap(([folder, names]) =>
    names.split(' ').map((name) => `${folder}/${name}.test.ts`),
  ),
);

const SPAWN = 'node:child_process';
const ENGINE = /^(src\/engine\/|koffi$|node-llama-cpp$)/;

/** The files of a tier, in the order in which they run. */
export function filesOf(tier: Tier, files: readonly string[]): string[] {
  const chosen = tier === 'all' ? files : quick(files);
  return chosen.toSorted((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/** The same files: those that import a changed one, directly or not, go first. */
export function changedFirst(files: readonly string[], changed: readonly string[]): string[] {
  const sources = changed.filter((file) => /^(src|machines|test)\/.*\.ts$/.test(file));
  if (sources.length === 0) return [...files];
  const importers = importersByFile();
  const affected = new Set(sources);
  for (const file of affected) for (const by of importers.get(file) ?? []) affected.add(by);
  return [
    ...files.filter((file) => affected.has(file)),
    ...files.filter((file) => !affected.has(file)),
  ];
}

function quick(files: readonly string[]): string[] {
  const isSmall = (file: string) => SMALL_FILES.has(file) || rank(file) === SLOWEST.length;
  return files.filter((file) => isSmall(file) && isInProcess(file));
}

/**
 * Whether a file starts no process. Follows the imports of tests and their helpers, and not what
 * the product itself starts.
 */
function isInProcess(file: string): boolean {
  return !reachedFrom(file).has(SPAWN);
}

/** Whether it may share a process. The library of the engine changes the process that loads it. */
export function isShared(file: string): boolean {
  return isInProcess(file) && ![...reachedFrom(file)].some((name) => ENGINE.test(name));
}

function reachedFrom(file: string): ReadonlySet<string> {
  const reached = new Set([file]);
  for (const one of reached) for (const name of importedBy(one)) reached.add(name);
  return reached;
}

const known = new Map<string, string[]>();

function importedBy(file: string): string[] {
  const names = known.get(file);
  if (names !== undefined) return names;
  const isOurs = file.startsWith('test/') && file.endsWith('.ts') && existsSync(file);
  const found = (isOurs ? importsOf(file) : [])
    .filter(({ kind }) => kind === 'value' || kind === 'lazy')
    .map(({ to }) => to);
  known.set(file, found);
  return found;
}

function rank(file: string): number {
  const place = SLOWEST.findIndex((prefix) => file.startsWith(prefix));
  return place < 0 ? SLOWEST.length : place;
}
