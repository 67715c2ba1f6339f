import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type RuntimeFile, readRuntimeFile } from '../../src/home/runtime-file.ts';
import { PausedServer } from './paused-server.ts';
import { type Home, makeHome, type Outcome } from './svc.ts';
import { waitFor } from './wait.ts';

export interface PausedHome extends Home {
  server: PausedServer;
}

/** A home whose default provider is a server that the test pauses. */
export async function makePausedHome(env: NodeJS.ProcessEnv = {}): Promise<PausedHome> {
  const server = new PausedServer();
  const base_url = await server.listen();
  const home = makeHome(env);
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  writeFileSync(
    home.paths.config,
    JSON.stringify({ default_provider: 'held', providers: { held: { base_url, model: 'held' } } }),
  );
  return {
    ...home,
    server,
    close: async () => {
      await home.close();
      await server.close();
    },
  };
}

/** The runtime file of the daemon of this home; null before the daemon writes it. */
export function runtimeOf(home: Home): Promise<RuntimeFile> {
  return waitFor('the daemon has written its runtime file', () => {
    const found = readRuntimeFile(home.paths.runtime);
    return found.kind === 'present' && found.file;
  });
}

/**
 * What `svc health` of a daemon that runs says. It gives up after three seconds, which a busy
 * machine takes now and then. So the request is repeated.
 */
export function healthOf(home: Home, source: 'http' | 'grpc' | 'socket'): Promise<Outcome> {
  return waitFor(`health answers over ${source}`, async () => {
    const outcome = await home.svc(['health', '--source', source]);
    return outcome.code !== UNREACHABLE && outcome;
  });
}

const UNREACHABLE = 3;
