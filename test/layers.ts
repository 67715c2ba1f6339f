import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** One import, as read from the source text. */
export interface Import {
  from: string;
  /** A path from the project root, or the name of a package. */
  to: string;
  /**
   * `type`: erased at run time. `lazy`: loaded on demand. `entry`: the first file of a process or
   * thread.
   */
  kind: 'value' | 'lazy' | 'type' | 'entry';
  /** The names that it imports or re-exports. Absent: all. */
  names?: readonly string[];
}

const STATIC =
  /^(?:import|export)\s+(type\s+)?(?:[\w*$]+(?:\s+as\s+\w+)?,?\s*)?(?:\{([^}]*)\}\s*)?(?:from\s+)?'([^']+)'/gm;
const OF_TYPE = /\btypeof import\('([^']+)'\)|\bimport\('([^']+)'\)\.[A-Z]/g;
const LAZY = /(?<!typeof )\bimport\('([^']+)'\)(?!\.[A-Z])/g;
/** A door loads a file on demand: `export const loadSignIn = () => import('./sign-in.ts')`. */
const LOADER = /^export const (\w+) = \(\) =>\s*import\('([^']+)'\)/gm;
/** Entries are named by their address: `new URL('./worker.ts', import.meta.url)`. */
const ADDRESS = /new URL\((?:[^?\n]*\?\s*)?['`](\.{1,2}\/[^'`]+?)(?:\.ts|\$\{[^}]*\})['`]/g;

export function importsOf(file: string): Import[] {
  const code = readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  const target = (name: string) =>
    name.startsWith('.') ? join(dirname(file), name).replaceAll('\\', '/') : name;
  const found = (pattern: RegExp, kind: Import['kind']) =>
    [...code.matchAll(pattern)].map(
      ([, one, other]): Import => ({ from: file, to: target(one ?? other ?? ''), kind }),
    );
  const fixed = [...code.matchAll(STATIC)].map(
    ([, type, list, name = '']): Import => ({
      from: file,
      to: target(name),
      kind: type === undefined ? 'value' : 'type',
      ...(list === undefined ? {} : { names: namesOf(list) }),
    }),
  );
  const loaders = [...code.matchAll(LOADER)].map(
    ([, name = '', to = '']): Import => ({
      from: file,
      to: target(to),
      kind: 'lazy',
      names: [name],
    }),
  );
  const entries = found(ADDRESS, 'entry').map((entry) => ({ ...entry, to: `${entry.to}.ts` }));
  const lazy = found(LAZY, 'lazy').filter(({ to }) => !loaders.some((loader) => loader.to === to));
  return [...fixed, ...found(OF_TYPE, 'type'), ...lazy, ...loaders, ...entries];
}

/** The values of `{ one, type Other, two as three }`, by the names that they have there. */
function namesOf(list: string): string[] {
  return list
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '' && !item.startsWith('type '))
    .map((item) => item.split(' as ')[0] ?? '');
}

/** The same imports, with the files behind a door in place of the door, as a bundle has them. */
export function throughDoors(imports: readonly Import[]): Import[] {
  const doors = new Map<string, Import[]>();
  for (const item of imports)
    if (item.from.endsWith('/index.ts'))
      doors.set(item.from, [...(doors.get(item.from) ?? []), item]);
  return imports.flatMap((item) => {
    const { from, to, kind, names = [] } = item;
    const behind = doors.get(to);
    if (behind === undefined || kind !== 'value') return [item];
    return behind
      .filter((given) => given.names?.some((name) => names.includes(name)))
      .map((given) => ({ ...given, from }));
  });
}

/** The files that load each file when they run, as a bundle has them. */
export function importersByFile(): Map<string, string[]> {
  const files = globSync('{src,machines,test}/**/*.ts').map((file) => file.replaceAll('\\', '/'));
  const importers = new Map<string, string[]>();
  for (const { from, to, kind } of throughDoors(files.flatMap(importsOf)))
    if (kind !== 'type') importers.set(to, [...(importers.get(to) ?? []), from]);
  return importers;
}

/** The installed package: `@ai-sdk/provider` for `@ai-sdk/provider/x`. */
export function packageOf(name: string): string {
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');
}

/** Files and packages reachable from `start` through the given kinds of import. */
export function reach(
  start: readonly string[],
  imports: readonly Import[],
  kinds: readonly Import['kind'][],
): Set<string> {
  const reached = new Set(start);
  for (const file of reached)
    for (const { from, to, kind } of imports)
      if (from === file && kinds.includes(kind)) reached.add(to);
  return reached;
}

/** One cycle of `edges`, as a list of names; null if there is no cycle. */
export function findCycle(edges: ReadonlyMap<string, ReadonlySet<string>>): string[] | null {
  const done = new Set<string>();
  const walk = (name: string, trail: readonly string[]): string[] | null => {
    if (trail.includes(name)) return [...trail.slice(trail.indexOf(name)), name];
    if (done.has(name)) return null;
    done.add(name);
    for (const next of edges.get(name) ?? []) {
      const cycle = walk(next, [...trail, name]);
      if (cycle !== null) return cycle;
    }
    return null;
  };
  for (const name of edges.keys()) {
    const cycle = walk(name, []);
    if (cycle !== null) return cycle;
  }
  return null;
}
