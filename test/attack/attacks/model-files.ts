import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hostileGgufs } from '../../fixtures/models/hostile-gguf.ts';
import type { Attack } from '../attack.ts';
import { ask, ended, watchEngine } from '../engine-child.ts';

/**
 * Model files of a hundred bytes that lie about what comes: they end the runs that ask for them,
 * and no others.
 */
export const attack: Attack = {
  summary: 'runs ask for model files whose heads lie, each beside a run of the built-in model',
  memory_mib: { short: 120, long: 120 },
  async run(victim, scale) {
    const { models } = victim.home.paths;
    mkdirSync(models, { recursive: true, mode: 0o700 });
    const engine = watchEngine(victim);
    for (const [name, bytes] of Object.entries(hostileGgufs())) {
      writeFileSync(join(models, `${name}.gguf`), bytes);
      const bad = await ask(victim, { prompt: 'hello', model: name });
      const good = await ask(victim, { prompt: 'What is svc?', model: 'svc-mini' });
      const answered = await ended(victim, good);
      if (answered.state !== 'completed')
        throw new Error(
          `Beside ${name} the built-in model ${answered.state}: ${answered.error?.message}`,
        );
      if (scale === 'long' && answered.took_ms > 20_000)
        throw new Error(
          `Beside ${name} the built-in model took ${Math.round(answered.took_ms)} ms.`,
        );
      const refused = await ended(victim, bad);
      if (refused.error?.code !== 'model_invalid')
        throw new Error(`${name} ended as ${refused.state}, ${refused.error?.code}.`);
    }
    const peak_mib = await engine.stop();
    if (peak_mib > ENGINE_MIB)
      throw new Error(`The engine took ${peak_mib} MiB; ${ENGINE_MIB} are allowed.`);
  },
};

const ENGINE_MIB = 600;
