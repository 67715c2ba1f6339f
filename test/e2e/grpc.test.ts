import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Message, type RuntimeClient, runtimeClient } from '../grpc/runtime-client.ts';
import type { Home } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { followAnswer } from '../torture/answers.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { BEGIN, whileEngineIsStopped, withLocalModels } from './local-life.ts';

/** A gRPC client gets the whole answer, over a kill of the daemon. */
const test = suite<{ home: Home; life: Life }>('runs over gRPC that survive');

withLocalModels(test);

const REQUEST = { prompt: 'all of it', model: 'slow', temperature: 0.8, seed: 4, max_tokens: 400 };
const UNAVAILABLE = 14;
const OK = 0;

/** A client with the token of the home, at the address of this life. */
async function connect(life: Life): Promise<RuntimeClient> {
  const { addresses } = await life.ask((client) => client.call('status'));
  const { token } = await life.ask((client) => client.call('token'));
  return runtimeClient(addresses.grpc ?? '', { token });
}

const textOf = (updates: Message[]) => updates.map(({ output }) => output?.text ?? '').join('');

test('a run whose daemon is killed continues, and Attach gets each update once', async (context) => {
  const whole = await followAnswer(context.home, REQUEST);
  let client = await connect(context.life);
  const run = client.stream('Run', REQUEST);
  await waitFor('the answer has begun', () => run.text().length > 20, BEGIN);
  await whileEngineIsStopped(context.life, () => context.life.kill());
  assert.is((await run.ended).code, UNAVAILABLE);
  const id = await run.runId;
  const updates = run.updates.filter(({ seq }) => seq !== undefined);
  client.close();

  context.life = await serve(context.home);
  client = await connect(context.life);
  const rest = client.stream('Attach', { id, from_seq: updates.at(-1).seq + 1 });
  assert.is((await rest.ended).code, OK);
  updates.push(...rest.updates.filter(({ seq }) => seq !== undefined));
  assert.is(textOf(updates), whole.text);
  const seqs = updates.map(({ seq }) => seq);
  assert.equal(
    seqs,
    [...new Set(seqs)].sort((a, b) => a - b),
  );
  const types = updates.map(({ event }) => event?.type);
  assert.ok(types.includes('run.recovered'));
  assert.is(updates.at(-1).ended.state, 'completed');
  const again = client.stream('Attach', { id });
  await again.ended;
  assert.equal(again.updates, updates);
  client.close();
});

test.run();
