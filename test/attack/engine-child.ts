import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { status_mib, type Victim } from './attack.ts';

/** Processes that the daemon has started. */
export function childrenOf({ pid }: Victim): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      .trim()
      .split(' ')
      .filter(Boolean)
      .map(Number);
  } catch {
    return [];
  }
}

/** Watches the engine process until `stop`. Resolves with the peak of its private memory in MiB. */
export function watchEngine(victim: Victim): { stop(): Promise<number> } {
  let peak_mib = 0;
  let over = false;
  const looking = (async () => {
    while (!over) {
      for (const pid of childrenOf(victim))
        peak_mib = Math.max(peak_mib, status_mib(pid, 'RssAnon'));
      await sleep(EVERY_MS);
    }
  })();
  return {
    stop: async () => {
      over = true;
      await looking;
      return peak_mib;
    },
  };
}

const EVERY_MS = 50;

export interface Run {
  id: string;
  state: string;
  output: string;
  error: { code: string; message: string } | null;
}

export async function ask(victim: Victim, body: object): Promise<string> {
  const response = await fetch(`${victim.url}/v1/runs`, {
    method: 'POST',
    headers: { ...victim.bearer, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const { id, error } = (await response.json()) as { id?: string; error?: unknown };
  if (id === undefined) throw new Error(`A run was refused: ${JSON.stringify(error)}.`);
  return id;
}

export async function show({ url, bearer }: Victim, id: string): Promise<Run> {
  return (await (await fetch(`${url}/v1/runs/${id}`, { headers: bearer })).json()) as Run;
}

/** Resolves with the run once it has ended; throws when that takes longer than the wait. */
export async function ended(
  victim: Victim,
  id: string,
  within_ms = 120_000,
): Promise<Run & { took_ms: number }> {
  const began = performance.now();
  for (;;) {
    const run = await show(victim, id);
    const took_ms = performance.now() - began;
    if (ENDS.has(run.state)) return { ...run, took_ms };
    if (took_ms > within_ms)
      throw new Error(`${id} is still ${run.state} after ${Math.round(took_ms / 1000)} s.`);
    await sleep(EVERY_MS);
  }
}

const ENDS = new Set(['completed', 'failed', 'cancelled', 'timed_out', 'interrupted']);
