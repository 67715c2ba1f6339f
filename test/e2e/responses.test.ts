import OpenAI from 'openai';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Home } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { followAnswer } from '../torture/answers.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { withLocalModels } from './local-life.ts';

/** A response of the `openai` package, while its daemon is killed with SIGKILL. */
const test = suite<{ home: Home; life: Life }>('a response that is cut off');

/** A response has no seed. With guesses of its next tokens a processor may round otherwise. */
withLocalModels(test, { SVC_ENGINE_BATCHING: 'false' });

/** A client with the token of the home, at the address of this life. */
async function clientOf(life: Life): Promise<OpenAI> {
  const { addresses } = await life.ask((client) => client.call('status'));
  const { token } = await life.ask((client) => client.call('token'));
  return new OpenAI({ baseURL: `${addresses.http}/v1`, apiKey: token, maxRetries: 0 });
}

const deltaOf = (event: ResponseStreamEvent) =>
  event.type === 'response.output_text.delta' ? event.delta : '';

/** Reads until the stream breaks. Kills the daemon after this many deltas; null: never. */
async function read(
  stream: AsyncIterable<ResponseStreamEvent>,
  heard: ResponseStreamEvent[],
  life: Life,
  kill_after: number | null,
): Promise<void> {
  let deltas = 0;
  try {
    for await (const event of stream) {
      heard.push(event);
      if (deltaOf(event) !== '') deltas += 1;
      if (deltas === kill_after) life.child.kill('SIGKILL');
    }
  } catch (error) {
    if (kill_after === null) throw error;
  }
}

const ASK = {
  model: 'local/slow',
  input: 'Tell me all of it: 日本語 🙂',
  temperature: 0.8,
  max_output_tokens: 400,
};
const KILLS = [5, 12];

test('twice by a kill of the daemon is whole, and each event comes once', async (context) => {
  const heard: ResponseStreamEvent[] = [];
  const created = await (await clientOf(context.life)).responses.create({
    ...ASK,
    background: true,
    stream: true,
  });
  await read(created, heard, context.life, KILLS[0] ?? 0);
  const [first] = heard;
  const id = first?.type === 'response.created' ? first.response.id : '';
  for (const kill_after of [...KILLS.slice(1), null]) {
    await context.life.ended;
    context.life = await serve(context.home);
    const client = await clientOf(context.life);
    const starting_after = heard.at(-1)?.sequence_number ?? 0;
    const stream = await client.responses.retrieve(id, { stream: true, starting_after });
    await read(stream, heard, context.life, kill_after);
  }
  assert.equal(
    heard.map((event) => event.sequence_number),
    heard.map((_, index) => index),
  );
  const last = heard.at(-1);
  if (last?.type !== 'response.incomplete') throw new Error(`it ended with ${last?.type}`);
  const text = heard.map(deltaOf).join('');
  const client = await clientOf(context.life);
  const kept = await client.responses.retrieve(id);
  assert.is(kept.output_text, text);
  assert.equal(last.response.output, kept.output);
  const again: ResponseStreamEvent[] = [];
  await read(await client.responses.retrieve(id, { stream: true }), again, context.life, null);
  assert.equal(again, heard);

  const run_id = id.replace('resp_', 'run_');
  const why = await context.life.ask((control) =>
    control.call('log.stream', { stream: run_id, from_version: 1, limit: 1000 }),
  );
  const starts = why.events.filter(({ type }) => type === 'run.started');
  assert.is(starts.length, KILLS.length + 1);
  const { request } = why.events[0]?.data ?? {};
  const { seed } = request as { seed: number };
  const undisturbed = await followAnswer(context.home, {
    prompt: ASK.input,
    model: 'slow',
    temperature: ASK.temperature,
    seed,
    max_tokens: ASK.max_output_tokens,
  });
  assert.is(text, undisturbed.text);
});

test('in the background, without a reader, is whole after the next start', async (context) => {
  const client = await clientOf(context.life);
  const { id } = await client.responses.create({
    ...ASK,
    temperature: 0,
    max_output_tokens: 300,
    background: true,
  });
  await waitFor(
    'it has begun',
    async () => (await client.responses.retrieve(id)).output_text !== '',
  );
  await context.life.kill();
  context.life = await serve(context.home);
  const later = await clientOf(context.life);
  const whole = await waitFor('it has ended', async () => {
    const response = await later.responses.retrieve(id);
    return response.status === 'incomplete' && response;
  });
  assert.is(whole.usage?.output_tokens, 300);
  const undisturbed = await followAnswer(context.home, {
    prompt: ASK.input,
    model: 'slow',
    temperature: 0,
    max_tokens: 300,
  });
  assert.is(whole.output_text, undisturbed.text);
  await later.responses.delete(id);
  const gone = await later.responses.retrieve(id).catch((error: { status?: number }) => error);
  assert.is((gone as { status?: number }).status, 404);
});

test.run();
