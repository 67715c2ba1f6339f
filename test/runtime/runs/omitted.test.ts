import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { strippingStore } from '../../../src/kernel/content.ts';
import { foldStream } from '../../../src/kernel/fold.ts';
import type { AttemptRequest } from '../../../src/ports/providers.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

const WORDS = ['Once ', 'upon ', 'a ', 'time ', 'it ', 'ended.'];
const KEEP = { prompts: 'keep', outputs: 'keep', redact: [] } as const;
const forever = () => new Promise<void>(() => {});

/** Continues from the recorded tokens, up to a word. */
const speaker = (until: number, last: (() => Promise<void>) | Error = forever) =>
  new ScriptedProvider('local', ({ resume }: AttemptRequest) => [
    ...WORDS.slice(resume?.token_ids.length ?? 0, until).map((word, index) =>
      output(word, 100 + index),
    ),
    ...(until < WORDS.length ? [last] : [finish()]),
  ]);

/** A run that began in a boot with outputs and continued in a boot that omits them. */
async function continuedRun(
  second: ScriptedProvider,
  settings: { outputs?: 'omit'; redact?: string[] } = { outputs: 'omit' },
) {
  const store = createMemoryStore();
  const first = await bootRuntime({ local: speaker(3), store });
  const { id } = await first.runtime.runs.start({ prompt: 'tell', recovery: 'resume' }, 'test');
  await waitFor(
    'three words are said',
    async () => (await first.runtime.runs.get(id)).output === 'Once upon a ',
  );
  first.kernel.close();
  const booted = await bootRuntime({
    local: second,
    store: strippingStore(store, { ...KEEP, ...settings }),
    boot_id: 'boot_2',
  });
  return { ...booted, store, id };
}

for (const settings of [{ outputs: 'omit' as const }, { redact: ['secret'] }]) {
  test(`a run whose answer has a part missing from the log does not resume: ${JSON.stringify(settings)}`, async () => {
    const { runtime, kernel, store, id } = await continuedRun(speaker(5), settings);
    await waitFor(
      'two more words are said',
      async () => (await runtime.runs.get(id)).output === 'Once upon a time it ',
    );
    kernel.close();
    const local = speaker(6);
    const third = await bootRuntime({ local, store, boot_id: 'boot_3' });
    await waitFor('it has ended', () => !third.kernel.instances.has(id));
    const { state, error, output: text } = await third.runtime.runs.get(id);
    assert.equal([state, error?.code, text], ['interrupted', 'content_not_kept', 'Once upon a ']);
    assert.equal(local.asked, []);
  });
}

test('such a run does not resume after lost work either, and the log has the state that memory had', async () => {
  const lost = new SvcError('engine_failed', 'The engine died.', { retryable: true, lost: true });
  const local = speaker(5, lost);
  const { runtime, kernel, store, id } = await continuedRun(local);
  await waitFor('it has ended', () => !kernel.instances.has(id));
  const { state, error } = await runtime.runs.get(id);
  assert.equal([state, error?.code], ['interrupted', 'engine_failed']);
  assert.is(local.asked.length, 1);
  assert.is((await foldStream(store, id))?.path, 'interrupted');
});

test('a run with a complete log resumes, whatever this boot keeps', async () => {
  const { kernel, store, id } = await continuedRun(new ScriptedProvider('local', [forever]));
  kernel.close();
  // The next boot opens the log after the last commit of this one.
  await turns();
  const third = await bootRuntime({ local: speaker(6), store, boot_id: 'boot_3' });
  await waitFor('it has ended', () => !third.kernel.instances.has(id));
  const { state, output: text } = await third.runtime.runs.get(id);
  assert.equal([state, text], ['completed', WORDS.join('')]);
});

test.run();
