import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { makeLoopingModel } from '../../fixtures/models/hostile-gguf.ts';
import { waitFor } from '../../helpers/wait.ts';
import type { Attack } from '../attack.ts';
import { ask, ended, watchEngine } from '../engine-child.ts';

/** A model file that passes every check, with a chat template that is never done. */
export const attack: Attack = {
  summary:
    'runs ask for a model whose chat template loops: one is cancelled, one waits, one comes after',
  env: () => ({ SVC_LIMIT_ENGINE_TEMPLATE_MS: '2000' }),
  memory_mib: { short: 120, long: 120 },
  async run(victim, scale) {
    const { models } = victim.home.paths;
    mkdirSync(models, { recursive: true, mode: 0o700 });
    makeLoopingModel(join(models, 'loop.gguf'));
    const engine = watchEngine(victim);
    const answers = async (when: string) => {
      const { state, error, took_ms } = await ended(
        victim,
        await ask(victim, { prompt: 'What is svc?', model: 'svc-mini' }),
      );
      if (state !== 'completed')
        throw new Error(`The built-in model ${state} ${when}: ${error?.message}`);
      if (scale === 'long' && took_ms > 30_000)
        throw new Error(`The built-in model took ${Math.round(took_ms)} ms ${when}.`);
    };
    const cancelled = await ask(victim, { prompt: 'hello', model: 'loop' });
    await waitFor('it loads', async () => (await engineOf(victim)) === 'loading', {
      every_ms: 20,
      within_ms: 60_000,
    });
    await fetch(`${victim.url}/v1/runs/${cancelled}/cancel`, {
      method: 'POST',
      headers: victim.bearer,
    });
    await answers('after the run was cancelled');
    const waits = await ask(victim, { prompt: 'hello', model: 'loop' });
    await answers('while another run loads the model');
    const { error } = await ended(victim, waits);
    if (error?.code !== 'engine_timed_out')
      throw new Error(`The run that waited ended with ${error?.code}.`);
    const again = await ended(victim, await ask(victim, { prompt: 'hello', model: 'loop' }));
    if (again.error?.code !== 'model_quarantined')
      throw new Error(`The same file was tried again: ${again.error?.code}.`);
    const peak_mib = await engine.stop();
    if (peak_mib > ENGINE_MIB)
      throw new Error(`The engine took ${peak_mib} MiB; ${ENGINE_MIB} are allowed.`);
  },
};

const ENGINE_MIB = 600;

async function engineOf({
  url,
  bearer,
}: {
  url: string;
  bearer: Record<string, string>;
}): Promise<string> {
  const { engine } = (await (
    await fetch(`${url}/v1/runtime/health`, { headers: bearer })
  ).json()) as { engine: { state: string } };
  return engine.state;
}
