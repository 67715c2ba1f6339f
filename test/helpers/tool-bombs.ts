import { gzipSync } from 'node:zlib';
import { type Does, event } from './web-tools.ts';

/**
 * Answers of a tool server that need any time and memory, and the bound that each exceeds. A bound
 * by rate is exceeded by far, as a busy machine takes seconds to read them: see
 * test/tools/message-gate.test.ts for its edge.
 */

interface Bomb {
  does: Does;
  reason: RegExp;
}

const MIB = 1024 * 1024;
/** A busy svc may meet either bound first: its answers wait, or the requests do. */
const REQUESTS =
  /it asked svc for more than 64 things at once|it does not take the answers to what it asks svc/;
const UNASKED = /it sent more than 4096 messages at once that no one asked for/;
const values = (count: number) => new RegExp(`a message has more than ${count} values`);

let gigabyte: Buffer | null = null;
function packed(): Buffer {
  // Members of a gzip file follow each other.
  gigabyte ??= Buffer.concat(Array(64).fill(gzipSync(Buffer.alloc(16 * MIB, ' '))));
  return gigabyte;
}

/** A result with this text in its list. */
const content = (id: unknown, text: string) => `{"id":${id},"result":{"content":[${text}1]}}`;

export const TOOL_BOMBS: Record<string, Bomb> = {
  numbers: {
    does: ({ id, body }) => body(content(id, '1,'.repeat(MIB))),
    reason: /a message has more than 250000 numbers/,
  },
  'empty objects': {
    does: ({ id, body }) => body(content(id, '{},'.repeat(700_000))),
    reason: values(50_000),
  },
  'empty texts in a stream': {
    does: ({ id, events }) => events(`data: ${content(id, '"",'.repeat(700_000))}\n\n`),
    reason: values(50_000),
  },
  levels: {
    does: ({ body }) => body('['.repeat(2 * MIB)),
    reason: /a message has more than 64 levels/,
  },
  'keys that differ': {
    does: ({ id, body }) => {
      const keys = Array.from({ length: 60_000 }, (_, key) => `"${key}":1`);
      body(`{"id":${id},"result":{${keys}}}`);
    },
    reason: values(50_000),
  },
  'a text of 17 MiB': {
    does: ({ id, body }) => body(content(id, `"${'x'.repeat(17 * MIB)}",`)),
    reason: /a message has more than 16777216 bytes/,
  },
  'a gigabyte that is packed': {
    does: ({ body }) => body(packed(), 'application/json', { 'content-encoding': 'gzip' }),
    reason: /a message has more than 16777216 bytes/,
  },
  'comments without an end': {
    does: ({ events, res }) => {
      const more = () => {
        if (res.destroyed) return;
        events(`: ${'x'.repeat(65_536)}\n\n`);
        if (res.writableNeedDrain) res.once('drain', more);
        else setImmediate(more);
      };
      more();
    },
    reason: /it sends without an end: more than 67108864 bytes, no answer/,
  },
  'a request of the server each moment': {
    does: ({ events, res }) => {
      let id = 0;
      const more = () => {
        if (res.destroyed) return;
        id += 1;
        events(event({ jsonrpc: '2.0', id: `s${id}`, method: 'sampling/createMessage' }));
        setImmediate(more);
      };
      more();
    },
    reason: REQUESTS,
  },
  'requests in a batch': {
    does: ({ body }) =>
      body(JSON.stringify(Array.from({ length: 1000 }, (_, id) => ({ id, method: 'roots/list' })))),
    reason: REQUESTS,
  },
  notifications: {
    does: ({ body }) => {
      const one = { jsonrpc: '2.0', method: 'notifications/progress' };
      body(JSON.stringify(Array(15_000).fill(one)));
    },
    reason: UNASKED,
  },
  'answers that no one waits for': {
    does: ({ events }) => events(event({ jsonrpc: '2.0', id: 99, result: {} }).repeat(40_000)),
    reason: UNASKED,
  },
};
