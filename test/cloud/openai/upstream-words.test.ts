import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { meaningOf, WORDS } from '../../../src/cloud/remote/upstream-error.ts';
import { outcome, remote } from '../../helpers/remote.ts';
import { Upstream } from '../../helpers/upstream.ts';

/** A prompt that is too long, or an account without credit, in the words of each provider. */

const TOO_LONG = [
  "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
  'Prompt contains 40000 tokens, too large for model with 32768 maximum context length',
  'Your input exceeds the context window of this model.',
  'the input length exceeds the context length',
  'Please reduce the length of the messages or completion.',
  'The decoder prompt (length 12000) is longer than the maximum model length of 8192.',
  "The input (12345 tokens) is longer than the model's context length (8192 tokens).",
  'prompt is too long: 210000 tokens > 200000 maximum',
  'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000',
  'Input is too long for requested model.',
  'too many tokens: total number of tokens in the prompt cannot exceed 4081',
  'The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).',
  'the request exceeds the available context size, try increasing it',
  'input is too large to process. increase the physical batch size',
  'prompt too long; exceeded max context length by 12 tokens',
  'The model is loaded with context length of only 4096 tokens, which is not enough',
  'The number of tokens to keep from the initial prompt is greater than the context length.',
  '`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000',
  "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
  'prompt token count of 130000 exceeds the limit of 128000',
  'Your request exceeded model token limit: 8192',
  'Prompt exceeds max length',
  'invalid params, context window exceeds limit (2013)',
];
const NO_CREDIT = [
  'Your credit balance is too low to access the Anthropic API.',
  'Your team has either used all available credits or reached its monthly spending limit.',
  'Insufficient Balance',
];
const NEITHER = [
  'max_tokens is too large: 300000. This model supports at most 16384 completion tokens.',
  'max_tokens: 200000 > 8192, which is the maximum allowed number of output tokens',
  "Unsupported parameter: 'max_tokens' is not supported with this model.",
  'This request would exceed your rate limit of 30000 input tokens per minute.',
  'messages: at least one message is required',
];

test('each provider says in its own words that a prompt is too long, or that there is no credit', () => {
  for (const words of TOO_LONG) assert.is(meaningOf(words), 'too_long', words);
  for (const words of NO_CREDIT) assert.is(meaningOf(words), 'no_credit', words);
  for (const words of NEITHER) assert.is(meaningOf(words), null, words);
  for (const [, pattern] of WORDS)
    assert.ok(
      [...TOO_LONG, ...NO_CREDIT].some((words) => pattern.test(words)),
      `no message shows ${pattern}`,
    );
});

const rows: [status: number, error: object | string, expected: unknown[]][] = [
  [400, { message: TOO_LONG[0], code: null }, ['context_length_exceeded', 400]],
  [413, { message: TOO_LONG[7] }, ['context_length_exceeded', 413]],
  [500, { message: TOO_LONG[13] }, ['context_length_exceeded', 400]],
  [429, { message: `Slow down. ${TOO_LONG[0]}` }, ['provider_busy', 429]],
  [413, { message: 'large' }, ['provider_too_large', 413]],
  [400, { message: NO_CREDIT[0], type: 'invalid_request_error' }, ['provider_quota_exceeded', 429]],
  [402, NO_CREDIT[2] ?? '', ['provider_quota_exceeded', 429]],
  [403, { message: NO_CREDIT[1] }, ['provider_quota_exceeded', 429]],
  [429, { message: 'x', code: 'insufficient_quota' }, ['provider_quota_exceeded', 429]],
  [429, { message: 'x', code: 429, type: 'insufficient_quota' }, ['provider_quota_exceeded', 429]],
  [401, { message: 'x' }, ['provider_unauthorised', 401]],
  [403, { message: 'x' }, ['provider_forbidden', 403]],
  [422, { message: 'x', param: 'stop' }, ['provider_rejected', 422, 'stop']],
  [424, { message: 'x' }, ['provider_failed', 502]],
  [425, { message: 'x' }, ['provider_busy', 425]],
  [500, { message: 'x' }, ['provider_failed', 502]],
  [503, { message: 'x' }, ['provider_overloaded', 503]],
  [529, { message: 'x' }, ['provider_overloaded', 529]],
];

for (const [status, error, expected] of rows)
  test(`status ${status} with ${JSON.stringify(error)} keeps its meaning`, async () => {
    const upstream = await Upstream.start((x) => x.reply(status, { error }));
    const provider = remote(upstream.base_url);
    const { failure } = await outcome(provider);
    const [code, http, param] = expected;
    assert.is(failure?.code, code);
    assert.is(failure?.http, http);
    if (param !== undefined) assert.is(failure?.param, param);
    await provider.close();
    await upstream.stop();
  });

test('a text that is no JSON has its words and their meaning, and a page has none', async () => {
  const bodies: [type: string, body: string, code: string, words: string][] = [
    [
      'text/plain; charset=utf-8',
      `${TOO_LONG[0]}\n`,
      'context_length_exceeded',
      ' It says: This m',
    ],
    ['', TOO_LONG[0] ?? '', 'context_length_exceeded', ' It says: This model'],
    ['text/plain', 'no such field', 'provider_rejected', ' It says: no such field.'],
    ['text/plain', '', 'provider_rejected', ''],
    ['text/plain', '<html>a page</html>', 'provider_rejected', ''],
    ['text/plain', '{"message":', 'provider_rejected', ''],
    ['text/html', 'a page', 'provider_rejected', ''],
    ['text/plain', '{"message":"in JSON"}', 'provider_rejected', ' It says: in JSON.'],
  ];
  for (const [type, body, code, words] of bodies) {
    const upstream = await Upstream.start((x) =>
      x.response.writeHead(400, type === '' ? {} : { 'content-type': type }).end(body),
    );
    const provider = remote(upstream.base_url);
    const { failure } = await outcome(provider);
    assert.is(failure?.code, code, body);
    const said = failure?.message.split('(status 400).')[1] ?? '';
    assert.is(said.slice(0, words.length), words, body);
    if (words === '') assert.is(said, '', body);
    await provider.close();
    await upstream.stop();
  }
});

test.run();
