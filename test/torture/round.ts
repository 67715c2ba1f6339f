import { followAnswer } from './answers.ts';
import { type Checked, checkLog, type References } from './check.ts';
import { SAMPLED, startClients } from './clients.ts';
import { random } from './random.ts';
import { World } from './world.ts';

export interface RoundResult extends Checked {
  cycles: number;
  counts: World['counts'];
  ready_ms: number[];
  /** Runs of the clients. */
  asked: number;
}

export interface RoundOptions {
  seed: number;
  cycles: number;
  clients: number;
  /** Starts no cycle after an abort. */
  signal: AbortSignal;
}

/** One home: undisturbed answers, then cycles of kills under load, then the check of the log. */
export async function tortureRound({
  seed,
  cycles,
  clients: count,
  signal,
}: RoundOptions): Promise<RoundResult> {
  const world = await World.open();
  try {
    const references = await undisturbed(world);
    const draw = random(seed);
    const clients = startClients({
      home: world.home,
      draw: random(seed + 1),
      count,
      name: `r${seed}`,
    });
    let done = 0;
    for (; done < cycles && !signal.aborted; done += 1) await world.cycle(draw);
    await clients.finish();
    await world.stop(60_000);
    const checked = await checkLog(world.home, clients.seen, references);
    return {
      ...checked,
      problems: [...clients.problems, ...checked.problems],
      cycles: done,
      counts: world.counts,
      ready_ms: world.ready_ms,
      asked: clients.seen.length,
    };
  } finally {
    await world.close();
  }
}

async function undisturbed({ home }: World): Promise<References> {
  const references = new Map<string, { text: string; token_ids: number[] }>();
  for (const request of SAMPLED) {
    const { text, token_ids, record } = await followAnswer(home, request);
    if (record?.state !== 'completed')
      throw new Error(`the undisturbed answer was not completed: ${record?.state}`);
    references.set(request.prompt, { text, token_ids });
  }
  return references;
}
