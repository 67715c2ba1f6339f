import { SvcError } from '../../errors.ts';
import { httpGet, type Response } from './http-get.ts';
import { ANSWER_MS, type Answer, type Source } from './source.ts';

export const http: Source = {
  /** What is ready is live, so that is asked only of what is not. */
  async ask(address) {
    const ready = await httpGet(address, '/readyz', ANSWER_MS);
    const live = ready.status === OK ? ready : await httpGet(address, '/livez', ANSWER_MS);
    return answer(live, ready);
  },

  /** HTTP tells no changes, so it is asked again and again. */
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

export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
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

/** A port can be another program's by now: only a health record is taken as an answer. */
function read(body: string): Omit<Answer, 'live' | 'ready'> {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    value = null;
  }
  if (typeof value === 'object' && value !== null && 'state_path' in value && 'status' in value)
    return value as Omit<Answer, 'live' | 'ready'>;
  throw new SvcError('daemon_not_running', 'What answers there is not the daemon.');
}
