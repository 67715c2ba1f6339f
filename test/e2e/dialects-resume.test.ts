import { readFileSync } from 'node:fs';
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import type { Home } from '../helpers/svc.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { withLocalModels } from './local-life.ts';

/**
 * Programs for the APIs of OpenAI, Anthropic and Ollama ask again with the same key after kill -9,
 * and lose nothing.
 */
const test = suite<{ home: Home; life: Life }>('an answer in the API of another');

withLocalModels(test);

const messages = [{ role: 'user' as const, content: 'Tell me all of it: 日本語 🙂' }];
const LENGTH = 300;
const model = 'local/slow';

/** The daemon has another address after each start. */
function place({ paths }: Home): { url: string; token: string } {
  const found = readRuntimeFile(paths.runtime);
  if (found.kind !== 'present') throw new Error('the daemon is not there');
  return {
    url: String(found.file.addresses.http),
    token: readFileSync(paths.token, 'utf8').trim(),
  };
}

interface Heard {
  id: string;
  text: string;
  /** Why the answer ended. Null: it was cut off. */
  reason: string | null;
}
type Read = (home: Home, key: string, heard: Heard, onText: () => void) => Promise<void>;

function openaiOf(home: Home): OpenAI {
  const { url, token } = place(home);
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
}

const completion = (seed: number) => ({
  model,
  temperature: 0.7,
  seed,
  max_completion_tokens: LENGTH,
  messages,
  stream: true as const,
});

const readCompletion: Read = async (home, key, heard, onText) => {
  const { completions } = openaiOf(home).chat;
  const headers = { 'Idempotency-Key': key };
  for await (const { id, choices } of await completions.create(completion(5), { headers })) {
    const [choice] = choices;
    heard.id = id;
    heard.text += choice?.delta.content ?? '';
    heard.reason = choice?.finish_reason ?? heard.reason;
    onText();
  }
};

const readMessage: Read = async (home, key, heard, onText) => {
  const { url, token } = place(home);
  const client = new Anthropic({ baseURL: url, apiKey: token, maxRetries: 0 });
  const asked = { model, max_tokens: LENGTH, temperature: 0, messages };
  const stream = client.messages.stream(asked, { headers: { 'Idempotency-Key': key } });
  for await (const event of stream) {
    if (event.type === 'message_start') heard.id = event.message.id;
    if (event.type === 'message_delta') {
      heard.reason = event.delta.stop_reason;
      assert.is(event.usage.output_tokens, LENGTH);
    }
    if (event.type !== 'content_block_delta' || event.delta.type !== 'text_delta') continue;
    heard.text += event.delta.text;
    onText();
  }
};

const readChat: Read = async (home, key, heard, onText) => {
  const { url, token } = place(home);
  const headers = { authorization: `Bearer ${token}`, 'idempotency-key': key };
  const client = new Ollama({ host: url, headers });
  const options = { temperature: 0.7, seed: 5, num_predict: LENGTH };
  for await (const line of await client.chat({ model, messages, options, stream: true })) {
    heard.text += line.message.content;
    if (line.done) {
      heard.reason = line.done_reason;
      assert.is(line.eval_count, LENGTH);
    }
    onText();
  }
};

const READERS = [
  [readCompletion, 'length'],
  [readMessage, 'max_tokens'],
  [readChat, 'length'],
] as const;

/** What the clients read until the answers or the connections end. */
function hear(home: Home, key: string, onText = (_: readonly Heard[]) => {}): Promise<Heard[]> {
  const all = READERS.map((): Heard => ({ id: '', text: '', reason: null }));
  return Promise.all(
    READERS.map(async ([read], index) => {
      const heard = all[index] as Heard;
      await read(home, `${key}-${index}`, heard, () => onText(all)).catch((error: unknown) => {
        assert.instance(error, Error);
        if (heard.text === '') throw error;
      });
      return heard;
    }),
  );
}

test('the death of the daemon changes nothing of it', async (context) => {
  const whole = await hear(context.home, 'undisturbed');
  assert.equal(
    whole.map(({ reason }) => reason),
    READERS.map(([, reason]) => reason),
  );
  const before = await hear(context.home, 'order-7', (all) => {
    if (all.every(({ text }) => text.length > 20)) context.life.child.kill('SIGKILL');
  });
  await context.life.ended;
  for (const { reason } of before) assert.is(reason, null, 'it was cut off');
  context.life = await serve(context.home);
  const after = await hear(context.home, 'order-7');
  for (const [index, { id, text, reason }] of after.entries()) {
    assert.equal([text, reason], [whole[index]?.text, whole[index]?.reason]);
    assert.is(id, before[index]?.id);
    assert.ok(text.startsWith(before[index]?.text ?? '?'), 'nothing that was read is taken back');
  }
});

test('without a key, the run of a program that has gone is cancelled', async (context) => {
  const leave = new AbortController();
  const { completions } = openaiOf(context.home).chat;
  const stream = await completions.create(completion(6), { signal: leave.signal });
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
