import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { options as table } from '../../../src/contract/options.ts';
import { inputOf, keepAliveMs, toRequestError } from '../../../src/dialects/ollama/parameters.ts';
import { SvcError } from '../../../src/errors.ts';

test('keep_alive is a time with a unit, seconds, or below zero for ever', () => {
  for (const [sent, ms] of [
    [null, null],
    [undefined, null],
    [0, 0],
    ['0', 0],
    ['15m', 900_000],
    ['1h30m', 5_400_000],
    ['250ms', 250],
    ['1.5s', 1500],
    [90, 90_000],
    ['90', 90_000],
    [-1, 1e15],
    ['-1', 1e15],
    ['-5m', 1e15],
  ] as const)
    assert.is(keepAliveMs(sent), ms, String(sent));
  for (const sent of ['', 'm', '-', '-m', 'soon', '5 m'])
    assert.throws(
      () => keepAliveMs(sent),
      (error: unknown) => error instanceof SvcError && error.code === 'invalid_request',
      sent,
    );
});

test('a context that svc cannot make is the nearest one, and only a local model has one', () => {
  const { min, max } = table.context_tokens;
  for (const [num_ctx, tokens] of [
    [null, undefined],
    [min - 1, undefined],
    [min, min],
    [max, max],
    [max + 1, max],
  ] as const) {
    const sent = { model: 'm', options: { num_ctx } } as unknown as Parameters<typeof inputOf>[0];
    assert.is(inputOf(sent, true).context_tokens, tokens, String(num_ctx));
    assert.is(inputOf(sent, false).context_tokens, undefined);
  }
});

test('a number of tokens below one is the largest, and a seed is in its range', () => {
  const of = (options: object) =>
    inputOf({ model: 'm', options } as unknown as Parameters<typeof inputOf>[0], true);
  for (const [num_predict, most] of [
    [-1, table.max_tokens.max],
    [0, table.max_tokens.max],
    [1, 1],
  ] as const)
    assert.is(of({ num_predict }).max_tokens, most, String(num_predict));
  for (const [seed, kept] of [
    [-1, undefined],
    [0, 0],
    [table.seed.max, table.seed.max],
    [table.seed.max + 1, 0],
    [table.seed.max + 8, 7],
  ] as const)
    assert.is(of({ seed }).seed, kept, String(seed));
});

test('an error has the names of the request that was sent, and keeps all other words', () => {
  const named = (as: 'chat' | 'generate', param: string, message: string, status?: number) => {
    const error = new SvcError('invalid_request', message, {
      param,
      ...(status === undefined ? {} : { status }),
    });
    const { message: words, param: field } = toRequestError(error, as) as SvcError;
    return [field, words];
  };
  for (const as of ['chat', 'generate'] as const)
    for (const [param, message, field, words] of [
      ['model', 'The path of a model needs admin.', 'model', 'The path of a model needs admin.'],
      [
        'temperature',
        'temperature must be 1.',
        'options.temperature',
        'options.temperature must be 1.',
      ],
      ['reasoning_effort', 'reasoning_effort must be low.', 'think', 'think must be low.'],
      [
        'stop',
        'stop: the words stop and nonstop.',
        'options.stop',
        'options.stop: the words stop and nonstop.',
      ],
      ['stop', 'There is nothing to stop.', 'options.stop', 'There is nothing to stop.'],
      ['stop', 'stopped is no field.', 'options.stop', 'stopped is no field.'],
      [
        'response_format.schema',
        'The schema of response_format.schema is none.',
        'format.schema',
        'The schema of format.schema is none.',
      ],
      ['texts', 'texts.0 is empty', 'input', 'input.0 is empty'],
    ] as const)
      assert.equal(named(as, param, message), [field, words], `${as} ${message}`);
  assert.equal(named('generate', 'messages', 'messages is too long.'), [
    'prompt',
    'prompt is too long.',
  ]);
  assert.equal(named('generate', 'messages.1.content.2', 'No image in messages.1.content.2.'), [
    'images.1',
    'No image in images.1.',
  ]);
  assert.equal(named('chat', 'messages.1.content.2', 'No image in messages.1.content.2.'), [
    'messages.1',
    'No image in messages.1.',
  ]);
  const said = 'up does not have it. It says: reasoning_effort is odd.';
  assert.equal(named('chat', 'reasoning_effort', said, 400), ['think', said]);
});

test.run();
