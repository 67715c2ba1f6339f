import { once } from 'node:events';
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { status_mib } from './attack.ts';

/** What a supervisor sees of the daemon: it asks `/livez` on a new connection, again and again. */
export interface Watched {
  livez_asked: number;
  livez_worst_ms: number;
  /** Resets, time-outs and statuses other than 200, each with its time since the start. */
  livez_failures: string[];
  /** The highest resident memory that was seen, in MiB. */
  seen_mib: number;
}

const EVERY_MS = 100;
const BOUND_MS = 30_000;

async function watch(port: number, pid: number): Promise<void> {
  const watched: Watched = { livez_asked: 0, livez_worst_ms: 0, livez_failures: [], seen_mib: 0 };
  let stopped = false;
  process.once('message', () => {
    stopped = true;
  });
  const began = performance.now();
  while (!stopped) {
    const asked = performance.now();
    const failure = await livez(port);
    const ms = Math.round(performance.now() - asked);
    watched.livez_asked += 1;
    // A daemon that was killed meanwhile did not answer late.
    if (failure === null) watched.livez_worst_ms = Math.max(watched.livez_worst_ms, ms);
    watched.seen_mib = Math.max(watched.seen_mib, status_mib(pid, 'VmRSS'));
    if (failure !== null)
      watched.livez_failures.push(`${failure} after ${Math.round(asked - began)} ms`);
    if (watched.livez_asked === 1) process.send?.('started');
    await sleep(EVERY_MS);
  }
  process.send?.(watched);
}

/** Null when it answers 200, else why not. */
function livez(port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const asked = request(
      { host: '127.0.0.1', port, path: '/livez', agent: false, timeout: BOUND_MS },
      (response) => {
        response.resume();
        response.once('end', () =>
          resolve(response.statusCode === 200 ? null : `status ${response.statusCode}`),
        );
        response.once('error', (error) => resolve(error.message));
      },
    );
    asked.once('timeout', () => asked.destroy(new Error(`no answer in ${BOUND_MS} ms`)));
    asked.once('error', (error) => resolve(error.message));
    asked.end();
  });
}

/** Its parent names the daemon, then says when to stop, and so on for the next one. */
if (process.send !== undefined) {
  process.once('disconnect', () => process.exit());
  for (;;) {
    const [{ port, pid }] = (await once(process, 'message')) as [{ port: number; pid: number }];
    await watch(port, pid);
  }
}
