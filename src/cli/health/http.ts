import { SvcError } from '../../errors.ts';
import { httpGet, type Response } from './http-get.ts';
import { ANSWER_MS, type Answer, type Source } from './source.ts';

export const http: Source = {
  /** A ready daemon is live, so `/livez` is asked only if it is not ready. */
  async ask(address) {
    const ready = await httpGet(address, '/readyz', ANSWER_MS);
    const live = ready.status === OK ? ready : await httpGet(address, '/livez', ANSWER_MS);
    return answer(live, ready);
  },

  /** Polls: HTTP has no notification of changes. */
  async *watch(address, signal) {
    let last = '';
    while (!signal.aborted) {
      const now = await http.ask(address);
      if (JSON.stringify(now) !== last) yield now;
      last = JSON.stringify(now);
      await sleep(POLL_MS, signal);
    }
  },
};

const OK = 200;
const POLL_MS = 500;

/** Resolves early when the signal aborts. */
export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  const { setTimeout: delay } = await import('node:timers/promises');
  await delay(ms, undefined, { signal }).catch(() => {});
}

function answer(live: Response, ready: Response): Answer {
  const { status, state, state_path, since, reason, output, version } = read(ready.body);
  return {
    live: live.status === OK,
    ready: ready.status === OK,
    status,
    state,
    state_path,
    since,
    reason,
    output: output ?? null,
    version,
  };
}

/** Accepts only a health record: another program may use the port now. */
function read(body: string): Omit<Answer, 'live' | 'ready'> {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    value = null;
  }
  if (typeof value === 'object' && value !== null && 'state_path' in value && 'status' in value)
    return value as Omit<Answer, 'live' | 'ready'>;
  throw new SvcError('daemon_not_running', 'The process on this address is not an svc daemon.');
}
