import { readFileSync } from 'node:fs';
import OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import type { Home } from '../helpers/svc.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { withLocalModels } from './local-life.ts';

/** A program that was written for OpenAI asks again with the same key, and loses nothing. */
const test = suite<{ home: Home; life: Life }>('an answer in the API of OpenAI');

withLocalModels(test);

const asking = (seed: number) => ({
  model: 'local/slow',
  temperature: 0.7,
  seed,
  max_completion_tokens: 300,
  messages: [{ role: 'user' as const, content: 'Tell me all of it: 日本語 🙂' }],
  stream: true as const,
});

/** The daemon has another address after each start. */
function clientOf({ paths }: Home): OpenAI {
  const found = readRuntimeFile(paths.runtime);
  if (found.kind !== 'present') throw new Error('the daemon is not there');
  const { http } = found.file.addresses;
  const apiKey = readFileSync(paths.token, 'utf8').trim();
  return new OpenAI({ baseURL: `${http}/v1`, apiKey, maxRetries: 0 });
}

interface Heard {
  id: string;
  text: string;
  finish_reason: string | null;
}

/** What the client reads until the answer or the connection ends. */
async function read(
  home: Home,
  seed: number,
  key: string,
  onText: (length: number) => void = () => {},
): Promise<Heard> {
  const heard: Heard = { id: '', text: '', finish_reason: null };
  const headers = { 'Idempotency-Key': key };
  try {
    for await (const chunk of await clientOf(home).chat.completions.create(asking(seed), {
      headers,
    })) {
      heard.id = chunk.id;
      const [choice] = chunk.choices;
      heard.text += choice?.delta.content ?? '';
      heard.finish_reason = choice?.finish_reason ?? heard.finish_reason;
      onText(heard.text.length);
    }
  } catch (error) {
    // The connection was cut off.
    assert.ok(error instanceof TypeError || error instanceof OpenAI.APIError, String(error));
  }
  return heard;
}

test('the death of the daemon changes nothing of it', async (context) => {
  const whole = await read(context.home, 5, 'undisturbed');
  assert.is(whole.finish_reason, 'length');
  const before = await read(context.home, 5, 'order-7', (length) => {
    if (length > 20) context.life.child.kill('SIGKILL');
  });
  await context.life.ended;
  assert.is(before.finish_reason, null, 'it was cut off');
  context.life = await serve(context.home);
  const after = await read(context.home, 5, 'order-7');
  assert.equal([after.id, after.text], [before.id, whole.text]);
  assert.ok(after.text.startsWith(before.text), 'nothing that was read is taken back');
  assert.is(after.finish_reason, 'length');
});

test('without a key, the run of a program that has gone is cancelled', async (context) => {
  const leave = new AbortController();
  const stream = await clientOf(context.home).chat.completions.create(asking(6), {
    signal: leave.signal,
  });
  let id = '';
  for await (const chunk of stream) {
    id = chunk.id.replace('chatcmpl-', 'run_');
    leave.abort();
  }
  const ended = await context.life.ask(async (client) => {
    const following = client.stream('run.follow', { id, from_seq: 0 });
    for await (const _ of following);
    return following.result;
  });
  assert.equal([ended.state, ended.asked_as], ['cancelled', 'openai.chat']);
});

test.run();
