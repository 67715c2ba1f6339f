import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Daemon, startDaemon } from '../bench/lib/daemon.ts';
import { runtimeOf } from '../helpers/daemon.ts';
import { makeHome } from '../helpers/svc.ts';
import { Upstream } from '../helpers/upstream.ts';
import { answerScripted } from './scripted-model.ts';

export interface Stage {
  /** What a script finds in its environment. */
  env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/**
 * The built daemon with its defaults, except for one provider: the scripted model. Names that
 * programs have built in are aliases of it.
 */
export async function openStage({ open = false } = {}): Promise<Stage> {
  const upstream = await Upstream.start(answerScripted);
  const home = makeHome({ SVC_ENGINE_PRELOAD: undefined, SVC_AUTH: String(!open) });
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  const aliases = Object.fromEntries(BUILT_IN.map((name) => [name, 'up/scripted']));
  writeFileSync(
    home.paths.config,
    JSON.stringify({
      default_provider: 'up',
      aliases,
      providers: { up: { base_url: upstream.base_url, model: 'scripted' } },
    }),
  );
  const daemon: Daemon = await startDaemon(home);
  const { grpc } = (await runtimeOf(home)).addresses;
  return {
    env: {
      SVC_URL: daemon.http,
      SVC_GRPC_ADDRESS: grpc ?? '',
      SVC_TOKEN: daemon.token,
      SVC_MODEL_ID: 'up/scripted',
      SVC_THINKING_ID: 'up/think',
      SVC_EMBEDDING_ID: 'up/embed',
      SVC_HOME_FOLDER: home.folder,
    },
    close: async () => {
      await daemon.stop();
      await upstream.stop();
    },
  };
}

const BUILT_IN = ['gpt-4o', 'gpt-5', 'claude-sonnet-4-5', 'claude-haiku-4-5'];
