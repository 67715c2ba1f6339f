import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Attack, Victim } from '../attack.ts';
import { ask, childrenOf, ended, show } from '../engine-child.ts';

/**
 * One run kills the engine whenever it is computed, as a prompt that hits a fault of native code
 * does; its neighbours are answered.
 */
export const attack: Attack = {
  summary: 'the engine dies whenever one run is computed, and three others are in it',
  env: () => ({ SVC_LIMIT_RUN_LOSSES: '2' }),
  memory_mib: { short: 120, long: 120 },
  async run(victim, scale) {
    for (let round = 0; round < (scale === 'short' ? 1 : 4); round += 1) {
      const killer = await ask(victim, {
        prompt: `Who are you? ${'word '.repeat(300)}`,
        max_tokens: 200,
      });
      const killing = kill(victim, killer, DEATHS);
      const neighbours = await Promise.all(
        ['What is svc?', 'How do I stop the daemon?', 'Can I see my old runs?'].map((prompt) =>
          ask(victim, { prompt }),
        ),
      );
      for (const id of neighbours) {
        const { state, error } = await ended(victim, id);
        if (state !== 'completed')
          throw new Error(`A neighbour of the killer ${state}: ${error?.message}`);
      }
      const deaths = await killing;
      if (deaths === 0) throw new Error('The engine was never killed.');
      await ended(victim, killer);
    }
  },
};

const DEATHS = 8;

/**
 * Ends the engine each time that the run is being answered, before it has any text. Resolves with
 * how often that was. Each look stops the engine meanwhile: a prompt takes it a few milliseconds,
 * and nothing may happen between the look and the signal.
 */
async function kill(victim: Victim, id: string, most: number): Promise<number> {
  const killed = new Set<number>();
  for (let isOver = false; !isOver && killed.size < most; await sleep(1)) {
    const living = childrenOf(victim).filter((child) => !killed.has(child) && isEngine(child));
    for (const pid of living) send(pid, 'SIGSTOP');
    try {
      const { state, output } = await show(victim, id);
      isOver = output !== '' || ['completed', 'failed', 'interrupted'].includes(state);
      if (!isOver && state === 'starting' && (await isComputing(victim)))
        for (const pid of living) if (send(pid, 'SIGABRT')) killed.add(pid);
    } finally {
      for (const pid of living) send(pid, 'SIGCONT');
    }
  }
  return killed.size;
}

/**
 * A child that has not begun its program yet is the daemon's own copy. The daemon waits for it
 * meanwhile, so it must not be stopped.
 */
function isEngine(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('engine/main.js');
  } catch {
    return false;
  }
}

/** False for a process that has ended. */
function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

async function isComputing({ url, bearer }: Victim): Promise<boolean> {
  const { engine } = (await (
    await fetch(`${url}/v1/runtime/health`, { headers: bearer })
  ).json()) as { engine: { state: string } };
  return engine.state === 'warm.busy';
}
