import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkGguf } from '../../src/models/gguf/check.ts';
import { memoryNeeds, shapeOf, weightsOf } from '../../src/models/memory-needs.ts';
import { connect } from '../../src/transport/control/client.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { serve } from '../torture/daemon.ts';
import { makeHome } from './svc.ts';

export interface SeveralModels {
  clients: number;
  runs: number;
  /** Tokens of one answer. */
  tokens: number;
  turn_ms: number;
}

export interface SeveralOutcome {
  /** HTTP statuses of the runs by number. */
  statuses: Record<string, number>;
  loads: number;
  /** Loads if the runs were served in the order in which they came. */
  loads_in_order: number;
  /** Most models with a process at one time. */
  most: number;
  passed_ms: number;
  longest_wait_ms: number;
}

const MODELS = ['a', 'b', 'c'];
const PLACES = 2;

/**
 * Three models with memory for two. Each client asks one model, one run after the other, over HTTP.
 */
export async function askSeveralModels(options: SeveralModels): Promise<SeveralOutcome> {
  const { clients, runs, tokens, turn_ms } = options;
  const home = makeHome({
    SVC_MODEL: 'a',
    SVC_LOG_LEVEL: 'warn',
    SVC_ENGINE_THREADS: '1',
    SVC_LIMIT_ENGINE_TURN_MS: String(turn_ms),
  });
  mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
  const [path = '', ...copies] = MODELS.map((name) => join(home.paths.models, `${name}.gguf`));
  makeGguf(path, { context: 4096, template: null });
  for (const copy of copies) copyFileSync(path, copy);
  const shape = shapeOf((await checkGguf(path, 1e8))[0], await weightsOf(path));
  const each = memoryNeeds(shape, { parallel: 4, context_tokens: 4096 });
  const env = { SVC_MODELS_MEMORY_BYTES: String(Math.floor((PLACES + 0.5) * each)) };
  const life = await serve(home, { env });
  const control = await connect(home.paths.socket);
  try {
    const { addresses } = await control.call('status');
    const token = readFileSync(home.paths.token, 'utf8').trim();
    const statuses: Record<string, number> = {};
    let [left, most, longest] = [runs, 0, 0];
    const began = performance.now();
    const client = async (number: number) => {
      while (left > 0) {
        left -= 1;
        const asked = performance.now();
        const response = await fetch(`${addresses.http}/v1/chat/completions`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${token}`,
            'content-type': 'application/json',
            'x-svc-client': `client-${number}`,
          },
          body: JSON.stringify({
            model: `local/${MODELS[number % MODELS.length]}`,
            max_tokens: tokens,
            messages: [{ role: 'user', content: `run ${left}` }],
          }),
        });
        await response.text();
        statuses[response.status] = (statuses[response.status] ?? 0) + 1;
        longest = Math.max(longest, performance.now() - asked);
        const { models } = await control.call('model.ps');
        most = Math.max(most, models.filter(({ memory_bytes }) => memory_bytes !== null).length);
      }
    };
    await Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
    const passed_ms = performance.now() - began;
    const { loads, asked } = await countIn(control);
    return {
      statuses,
      loads,
      most,
      passed_ms,
      longest_wait_ms: longest,
      loads_in_order: loadsInOrder(asked),
    };
  } finally {
    await control.call('lifecycle', { type: 'stop_requested', mode: 'force' }).catch(() => {});
    control.close();
    await life.ended;
    await home.close();
  }
}

/** Loads, and the models of the runs in the order of their acceptance, from the log. */
async function countIn(control: Awaited<ReturnType<typeof connect>>) {
  const asked: string[] = [];
  let loads = 0;
  for (let from_seq = 1; ; ) {
    const { events } = await control.call('log.read', { from_seq, limit: 500 });
    for (const { type, data } of events) {
      if (type === 'engine.model_loaded') loads += 1;
      if (type === 'run.accepted') asked.push((data.request as { model: string }).model);
    }
    const last = events.at(-1);
    if (last === undefined) return { loads, asked };
    from_seq = last.seq + 1;
  }
}

/** Each run loads its model unless it is one of those used last. */
function loadsInOrder(asked: readonly string[]): number {
  let [loads, loaded] = [0, [] as string[]];
  for (const model of asked) {
    if (!loaded.includes(model)) loads += 1;
    loaded = [...loaded.filter((other) => other !== model), model].slice(-PLACES);
  }
  return loads;
}
