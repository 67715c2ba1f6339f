import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Watched } from '../attack/watcher.ts';
import type { Life } from './daemon.ts';

const WATCHER = fileURLToPath(new URL('../attack/watcher.ts', import.meta.url));

/**
 * Asks `/livez` of the daemons of one home while they are up, from another process. A daemon that
 * is killed resets its connections at once, so a kill adds no time.
 */
export class LivezWatch {
  asked = 0;
  worst_ms = 0;
  private readonly child: ChildProcess = fork(WATCHER);
  private isAtWork = false;

  async start(life: Life): Promise<void> {
    const { addresses } = await life.ask((client) => client.call('status'));
    const port = Number(new URL(addresses.http ?? '').port);
    await this.answer({ port, pid: life.pid });
    this.isAtWork = true;
  }

  async stop(): Promise<void> {
    if (!this.isAtWork) return;
    this.isAtWork = false;
    const { livez_asked, livez_worst_ms } = (await this.answer('stop')) as Watched;
    this.asked += livez_asked;
    this.worst_ms = Math.max(this.worst_ms, livez_worst_ms);
  }

  end(): void {
    this.child.disconnect();
  }

  private async answer(message: object | 'stop'): Promise<unknown> {
    const answered = once(this.child, 'message');
    this.child.send(message);
    return (await answered)[0];
  }
}
