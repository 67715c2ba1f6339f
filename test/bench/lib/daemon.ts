import { readFileSync } from 'node:fs';
import { runtimeOf } from '../../helpers/daemon.ts';
import type { Home } from '../../helpers/svc.ts';
import { type Life, serve } from '../../torture/daemon.ts';
import { atExit } from './at-exit.ts';
import type { Target } from './chat.ts';

export interface Daemon {
  life: Life;
  /** Its HTTP address. */
  http: string;
  token: string;
  /** Where it is asked for chat completions. */
  chat: Target;
  /** Ends the daemon and deletes its home. */
  stop(): Promise<void>;
}

/** Starts the built daemon in this home. */
export async function startDaemon(home: Home): Promise<Daemon> {
  const life = await serve(home);
  atExit(() => life.child.exitCode === null && life.child.kill('SIGKILL'));
  const { http } = (await runtimeOf(home)).addresses;
  if (http === null) throw new Error('the daemon does not listen on HTTP');
  const token = readFileSync(home.paths.token, 'utf8').trim();
  return {
    life,
    http,
    token,
    chat: { url: `${http}/v1/chat/completions`, token },
    stop: async () => {
      await life.stop(0);
      await home.close();
    },
  };
}
