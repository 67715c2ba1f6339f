import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CACHE, testModel } from '../../tools/test-models/models.ts';
import { type Daemon, startDaemon } from '../bench/lib/daemon.ts';
import { runtimeOf } from '../helpers/daemon.ts';
import { makeHome, PROGRAM } from '../helpers/svc.ts';
import { scripted } from '../helpers/tool-servers.ts';
import { Upstream } from '../helpers/upstream.ts';
import { answerScripted } from './scripted-model.ts';

export interface Stage {
  /** What a script finds in its environment. */
  env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/**
 * The built daemon with its defaults, except for one provider, the scripted model, and two tool
 * servers. Names that programs have built in are aliases of it. With `real` all of them are a small
 * model of this machine instead.
 */
export async function openStage({ open = false, real = false } = {}): Promise<Stage> {
  const upstream = await Upstream.start(answerScripted);
  const home = makeHome({ SVC_ENGINE_PRELOAD: undefined, SVC_AUTH: String(!open) });
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  const model = real ? `local/${REAL.chat}` : 'up/scripted';
  if (real) linkModels(home.paths.models);
  const aliases = Object.fromEntries(BUILT_IN.map((name) => [name, model]));
  writeFileSync(
    home.paths.config,
    JSON.stringify({
      default_provider: real ? 'local' : 'up',
      aliases,
      providers: { up: { base_url: upstream.base_url, model: 'scripted' } },
      ...(real ? { limits: { output_tokens: REAL.tokens } } : undefined),
    }),
  );
  // A person is asked about the tools of `desk`. `shelf` may be read.
  const mcpServers = { desk: scripted(), shelf: scripted([], { trusted: true }) };
  writeFileSync(join(dirname(home.paths.config), 'mcp.json'), JSON.stringify({ mcpServers }));
  const daemon: Daemon = await startDaemon(home);
  const { grpc } = (await runtimeOf(home)).addresses;
  return {
    env: {
      SVC_URL: daemon.http,
      SVC_GRPC_ADDRESS: grpc ?? '',
      SVC_TOKEN: daemon.token,
      SVC_MODEL_ID: model,
      SVC_THINKING_ID: real ? model : 'up/think',
      SVC_EMBEDDING_ID: real ? `local/${REAL.vectors}` : 'up/embed',
      SVC_HOME_FOLDER: home.folder,
      SVC_PROGRAM: PROGRAM,
      ...(real ? { SVC_REAL: '1' } : undefined),
    },
    close: async () => {
      await daemon.stop();
      await upstream.stop();
    },
  };
}

const BUILT_IN = ['gpt-4o', 'gpt-5', 'claude-sonnet-4-5', 'claude-haiku-4-5'];

/** The models of `--real`, and the tokens of an answer whose client sets no number. */
export const REAL = { chat: 'smollm2', vectors: 'minilm', tokens: 128 } as const;

function linkModels(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const name of [REAL.chat, REAL.vectors]) {
    const file = testModel(name);
    if (file === null) throw new Error(`there is no ${name} in ${CACHE}: npm run test-models`);
    symlinkSync(file, join(folder, `${name}.gguf`));
  }
}
