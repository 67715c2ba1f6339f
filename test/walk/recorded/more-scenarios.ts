import * as assert from 'uvu/assert';
import { Hub } from '../../helpers/hub.ts';
import { makeModel } from '../../helpers/pulls.ts';
import { startFakeModel } from '../../torture/fake-model.ts';
import type { Walked } from '../edges.ts';
import { Harness, waitLong } from '../harness.ts';
import { closeLater } from '../opened.ts';
import { startHeld } from '../walk-run.ts';

/**
 * Scenarios for what the walk does not record: answers that complete after a death or a retry, and
 * a resumed pull.
 */

/**
 * The daemon dies in the middle of an answer, then the engine in the middle of another; both are
 * completed.
 */
async function completedAfterDeath(): Promise<Walked> {
  const harness = await Harness.build({}, { engine: true });
  await harness.start('ready');
  const cut = await startHeld(harness, { max_tokens: 150 });
  await harness.kill();
  await harness.start(['ready', 'running.accepting']);
  await harness.untilRun(cut.id, 'completed');
  const lost = await startHeld(harness, { max_tokens: 150 });
  process.kill(lost.engine, 'SIGKILL');
  await harness.untilRun(lost.id, 'completed');
  await harness.untilRun(
    await harness.run('finish', { provider: 'up', idempotency_key: 'a-key' }),
    'completed',
  );
  harness.signal('SIGTERM');
  await harness.gone(0);
  return harness.leave();
}

/** What was asked is not in the log, and the run is completed all the same. */
async function omittedAndCompleted(): Promise<Walked> {
  const harness = await Harness.build({ HISTORY_PROMPTS: 'omit' });
  await harness.start('ready');
  await harness.untilRun(await harness.run('say finish'), 'completed');
  await harness.untilRun(await harness.run('503'), 'failed');
  harness.signal('SIGTERM');
  await harness.gone(0);
  return harness.leave();
}

/** A provider that refuses each prompt once. */
async function completedAfterRetry(): Promise<Walked> {
  const busy = await startFakeModel();
  const stopBusy = closeLater(() => busy.stop());
  const harness = await Harness.build(
    {},
    { providers: { up: {}, busy: { base_url: busy.base_url } } },
  );
  await harness.start('ready');
  await harness.untilRun(
    await harness.run('fake again 3 0 fails', { provider: 'busy' }),
    'completed',
  );
  await harness.kill();
  const walked = await harness.leave();
  await stopBusy();
  return walked;
}

/** A model is fetched, and another is cancelled in the middle and goes on from there. */
async function fetchedInParts(): Promise<Walked> {
  const hub = await Hub.start({ 'small.gguf': makeModel(64), 'parts.gguf': makeModel(64, 2) });
  const stopHub = closeLater(() => hub.stop());
  const harness = await Harness.build({ LIMIT_PULL_SPARE_BYTES: 0 });
  await harness.start('ready');
  const pull = (file: string) => harness.home.spawn(['model', 'pull', `${hub.url}/${file}`]);
  assert.is((await pull('small.gguf').ended).code, 0);
  hub.next.push({ hangAfter: 20_000 });
  const cut = pull('parts.gguf');
  await waitLong('some of it was sent', () => hub.downloads.at(-1)?.sent === 20_000);
  await waitLong('the command shows it', () => /parts/.test(cut.stderr()));
  cut.child.kill('SIGINT');
  assert.is((await cut.ended).code, 130);
  assert.is((await pull('parts.gguf').ended).code, 0);
  await harness.kill();
  const walked = await harness.leave();
  await stopHub();
  return walked;
}

export const moreScenarios = [
  completedAfterDeath,
  omittedAndCompleted,
  completedAfterRetry,
  fetchedInParts,
];
