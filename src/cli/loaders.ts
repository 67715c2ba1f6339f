import type { CommandName } from './commands.ts';
import type { CommandModule } from './context.ts';
import { program } from './program.ts';

/** The code of each command, imported on use. */
export type Loaders = Readonly<Record<CommandName, () => Promise<CommandModule>>>;

export const loaders: Loaders = {
  version: () => import('./version.ts'),
  status: () => import('./daemon/status.ts'),
  health: () => import('./health/health.ts'),
  run: () => import('./run/run.ts'),
  start: () => import('./daemon/start.ts'),
  serve: () => import('./daemon/serve.ts'),
  stop: () => import('./daemon/stop.ts'),
  restart: () => import('./daemon/restart.ts'),
  logs: () => import('./logs/logs.ts'),
  doctor: () => import('./doctor/doctor.ts'),
  'model list': () => import('./model/list.ts'),
  'model show': () => import('./model/show.ts'),
  'model search': () => import('./model/search.ts'),
  'model pull': () => import('./model/pull.ts'),
  'model import': () => import('./model/import.ts'),
  'model use': () => import('./model/use.ts'),
  'model default': () => import('./model/default.ts'),
  'model alias': () => import('./model/alias.ts'),
  'model remove': () => import('./model/remove.ts'),
  'provider discover': () => import('./provider/discover.ts'),
  'model ps': () => import('./model/ps.ts'),
  'model load': () => import('./model/load.ts'),
  'model unload': () => import('./model/unload.ts'),
  'provider key': () => import('./provider/key.ts'),
  'provider list': () => import('./provider/list.ts'),
  'provider add': () => import('./provider/add.ts'),
  'provider set': () => import('./provider/set.ts'),
  'provider default': () => import('./provider/default.ts'),
  'provider remove': () => import('./provider/remove.ts'),
  'provider test': () => import('./provider/test.ts'),
  'runs list': () => import('./runs/list.ts'),
  usage: () => import('./usage.ts'),
  'runs show': () => import('./runs/show.ts'),
  'runs attach': () => import('./runs/attach.ts'),
  'runs cancel': () => import('./runs/cancel.ts'),
  'runs why': () => import('./runs/why.ts'),
  'runs replay': () => import('./runs/replay.ts'),
  'runs export': () => import('./runs/export.ts'),
  machines: () => import('./machines/machines.ts'),
  console: () => import('./console.ts'),
  'config show': () => import('./config/show.ts'),
  token: () => import('./tokens/token.ts'),
  'token rotate': () => import('./tokens/rotate.ts'),
  'token create': () => import('./tokens/create.ts'),
  'token list': () => import('./tokens/list.ts'),
  'token revoke': () => import('./tokens/revoke.ts'),
  'service install': () => import('./service/install.ts'),
  'service uninstall': () => import('./service/uninstall.ts'),
  'service status': () => import('./service/status.ts'),
  upgrade: () => import('./upgrade.ts'),
  uninstall: () => import('./uninstall.ts'),
  api: () => import('./api.ts'),
  completion: () => import('./completion/completion.ts'),
};

export function main(argv: readonly string[]): Promise<void> {
  return program(argv, loaders);
}
