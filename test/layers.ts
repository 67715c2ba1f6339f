import { readFileSync } from 'node:fs';
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
}

const STATIC =
  /^(?:import|export)\s+(type\s+)?(?:[\w*$]+(?:\s+as\s+\w+)?,?\s*)?(?:\{[^}]*\}\s*)?(?:from\s+)?'([^']+)'/gm;
const OF_TYPE = /\btypeof import\('([^']+)'\)|\bimport\('([^']+)'\)\.[A-Z]/g;
const LAZY = /(?<!typeof )\bimport\('([^']+)'\)(?!\.[A-Z])/g;
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
    ([, type, name = '']): Import => ({
      from: file,
      to: target(name),
      kind: type === undefined ? 'value' : 'type',
    }),
  );
  const entries = found(ADDRESS, 'entry').map((entry) => ({ ...entry, to: `${entry.to}.ts` }));
  return [...fixed, ...found(OF_TYPE, 'type'), ...found(LAZY, 'lazy'), ...entries];
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

/** One cycle of `edges`, as a list of names; null if there is none. */
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
