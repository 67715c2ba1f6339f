import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EventReader } from '../../../src/cloud/remote/event-reader.ts';
import { SvcError } from '../../../src/errors.ts';

const SMALL = { provider_event_bytes: 40, provider_stream_bytes: 400 };
const LARGE = { provider_event_bytes: 1e6, provider_stream_bytes: 1e7 };

/** The data of the events, then the failure if there is one. */
function read(chunks: readonly Buffer[], limits = LARGE): string[] {
  const refuse = () => new SvcError('provider_rejected', 'no events');
  const reader = new EventReader(limits, refuse);
  const seen: string[] = [];
  try {
    for (const chunk of chunks) reader.push(chunk, (data) => seen.push(data));
    return reader.document === null ? seen : [...seen, `document: ${reader.document}`];
  } catch (thrown) {
    assert.instance(thrown, SvcError);
    return [...seen, (thrown as SvcError).message];
  }
}

/** The text, cut at these places. */
function cut(text: string, places: number[]): Buffer[] {
  const bytes = Buffer.from(text);
  const at = [...places.map((place) => place % (bytes.length + 1)), bytes.length];
  at.sort((a, b) => a - b);
  return at.map((end, index) => bytes.subarray(at[index - 1] ?? 0, end));
}

const places = fc.array(fc.nat(1000), { maxLength: 12 });
const eol = fc.constantFrom('\n', '\r\n', '\r');

test('each event arrives once and whole, for every cut and every end of a line', () => {
  fc.assert(
    fc.property(
      fc.array(fc.stringMatching(/^[a-zäß🐦:]{1,12}$/u), { maxLength: 8 }),
      fc.constantFrom('', '\uFEFF'),
      fc.constantFrom('', ': comment', 'event: message', 'id', 'dat: x', 'datum: y'),
      eol,
      places,
      (lines, first, other, end, at) => {
        const between = other === '' ? '' : other + end;
        const text = first + lines.map((line) => `${between}data: ${line}${end}${end}`).join('');
        assert.equal(read(cut(text, at)), lines);
      },
    ),
  );
});

test('an event may have several lines of data, and none that its end does not follow', () => {
  assert.equal(read([Buffer.from('data: a\ndata:b\ndata:  c\n\ndata\n\ndata: d\n')]), [
    'a\nb\n c',
    '',
  ]);
});

test('an event that is too large is refused after those before it, for every cut', () => {
  fc.assert(
    fc.property(
      fc.nat(3),
      fc.integer({ min: 1, max: 6 }),
      eol,
      places,
      (before, count, end, at) => {
        const large = `data: ${'x'.repeat(Math.ceil(50 / count))}${end}`.repeat(count);
        const text = `data: ok${end}${end}`.repeat(before) + large;
        const seen = read(cut(text, at), SMALL);
        assert.match(seen.pop() ?? '', /more for one event than the daemon accepts \(40 bytes\)/);
        assert.equal(seen, Array(before).fill('ok'));
      },
    ),
  );
});

test('an endless sequence of small events is refused too', () => {
  const seen = read([Buffer.from('data: x\n\n'.repeat(40)), Buffer.from('data: x\n\n')], {
    ...SMALL,
    provider_stream_bytes: 360,
  });
  assert.match(seen.pop() ?? '', /more for an answer than the daemon accepts \(360 bytes\)/);
  assert.is(seen.length, 40);
});

test('a document arrives whole, for every cut, and has a bound', () => {
  fc.assert(
    fc.property(
      fc.constantFrom('{"error":"grün"}', ' \r\n<html>', '\uFEFF[1]'),
      places,
      (text, at) => {
        const [seen = ''] = read(cut(text, at));
        assert.is(seen.replace(/\s+/g, ''), `document:${text.replace(/\s+/g, '')}`);
      },
    ),
  );
  assert.equal(read(cut(`{${' '.repeat(50)}}`, [10, 20]), SMALL), ['no events']);
});

test.run();
