import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ErrorCode } from '../../../src/errors.ts';
import { outcome, remote } from '../../helpers/remote.ts';
import { gate } from '../../helpers/scripted-provider.ts';
import { chunk, type Exchange, Upstream } from '../../helpers/upstream.ts';

/**
 * An answer is complete or it has failed, whatever a server does. Each row has the behaviour of the
 * server, the delivered text and the outcome.
 */

type Expected =
  | `complete ${'stop' | 'length' | 'content_filter' | 'tool_calls'}`
  | `${ErrorCode}${' lost' | ''} ${'again' | 'final'}`;

/** `heard` resolves when the first text is delivered, because a reset discards data in flight. */
type Row = (exchange: Exchange, heard: Promise<void>) => unknown;

const rows: [name: string, scenario: Row, text: string, expected: Expected, message?: RegExp][] = [
  ['a whole answer is complete', (x) => x.answer('Hel', 'lo'), 'Hello', 'complete stop'],
  [
    'an answer with a finish reason and without [DONE] is complete',
    async (x) => {
      x.open();
      await x.text('Hi');
      await x.finish();
      x.end();
    },
    'Hi',
    'complete stop',
  ],
  [
    'an answer that reached its length limit is complete',
    async (x) => {
      x.open();
      await x.text('Hi');
      await x.finish('length');
      await x.done();
    },
    'Hi',
    'complete length',
  ],
  [
    'a filtered answer is complete, with that reason',
    async (x) => {
      x.open();
      await x.text('Hi');
      await x.finish('content_filter');
      await x.done();
    },
    'Hi',
    'complete content_filter',
  ],
  [
    'a finish reason of another API is understood',
    async (x) => {
      x.open();
      await x.text('Hi');
      await x.finish('eos_token');
      await x.done();
    },
    'Hi',
    'complete stop',
  ],
  [
    'text and reason may come in one chunk',
    async (x) => {
      x.open();
      await x.event(chunk({ role: 'assistant', content: 'Hi' }, 'stop'));
      await x.done();
    },
    'Hi',
    'complete stop',
  ],
  [
    'a chunk of usage with no choices is no output',
    async (x) => {
      x.open();
      await x.usage(1, 0);
      await x.text('Hi');
      await x.finish();
      await x.usage(1, 1);
      await x.done();
    },
    'Hi',
    'complete stop',
  ],
  [
    'reasoning is not part of the text',
    async (x) => {
      x.open();
      await x.event(chunk({ reasoning_content: 'Let me think.' }));
      await x.event(chunk({ reasoning: 'And think.' }));
      await x.text('Hi');
      await x.finish();
      await x.done();
    },
    'Hi',
    'complete stop',
  ],
  [
    'comments and lines with CR LF are read',
    async (x) => {
      x.open();
      await x.write(': OPENROUTER PROCESSING\r\n\r\n');
      for (const part of [chunk({ content: 'H' }), chunk({ content: 'i' }), chunk({}, 'stop')])
        await x.write(`event: message\r\ndata:${JSON.stringify(part)}\r\n\r\n`);
      await x.write('data: [DONE]\r\n\r\n');
      x.end();
    },
    'Hi',
    'complete stop',
  ],
  [
    'a character split over packets arrives whole',
    async (x) => {
      x.open();
      for (const byte of Buffer.from(`data: ${JSON.stringify(chunk({ content: 'grün 🐦' }))}\n\n`))
        await x.write(Buffer.of(byte));
      await x.finish();
      await x.done();
    },
    'grün 🐦',
    'complete stop',
  ],
  [
    'a character split over events arrives whole',
    async (x) => {
      x.open();
      for (const half of ['\\ud83d', '\\udc26'])
        await x.write(`data: {"choices":[{"index":0,"delta":{"content":"${half}"}}]}\n\n`);
      await x.finish();
      await x.done();
    },
    '🐦',
    'complete stop',
  ],
  [
    'a body without a content type is read as events',
    (x) => x.open({ 'content-type': 'application/json' }).answer('Hi'),
    'Hi',
    'complete stop',
  ],

  [
    'a clean end without a reason is a cut answer',
    async (x) => {
      x.open();
      await x.text('Hel');
      x.end();
    },
    'Hel',
    'stream_truncated lost again',
    /without a finish reason/,
  ],
  [
    '[DONE] without a reason is a cut answer',
    async (x) => {
      x.open();
      await x.text('Hel');
      await x.done();
    },
    'Hel',
    'stream_truncated lost again',
  ],
  [
    'an end within an event is a cut answer',
    async (x) => {
      x.open();
      await x.text('Hel');
      await x.write('data: {"choices":[{"index":0,"delta":{"content":"lo');
      x.end();
    },
    'Hel',
    'stream_truncated lost again',
  ],
  [
    'a connection closed within the answer is a cut answer',
    async (x) => {
      x.open();
      await x.text('Hel');
      x.socket.end();
    },
    'Hel',
    'stream_truncated lost again',
    /broke the connection in the middle.*UND_ERR_SOCKET/,
  ],
  [
    'a connection reset within the answer is a cut answer',
    async (x, heard) => {
      x.open();
      await x.text('Hel');
      await heard;
      x.socket.resetAndDestroy();
    },
    'Hel',
    'stream_truncated lost again',
    /broke the connection in the middle/,
  ],
  [
    'a connection that dies after the reason takes nothing from the answer',
    async (x, heard) => {
      x.open();
      await x.write(
        `data: ${JSON.stringify(chunk({ content: 'Hello' }))}\n\ndata: ${JSON.stringify(chunk({}, 'stop'))}\n\n`,
      );
      await heard;
      x.socket.resetAndDestroy();
    },
    'Hello',
    'complete stop',
  ],
  [
    'a body that ends with its connection, without a reason, is a cut answer',
    async (x) => {
      x.socket.write(
        `HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ${JSON.stringify(chunk({ content: 'Hel' }))}\n\n`,
      );
      x.socket.end();
    },
    'Hel',
    'stream_truncated lost again',
  ],
  [
    'the reason of an incomplete answer does not complete it',
    async (x) => {
      x.open();
      await x.text('Hel');
      await x.finish('abort');
      await x.done();
    },
    'Hel',
    'stream_truncated lost again',
    /the reason "abort"/,
  ],
  ['an empty answer is a cut one', (x) => x.open().end(), '', 'stream_truncated lost again'],
  [
    'no content is a cut answer',
    (x) => x.response.writeHead(204).end(),
    '',
    'stream_truncated lost again',
  ],

  [
    'a malformed event fails the answer, whatever comes after it',
    async (x) => {
      x.open();
      await x.text('Hel');
      await x.event('{"choices":[{"index":0,"delta":{"content":"lo"');
      await x.text(' world');
      await x.finish();
      await x.done();
    },
    'Hel',
    'stream_garbled lost final',
    /cannot be understood/,
  ],
  [
    'an event of another kind fails the answer',
    async (x) => {
      x.open();
      await x.text('Hel');
      await x.event({ type: 'response.output_text.delta', delta: 'lo' });
      await x.finish();
      await x.done();
    },
    'Hel',
    'stream_garbled lost final',
  ],
  [
    'an error within the answer fails it, with the message of the provider',
    async (x) => {
      x.open();
      await x.text('Hel');
      await x.event({ error: { message: 'Out of\nmemory', type: 'server_error', code: null } });
      x.end();
    },
    'Hel',
    'provider_failed again',
    /failed \(status 500\)\. It says: Out of memory\.$/,
  ],
  [
    'an error with a status number means what the status means',
    async (x) => {
      x.open();
      await x.event({ error: { message: 'Rate limit', code: 429 } });
      x.end();
    },
    '',
    'provider_busy again',
    /status 429/,
  ],
  [
    'a plain text error is read',
    async (x) => {
      x.open();
      await x.text('Hel');
      await x.event({ error: 'model runner has stopped' });
      x.end();
    },
    'Hel',
    'provider_failed again',
    /It says: model runner has stopped\.$/,
  ],
  [
    'a web page is no answer',
    (x) =>
      x
        .open({ 'content-type': 'text/html' })
        .response.end('<!doctype html><title>Router login</title>'),
    '',
    'provider_not_found final',
    /not with an answer of a model/,
  ],
  [
    'a JSON document of another kind is no answer',
    (x) => x.reply(200, { result: 'Hello' }),
    '',
    'provider_not_found final',
  ],
  [
    'a whole answer is an answer',
    (x) => x.reply(200, { choices: [{ message: { content: 'Hello' }, finish_reason: 'stop' }] }),
    'Hello',
    'complete stop',
  ],
  [
    'a whole answer without a finish reason is cut off',
    (x) => x.reply(200, { choices: [{ message: { content: 'Hello' } }] }),
    'Hello',
    'stream_truncated lost again',
  ],
  [
    'an error with a success status is an error',
    (x) => x.reply(200, { error: { message: 'quota used up' } }),
    '',
    'provider_failed again',
    /It says: quota used up\.$/,
  ],
  [
    'an endless document is abandoned',
    async (x) => {
      x.open();
      await x.write('<');
      while (!x.socket.destroyed) await x.write('x'.repeat(65_536)).catch(() => undefined);
    },
    '',
    'provider_not_found final',
  ],
  [
    'an endless event is abandoned',
    async (x) => {
      x.open();
      await x.text('Hel');
      await x.write('data: ');
      while (!x.socket.destroyed) await x.write('x'.repeat(65_536)).catch(() => undefined);
    },
    'Hel',
    'stream_oversized final',
    /more for one event/,
  ],
  [
    'an endless event of short lines is abandoned',
    async (x) => {
      x.open();
      await x.text('Hel');
      while (!x.socket.destroyed) await x.write('data: x\r\n'.repeat(8192)).catch(() => undefined);
    },
    'Hel',
    'stream_oversized final',
    /more for one event/,
  ],
  [
    'an endless answer is abandoned',
    async (x) => {
      x.open();
      while (!x.socket.destroyed)
        await x.write(': still here\n\n'.repeat(8192)).catch(() => undefined);
    },
    '',
    'stream_oversized final',
    /more for an answer/,
  ],
  [
    'text beyond its bound is abandoned, and the text before it is kept',
    async (x) => {
      x.open();
      await x.text('x'.repeat(1024 * 1024 - 100));
      await x.text('y'.repeat(101)).catch(() => undefined);
    },
    'x'.repeat(1024 * 1024 - 100),
    'stream_oversized final',
    /more for an answer than the daemon accepts \(1048576 bytes\)/,
  ],
];

for (const [name, scenario, text, expected, message = /./] of rows) {
  test(name, async () => {
    const { opened: heard, open: hear } = gate();
    const upstream = await Upstream.start((exchange) => scenario(exchange, heard));
    const provider = remote(upstream.base_url, {
      limits: {
        provider_stream_bytes: 4 * 1024 * 1024,
        provider_answer_bytes: 1024 * 1024,
        provider_event_bytes: 2 * 1024 * 1024,
      },
    });
    const { failure, finish, ...seen } = await outcome(provider, { onText: hear });
    const came =
      failure === null
        ? `complete ${finish?.finish_reason}`
        : `${failure.code}${failure.lost ? ' lost' : ''} ${failure.retryable ? 'again' : 'final'}`;
    if (process.env.SHOW_OUTCOMES)
      console.log(`${name} | ${JSON.stringify(seen.text)} | ${came} | ${failure?.message ?? ''}`);
    assert.is(came, expected, failure?.message);
    assert.is(seen.text, text);
    assert.match(failure?.message ?? 'complete', message);
    assert.is(finish === null, failure !== null, 'a finish and a failure exclude each other');
    await provider.close();
    await upstream.stop();
  });
}

test.run();
