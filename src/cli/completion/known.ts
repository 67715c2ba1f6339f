import { readdirSync } from 'node:fs';
import { loadConfig } from '../../config/config.ts';
import { settingKeys } from '../../config/setting-keys.ts';
import { buildsFor } from '../../home/engine-builds.ts';
import type { Paths } from '../../home/paths.ts';
import { knownModels } from '../../models/index.ts';
import type { Method, Results } from '../../transport/control/protocol.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Kind } from './words.ts';

/**
 * Names for a completion. It starts no daemon, waits a moment at most, and never fails: no name is
 * offered instead.
 */
export async function knownNames(kind: Kind, paths: Paths): Promise<string[]> {
  const names = await LISTS[kind](paths).catch(() => []);
  return [...new Set(names)].filter(isWord);
}

/** A longer wait is felt at the Tab key. */
const ASK_MS = 1_000;
const RUNS_MAX = 100;

const LISTS: Readonly<Record<Kind, (paths: Paths) => Promise<string[]>>> = {
  runs: async (paths) => {
    const { runs } = await ask(paths, 'run.list', { limit: RUNS_MAX, texts: 'short' });
    return runs.map(({ id }) => id);
  },
  models: async (paths) => {
    const models = await ask(paths, 'model.list').then(
      (found) => found.models.map(({ id }) => id),
      () => filesIn(paths),
    );
    const { aliases } = await ask(paths, 'model.aliases').catch(() => loadConfig(paths.config));
    return [...models, ...Object.keys(aliases)];
  },
  providers: async (paths) => {
    const { providers } = await ask(paths, 'provider.list').catch(() => ({
      providers: ['local', ...Object.keys(loadConfig(paths.config).providers)].map((id) => ({
        id,
      })),
    }));
    return providers.map(({ id }) => id);
  },
  tokens: async (paths) => (await ask(paths, 'token.list')).tokens.map(({ name }) => name),
  settings: async () => settingKeys(),
  // A node without a lease has nothing to drain.
  nodes: async (paths) =>
    (await ask(paths, 'node.list')).nodes
      .filter(({ lease_until }) => lease_until !== null)
      .map(({ id }) => id),
  catalogue: async () => knownModels.map(({ name }) => name),
  builds: async () => Object.keys(buildsFor()),
  presets: async (paths) => Object.keys(loadConfig(paths.config).presets),
};

function ask<M extends Method>(
  paths: Paths,
  method: M,
  params: Record<string, unknown> = {},
): Promise<Results[M]> {
  return askDaemon(paths, method, params, { timeout_ms: ASK_MS });
}

/** The built-in model, and the files of the models folder. */
function filesIn({ models }: Paths): string[] {
  const files = (() => {
    try {
      return readdirSync(models);
    } catch {
      return [];
    }
  })();
  const names = files.filter((file) => file.endsWith('.gguf')).map((file) => file.slice(0, -5));
  return ['svc-mini', ...names].map((name) => `local/${name}`);
}

/** Omits names that a shell would split or run. */
function isWord(name: string): boolean {
  return /^[\w.:/@+-]+$/.test(name);
}
