import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { retryAfter } from '../../src/http-client/retry-after.ts';

const now = Date.parse('2026-01-01T00:00:00Z');
const wait = (headers: Record<string, string>, status = 503) =>
  retryAfter(new Headers(headers), status, now);

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

test('an invalid wait is ignored', () => {
  for (const headers of [
    {},
    { 'retry-after': '' },
    { 'retry-after': 'soon' },
    { 'retry-after-ms': 'x' },
    { 'retry-after': 'Infinity' },
  ])
    assert.is(wait(headers), null, JSON.stringify(headers));
});

test('without Retry-After the end of a limit is the wait of 429, and of no other status', () => {
  const cases: [wait_ms: number | null, headers: Record<string, string>][] = [
    [1000, { 'x-ratelimit-reset-requests': '1s' }],
    [360_000, { 'x-ratelimit-reset-tokens': '6m0s' }],
    [120, { 'x-ratelimit-reset-tokens': '120ms' }],
    [3_723_500, { 'x-ratelimit-reset-requests': '1h2m3.5s' }],
    [12_000, { 'x-ratelimit-reset': '12' }],
    [12_500, { 'ratelimit-reset': '12.5' }],
    [60_000, { 'x-ratelimit-reset': String(now / 1000 + 60) }],
    [60_000, { 'x-ratelimit-reset': String(now + 60_000) }],
    [0, { 'x-ratelimit-reset': String(now - 60_000) }],
    [5000, { 'anthropic-ratelimit-requests-reset': '2026-01-01T00:00:05Z' }],
    [7000, { 'x-ratelimit-reset': '12', 'retry-after': '7' }],
    [2000, { 'x-ratelimit-reset-requests': '9s', 'x-ratelimit-reset-tokens': '2s' }],
    [
      9000,
      {
        'x-ratelimit-reset-requests': '9s',
        'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-tokens': '2s',
        'x-ratelimit-remaining-tokens': '100',
      },
    ],
    [86_400_000, { 'x-ratelimit-reset-requests': '99h' }],
    [null, { 'x-ratelimit-reset': 'soon' }],
    [null, { 'x-ratelimit-reset': '' }],
    [null, { 'x-ratelimit-limit': '5' }],
  ];
  for (const [wait_ms, headers] of cases) {
    assert.is(wait(headers, 429), wait_ms, JSON.stringify(headers));
    const other = headers['retry-after'] === undefined ? null : wait_ms;
    for (const status of [200, 400, 500, 503]) assert.is(wait(headers, status), other);
  }
});

test.run();
