import * as assert from 'uvu/assert';
import { Hub } from '../../helpers/hub.ts';
import { makeModel } from '../../helpers/pulls.ts';
import { startFakeModel } from '../../torture/fake-model.ts';
import type { Walked } from '../edges.ts';
import { House, waitLong } from '../life.ts';
import { closeLater } from '../opened.ts';
import { startHeld } from '../walk-run.ts';

/** Lives that show what the other lives of a walk do not: answers that come to their end after a death or a retry, and a pull that is resumed. */

/** The daemon dies in the middle of an answer, then the engine in the middle of another; both are completed. */
async function completedAfterDeath(): Promise<Walked> {
  const house = await House.build({}, { engine: true });
  await house.start('ready');
  const cut = await startHeld(house, { max_tokens: 150 });
  await house.kill();
  await house.start(['ready', 'running.accepting']);
  await house.untilRun(cut.id, 'completed');
  const lost = await startHeld(house, { max_tokens: 150 });
  process.kill(lost.engine, 'SIGKILL');
  await house.untilRun(lost.id, 'completed');
  await house.untilRun(
    await house.run('finish', { provider: 'up', idempotency_key: 'a-key' }),
    'completed',
  );
  house.signal('SIGTERM');
  await house.gone(0);
  return house.leave();
}

/** What was asked is not in the log, and the run is completed all the same. */
async function omittedAndCompleted(): Promise<Walked> {
  const house = await House.build({ HISTORY_PROMPTS: 'omit' });
  await house.start('ready');
  await house.untilRun(await house.run('say finish'), 'completed');
  await house.untilRun(await house.run('503'), 'failed');
  house.signal('SIGTERM');
  await house.gone(0);
  return house.leave();
}

/** A provider that refuses each prompt once. */
async function completedAfterRetry(): Promise<Walked> {
  const busy = await startFakeModel();
  const stopBusy = closeLater(() => busy.stop());
  const house = await House.build({}, { providers: { up: {}, busy: { base_url: busy.base_url } } });
  await house.start('ready');
  await house.untilRun(await house.run('fake again 3 0 fails', { provider: 'busy' }), 'completed');
  await house.kill();
  const walked = await house.leave();
  await stopBusy();
  return walked;
}

/** A model is fetched, and another is cancelled in the middle and goes on from there. */
async function fetchedInParts(): Promise<Walked> {
  const hub = await Hub.start({ 'small.gguf': makeModel(64), 'parts.gguf': makeModel(64, 2) });
  const stopHub = closeLater(() => hub.stop());
  const house = await House.build({ LIMIT_PULL_SPARE_BYTES: 0 });
  await house.start('ready');
  const pull = (file: string) => house.home.spawn(['model', 'pull', `${hub.url}/${file}`]);
  assert.is((await pull('small.gguf').ended).code, 0);
  hub.next.push({ hangAfter: 20_000 });
  const cut = pull('parts.gguf');
  await waitLong('some of it was sent', () => hub.downloads.at(-1)?.sent === 20_000);
  await waitLong('the command shows it', () => /parts/.test(cut.stderr()));
  cut.child.kill('SIGINT');
  assert.is((await cut.ended).code, 130);
  assert.is((await pull('parts.gguf').ended).code, 0);
  await house.kill();
  const walked = await house.leave();
  await stopHub();
  return walked;
}

export const moreLives = [
  completedAfterDeath,
  omittedAndCompleted,
  completedAfterRetry,
  fetchedInParts,
];
