import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import { stateName } from '../../machines/step.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { DaemonKey } from '../kernel/stream.ts';
import type { Log } from '../ports/log.ts';

/** Sends fields such as `READY=1` to systemd. Rejects when they cannot be sent. */
export type SendNotice = (fields: readonly string[]) => Promise<void>;

export interface ServiceNoticeOptions {
  kernel: Pick<Kernel, 'subscribe'>;
  daemon: DaemonKey;
  log: Log;
  env: NodeJS.ProcessEnv;
  send?: SendNotice;
}

/**
 * Reports the state of the daemon to systemd, where systemd asks for it with NOTIFY_SOCKET. It owns
 * the fields that wait to be sent.
 *
 * 1. `READY=1` is sent once, in the first state that takes runs. `STOPPING=1` is sent once.
 * 2. A run that begins or ends sends nothing by itself: a prompt starts no process here.
 * 3. The watchdog gets its message from a timer of the event loop: a blocked loop sends none.
 * 4. One message is sent at a time. Fields that come meanwhile form the next one.
 */
export class ServiceNotice {
  private readonly options: ServiceNoticeOptions;
  private readonly waiting = new Set<string>();
  private status = 'starting';
  private phase: 'starting' | 'up' | 'stopping' = 'starting';
  private isSending = false;
  private isDue = false;

  /** Reports until the signal aborts. Without NOTIFY_SOCKET it does nothing. */
  constructor(options: ServiceNoticeOptions, ended: AbortSignal) {
    this.options = options;
    const { kernel, daemon, env } = options;
    if (env.NOTIFY_SOCKET === undefined) return;
    kernel.subscribe({ stream: daemon }, (_, snapshot) => this.hear(snapshot), ended);
    const every_ms = watchdogMs(env);
    if (every_ms === null) return;
    const timer = setInterval(() => this.report('WATCHDOG=1'), every_ms);
    ended.addEventListener('abort', () => clearInterval(timer));
  }

  private hear(snapshot: DaemonSnapshot): void {
    const wasTrouble = isTrouble(this.status);
    this.status = statusText(snapshot);
    if (this.phase !== 'stopping' && snapshot.hasTag('stopping')) {
      this.phase = 'stopping';
      this.report('STOPPING=1');
    } else if (this.phase === 'starting' && snapshot.hasTag('ready')) {
      this.phase = 'up';
      this.report('READY=1');
    } else if (wasTrouble !== isTrouble(this.status)) this.report();
  }

  private report(...fields: string[]): void {
    for (const field of fields) this.waiting.add(field);
    this.isDue = true;
    void this.flush();
  }

  private async flush(): Promise<void> {
    if (this.isSending) return;
    this.isSending = true;
    const { send = sendByCommand, log } = this.options;
    while (this.isDue) {
      this.isDue = false;
      const fields = [...this.waiting, `STATUS=${this.status}`];
      this.waiting.clear();
      await send(fields).catch((error: unknown) =>
        log.warn({ err: error }, 'systemd does not hear the state of the daemon'),
      );
    }
    this.isSending = false;
  }
}

const FULL = 'The disk is full: no new runs are accepted.';
const STALLED = 'The disk does not answer: no new runs are accepted.';

function isTrouble(status: string): boolean {
  return status === FULL || status === STALLED;
}

/** One line for `systemctl status`. */
function statusText(snapshot: DaemonSnapshot): string {
  if (snapshot.hasTag('store_full')) return FULL;
  if (snapshot.hasTag('store_stalled')) return STALLED;
  const { unsettled } = snapshot.context;
  const name = stateName(snapshot);
  return unsettled === 0 ? name : `${name}: ${unsettled} ${unsettled === 1 ? 'run' : 'runs'}`;
}

/** Time between two messages for the watchdog: a third of its limit. Null: there is no watchdog. */
function watchdogMs({ WATCHDOG_USEC, WATCHDOG_PID }: NodeJS.ProcessEnv): number | null {
  const limit_us = Number(WATCHDOG_USEC);
  if (!(limit_us > 0) || (WATCHDOG_PID !== undefined && WATCHDOG_PID !== String(process.pid)))
    return null;
  return Math.max(LEAST_WATCHDOG_MS, limit_us / 1000 / 3);
}

/** Each message starts a process. */
const LEAST_WATCHDOG_MS = 100;
const SEND_MS = 5_000;

/** Node.js cannot write to a datagram socket of Unix, so the command of systemd does. */
async function sendByCommand(fields: readonly string[]): Promise<void> {
  await promisify(execFile)('systemd-notify', [...fields], { timeout: SEND_MS });
}
