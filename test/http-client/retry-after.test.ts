import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { retryAfter } from '../../src/http-client/retry-after.ts';

const now = Date.parse('2026-01-01T00:00:00Z');
const wait = (headers: Record<string, string>) => retryAfter(new Headers(headers), now);

test('a wait is seconds, milliseconds or a time', () => {
  assert.is(wait({ 'retry-after': '7' }), 7000);
  assert.is(wait({ 'retry-after': '0.5' }), 500);
  assert.is(wait({ 'retry-after-ms': '1500', 'retry-after': '9' }), 1500);
  assert.is(wait({ 'retry-after': 'Thu, 01 Jan 2026 00:01:00 GMT' }), 60_000);
});

test('a wait is never negative, and never longer than a day', () => {
  assert.is(wait({ 'retry-after': '-5' }), 0);
  assert.is(wait({ 'retry-after': 'Wed, 31 Dec 2025 00:00:00 GMT' }), 0);
  assert.is(wait({ 'retry-after': '1e300' }), 86_400_000);
});

test('what is no wait is none', () => {
  for (const headers of [
    {},
    { 'retry-after': '' },
    { 'retry-after': 'soon' },
    { 'retry-after-ms': 'x' },
    { 'retry-after': 'Infinity' },
  ])
    assert.is(wait(headers), null, JSON.stringify(headers));
});

test.run();
