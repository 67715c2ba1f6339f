import { readFileSync } from 'node:fs';
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import type { Home } from '../helpers/svc.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { withLocalModels } from './local-life.ts';

/**
 * Programs for Anthropic's and Ollama's API ask again with the same key after kill -9, and lose
 * nothing.
 */
const test = suite<{ home: Home; life: Life }>('an answer in the API of Anthropic or Ollama');

withLocalModels(test);

const messages = [{ role: 'user' as const, content: 'Tell me all of it: 日本語 🙂' }];
const LENGTH = 300;

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
  text: string;
  tokens: number;
  /** Why the answer ended. Null: it was cut off. */
  reason: string | null;
}
type Read = (home: Home, key: string, heard: Heard, onText: () => void) => Promise<void>;

const readMessage: Read = async (home, key, heard, onText) => {
  const { url, token } = place(home);
  const client = new Anthropic({ baseURL: url, apiKey: token, maxRetries: 0 });
  const asked = { model: 'local/slow', max_tokens: LENGTH, temperature: 0, messages };
  const stream = client.messages.stream(asked, { headers: { 'Idempotency-Key': key } });
  for await (const event of stream) {
    if (event.type === 'message_delta') {
      heard.reason = event.delta.stop_reason;
      heard.tokens = event.usage.output_tokens;
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
  const asked = { model: 'local/slow', messages, options, stream: true as const };
  for await (const line of await client.chat(asked)) {
    heard.text += line.message.content;
    if (line.done) [heard.reason, heard.tokens] = [line.done_reason, line.eval_count];
    onText();
  }
};

/** What a client reads until the answer or the connection ends. */
async function hear(read: Read, home: Home, key: string, onText = (_: Heard) => {}) {
  const heard: Heard = { text: '', tokens: 0, reason: null };
  await read(home, key, heard, () => onText(heard)).catch((error: unknown) => {
    assert.instance(error, Error);
    if (heard.text === '') throw error;
  });
  return heard;
}

for (const [name, read, reason] of [
  ['a message', readMessage, 'max_tokens'],
  ['a chat', readChat, 'length'],
] as const)
  test(`the death of the daemon changes nothing of ${name}`, async (context) => {
    const key = `order-7-${reason}`;
    const whole = await hear(read, context.home, `undisturbed-${reason}`);
    assert.equal([whole.reason, whole.tokens], [reason, LENGTH]);
    const before = await hear(read, context.home, key, ({ text }) => {
      if (text.length > 20) context.life.child.kill('SIGKILL');
    });
    await context.life.ended;
    assert.is(before.reason, null, 'it was cut off');
    context.life = await serve(context.home);
    const after = await hear(read, context.home, key);
    assert.equal(after, whole);
    assert.ok(after.text.startsWith(before.text), 'nothing that was read is taken back');
  });

test.run();
