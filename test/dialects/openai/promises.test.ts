import { createHook } from 'node:async_hooks';
import { Agent, request } from 'node:http';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import { bootReal } from '../../transport/http/real.ts';

/** Measured: 168. Each promise costs a request time and memory, and is easily added. */
const PROMISES_MAX = 174;
const RUNS = 20;

test('a streamed completion makes few promises', async () => {
  const real = await bootReal({ script: [output('all words', 1), finish()] });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  // The client makes none: it has callbacks.
  const ask = (address: string, done: (text: string) => void) => {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    const sent = request(`${address}/v1/chat/completions`, { method: 'POST', agent, headers });
    sent.on('response', (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      answer.on('end', () => done(text));
    });
    sent.end(JSON.stringify({ stream: true, messages: [{ role: 'user', content: 'hi' }] }));
  };
  const askAll = (count: number) =>
    new Promise<void>((resolve) => {
      const next = (left: number) => {
        if (left === 0) return resolve();
        ask(real.url, (text) => {
          assert.match(text, /all words/);
          next(left - 1);
        });
      };
      next(count);
    });
  let promises = 0;
  const counting = createHook({
    init: (_, type) => {
      if (type === 'PROMISE') promises += 1;
    },
  });
  try {
    await askAll(5);
    counting.enable();
    await askAll(RUNS);
    counting.disable();
    const each = Math.round(promises / RUNS);
    assert.ok(each <= PROMISES_MAX, `${each} promises a request, at most ${PROMISES_MAX}`);
  } finally {
    counting.disable();
    agent.destroy();
    await real.close();
  }
});

test.run();
