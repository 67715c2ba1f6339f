import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { readJson } from '../../../src/transport/http/body.ts';

const test = suite('body');

/** Reads a body in chunks of one byte, which share their memory. */
async function read(text: string, limit: number): Promise<unknown> {
  const req = Object.assign(new PassThrough(), { headers: { 'content-type': 'application/json' } });
  const body = readJson(req as unknown as IncomingMessage, {} as ServerResponse, limit);
  const chunk = Buffer.alloc(1);
  for (const byte of Buffer.from(text)) {
    chunk[0] = byte;
    req.emit('data', chunk);
  }
  req.emit('end');
  return body;
}

test('chunks of one byte cost no more memory than their bytes', async () => {
  const value = { prompt: 'x'.repeat(5000), ends: true };
  const text = JSON.stringify(value);
  assert.equal(await read(text, 8192), value);
  assert.equal(await read(text, text.length), value, 'as long as it may be');
  const error = await read(text, text.length - 1).catch((thrown: SvcError) => thrown);
  assert.is(error instanceof SvcError && error.code, 'body_too_large');
});

test.run();
