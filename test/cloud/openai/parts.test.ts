import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type OutputPart as AnswerPart, partsAfter } from '../../../src/contract/messages/parts.ts';
import { SvcError } from '../../../src/errors.ts';
import type { Limits } from '../../../src/limits.ts';
import type { OutputPart } from '../../../src/ports/providers.ts';
import type { Asking } from '../../helpers/asking.ts';
import { remote, runRequest } from '../../helpers/remote.ts';
import { chunk, type Exchange, Upstream } from '../../helpers/upstream.ts';

/** What an answer consists of, whatever form a server gives to it. */

interface Read {
  parts: readonly AnswerPart[];
  text: string;
  pieces: Extract<OutputPart, { type: 'output' }>[];
  finish: Extract<OutputPart, { type: 'finish' }> | null;
  failure: SvcError | null;
}

/** Folds the pieces of one answer as a run does. */
async function read(
  scenario: (exchange: Exchange) => unknown,
  request: Asking = {},
  limits: Partial<Limits> = {},
): Promise<Read> {
  const upstream = await Upstream.start(async (exchange) => {
    exchange.open();
    await scenario(exchange);
    await exchange.done();
  });
  const provider = remote(upstream.base_url, { limits });
  const seen: Read = { parts: [], text: '', pieces: [], finish: null, failure: null };
  const signal = new AbortController().signal;
  const attempt = { run_id: 'run_01X', attempt: 1, request: runRequest(request), resume: null };
  try {
    for await (const part of provider.stream(attempt, signal)) {
      if (part.type === 'finish') {
        seen.finish = part;
        continue;
      }
      seen.pieces.push(part);
      seen.parts = partsAfter(seen.parts, seen.text, part);
      if (part.kind === undefined) seen.text += part.text;
    }
  } catch (thrown) {
    if (!(thrown instanceof SvcError)) throw thrown;
    seen.failure = thrown;
  } finally {
    await provider.close();
    await upstream.stop();
  }
  return seen;
}

/** A delta with pieces of tool calls. */
const calls = (
  ...pieces: [index: number | null, id: string | null, name: string | null, args: string][]
) =>
  chunk({
    tool_calls: pieces.map(([index, id, name, args]) => ({
      ...(index === null ? {} : { index }),
      ...(id === null ? {} : { id, type: 'function' }),
      function: { ...(name === null ? {} : { name }), arguments: args },
    })),
  });
const part = (id: string, name: string, args: string) => ({
  type: 'tool_call' as const,
  id,
  name,
  arguments: args,
});

test('reasoning comes before the text, as its own part', async () => {
  const { parts, text, finish } = await read(async (x) => {
    await x.event(chunk({ reasoning_content: 'Let me ' }));
    await x.event(chunk({ reasoning: 'think.' }));
    await x.text('Hi');
    await x.finish();
  });
  assert.equal(parts, [
    { type: 'reasoning', text: 'Let me think.' },
    { type: 'text', text: 'Hi' },
  ]);
  assert.is(text, 'Hi');
  assert.is(finish?.finish_reason, 'stop');
});

test('the texts of one read are one output, whatever number of events they came in', async () => {
  const words = Array.from({ length: 200 }, (_, index) => `word ${index} `);
  const { pieces, text } = await read(async (x) => {
    const events = words.map((content) => `data: ${JSON.stringify(chunk({ content }))}\n\n`);
    await x.write(events.join(''));
    await x.finish();
  });
  assert.is(text, words.join(''));
  // The system may cut one write into a few reads.
  assert.ok(pieces.length <= 4, `${pieces.length} outputs`);
});

test('tool calls in pieces keep their ids, also when their pieces alternate', async () => {
  const { parts, finish } = await read(async (x) => {
    await x.text('I look.');
    await x.event(calls([0, 'a', 'look', '']));
    await x.event(calls([1, 'b', 'wait', '{"s"'], [0, null, null, '{"at"']));
    await x.event(calls([0, null, null, ':1}']));
    await x.event(calls([1, null, null, ':2}']));
    await x.finish('tool_calls');
  });
  assert.equal(parts, [
    { type: 'text', text: 'I look.' },
    part('a', 'look', '{"at":1}'),
    part('b', 'wait', '{"s":2}'),
  ]);
  assert.is(finish?.finish_reason, 'tool_calls');
});

test('a call is delivered when it begins, before its arguments', async () => {
  const { pieces } = await read(async (x) => {
    await x.event(calls([0, 'a', 'look', '']));
    await x.event(calls([0, null, null, '{}']));
    await x.finish('tool_calls');
  });
  assert.equal(
    pieces.map(({ text, call }) => [text, call?.id]),
    [
      ['', 'a'],
      ['{}', 'a'],
    ],
  );
});

test('servers that end tool calls with stop mean tool_calls', async () => {
  const { finish } = await read(async (x) => {
    await x.event(calls([0, 'a', 'look', '{}']));
    await x.finish('stop');
  });
  assert.is(finish?.finish_reason, 'tool_calls');
  const cut = await read(async (x) => {
    await x.event(calls([0, 'a', 'look', '{"at']));
    await x.finish('length');
  });
  assert.is(cut.finish?.finish_reason, 'length');
});

test('calls without ids, or with the same id twice, get ids that are always the same', async () => {
  const twice = async () => {
    const without = await read(async (x) => {
      await x.event(calls([0, null, 'look', '{"at":1}']));
      await x.event(calls([1, '', 'look', '{"at":2}']));
      await x.finish('tool_calls');
    });
    const same = await read(async (x) => {
      await x.event(calls([0, 'call_01X_2', 'look', '{"at":1}']));
      await x.event(calls([1, 'call_01X_2', 'wait', '{"at":2}']));
      await x.finish('tool_calls');
    });
    return [without.parts, same.parts];
  };
  const first = await twice();
  assert.equal(first, [
    [part('call_01X_1', 'look', '{"at":1}'), part('call_01X_2', 'look', '{"at":2}')],
    [part('call_01X_2', 'look', '{"at":1}'), part('call_01X_3', 'wait', '{"at":2}')],
  ]);
  assert.equal(await twice(), first);
});

test('an id that no message could carry is replaced', async () => {
  const { parts } = await read(async (x) => {
    await x.event(calls([0, 'x'.repeat(300), 'look', '{}']));
    await x.event(calls([1, 'a\nb', 'look', '{}']));
    await x.finish('tool_calls');
  });
  assert.equal(parts, [part('call_01X_1', 'look', '{}'), part('call_01X_2', 'look', '{}')]);
});

test('whole calls with one index for all of them, or none, are different calls', async () => {
  for (const index of [0, null]) {
    const { parts } = await read(async (x) => {
      await x.event(calls([index, 'a', 'look', '{"at":1}']));
      await x.event(calls([index, 'b', 'look', '{"at":2}']));
      await x.finish('stop');
    });
    assert.equal(parts, [part('a', 'look', '{"at":1}'), part('b', 'look', '{"at":2}')]);
  }
});

test('a call without arguments has an empty object', async () => {
  const { parts } = await read(async (x) => {
    await x.event(calls([0, 'a', 'look', '']));
    await x.finish('tool_calls');
  });
  assert.equal(parts, [part('a', 'look', '{}')]);
});

test('a stream cut within a tool call is no answer', async () => {
  const cut = await read((x) => x.event(calls([0, 'a', 'look', '{"at"'])));
  assert.is(cut.failure?.code, 'stream_truncated');
  assert.is(cut.finish, null);
  assert.equal(cut.parts, [part('a', 'look', '{"at"')]);
  const nameless = await read(async (x) => {
    await x.event(calls([0, 'a', null, '{"at":1}']));
    await x.finish('tool_calls');
  });
  assert.is(nameless.failure?.code, 'stream_garbled');
  const missing = await read((x) => x.finish('tool_calls'));
  assert.is(missing.failure?.code, 'stream_truncated');
  assert.match(missing.failure?.message ?? '', 'sent none');
});

test('a piece of arguments that belongs to no call fails the answer', async () => {
  const { failure } = await read(async (x) => {
    await x.event(calls([null, 'a', 'look', '{"at":']));
    await x.event(calls([null, 'b', 'wait', '{"at":']));
    await x.event(calls([null, null, null, '1}']));
    await x.finish('tool_calls');
  });
  assert.is(failure?.code, 'stream_garbled');
  assert.match(failure?.message ?? '', 'belongs to no call');
});

test('a refusal is its own kind, and ends with stop', async () => {
  const { parts, text, finish } = await read(async (x) => {
    await x.event(chunk({ content: null, refusal: 'I ca' }));
    await x.event(chunk({ refusal: 'nnot.' }));
    await x.finish();
  });
  assert.equal(parts, [{ type: 'refusal', text: 'I cannot.' }]);
  assert.is(text, '');
  assert.is(finish?.finish_reason, 'stop');
});

test('probabilities belong to the text of their event, with as many likely tokens as asked', async () => {
  const token = (name: string, logprob: number) => ({ token: name, logprob, bytes: null });
  const withLogprobs = (content: string, ...tokens: object[]) => {
    const event = chunk({ content }) as { choices: object[] };
    return { ...event, choices: [{ ...event.choices[0], logprobs: { content: tokens } }] };
  };
  const scenario = async (x: Exchange) => {
    await x.event(
      withLogprobs('Hi', {
        ...token('Hi', -0.1),
        top_logprobs: [token('Hi', -0.1), token('Ho', -2), token('Ha', -3)],
      }),
    );
    await x.event(withLogprobs('!', token('!', -9999), token('bad', Number.NaN)));
    await x.event(withLogprobs('', token('', -1)));
    await x.finish();
  };
  const { pieces } = await read(scenario, { logprobs: 2 });
  assert.equal(
    pieces.map(({ text, logprobs }) => [text, logprobs]),
    [
      [
        'Hi',
        [
          {
            token: 'Hi',
            logprob: -0.1,
            top: [
              { token: 'Hi', logprob: -0.1 },
              { token: 'Ho', logprob: -2 },
            ],
          },
        ],
      ],
      ['!', [{ token: '!', logprob: -9999, top: [] }]],
      ['', [{ token: '', logprob: -1, top: [] }]],
    ],
  );
  const unasked = await read(scenario);
  assert.not.ok(unasked.pieces.some(({ logprobs }) => logprobs !== undefined));
});

test('usage has what the server sent, and nothing that it did not send', async () => {
  const usageOf = async (usage: unknown) => {
    const { finish } = await read(async (x) => {
      await x.text('Hi');
      await x.finish();
      await x.event({ ...chunk({}), choices: [], usage });
    });
    return finish?.usage;
  };
  assert.equal(
    await usageOf({
      prompt_tokens: 9,
      completion_tokens: 5,
      prompt_tokens_details: { cached_tokens: 4 },
      completion_tokens_details: { reasoning_tokens: 3 },
    }),
    { input_tokens: 9, output_tokens: 5, cached_tokens: 4, reasoning_tokens: 3 },
  );
  const beside = (total_tokens: number) =>
    usageOf({
      prompt_tokens: 32,
      completion_tokens: 9,
      total_tokens,
      completion_tokens_details: { reasoning_tokens: 94 },
    });
  const xai = { input_tokens: 32, output_tokens: 103, reasoning_tokens: 94 };
  assert.equal(
    await beside(135),
    xai,
    'only the total shows tokens of reasoning beside the others',
  );
  assert.equal(await beside(134), { ...xai, output_tokens: 9 });
  assert.equal(await beside(41), { ...xai, output_tokens: 9 });
  assert.equal(await usageOf({ prompt_tokens: 9 }), { input_tokens: 9, output_tokens: null });
  assert.equal(await usageOf({ prompt_tokens: 1.5, completion_tokens: -1 }), {
    input_tokens: null,
    output_tokens: null,
  });
  assert.equal(await usageOf(null), { input_tokens: null, output_tokens: null });
});

test('the stop text that ended the answer is reported if the server names it', async () => {
  const ended = (reason: unknown, field = 'stop_reason') =>
    read(
      async (x) => {
        await x.text('Hi');
        const event = chunk({}, 'stop') as { choices: object[] };
        await x.event({ ...event, choices: [{ ...event.choices[0], [field]: reason }] });
      },
      { stop: ['END'] },
    );
  assert.is((await ended('END')).finish?.stop_sequence, 'END');
  assert.is((await ended('END', 'matched_stop')).finish?.stop_sequence, 'END');
  assert.is((await ended('other')).finish?.stop_sequence, undefined);
  assert.is((await ended(128_001)).finish?.stop_sequence, undefined);
});

test('half characters of text and arguments become whole, each in its own part', async () => {
  const half = (delta: string) => `{"choices":[{"index":0,"delta":${delta}}]}`;
  const call = (args: string) =>
    half(`{"tool_calls":[{"index":0,"function":{"arguments":"${args}"}}]}`);
  const { parts } = await read(async (x) => {
    await x.event(half('{"reasoning":"a\\ud83d"}'));
    await x.event(half('{"reasoning":"\\udc26"}'));
    await x.event(calls([0, 'a', 'look', '{"b":"']));
    await x.event(call('\\ud83d'));
    await x.event(call('\\udc26\\"}'));
    await x.finish('tool_calls');
  });
  assert.equal(parts, [{ type: 'reasoning', text: 'a🐦' }, part('a', 'look', '{"b":"🐦"}')]);
});

test('the bound of an answer counts reasoning, names, arguments and tokens', async () => {
  const bounds = { provider_answer_bytes: 1000, provider_answer_parts: 8 };
  const long = 'x'.repeat(600);
  const codeOf = async (scenario: (x: Exchange) => unknown, limits: Partial<Limits> = bounds) => {
    const { failure } = await read(
      async (x) => {
        await scenario(x);
        await x.finish();
      },
      { logprobs: 1 },
      limits,
    );
    return failure === null ? 'complete' : `${failure.code} ${failure.message}`;
  };
  const tooMuch = /^stream_oversized test sends more for an answer/;
  assert.match(
    await codeOf(async (x) => {
      await x.event(chunk({ reasoning: long }));
      await x.event(chunk({ content: long }));
    }),
    tooMuch,
  );
  assert.match(
    await codeOf(async (x) => {
      await x.event(calls([0, 'a', long, '']));
      await x.event(calls([0, null, null, long]));
    }),
    tooMuch,
  );
  assert.match(
    await codeOf((x) =>
      x.event({
        choices: [
          {
            index: 0,
            delta: { content: 'a' },
            logprobs: {
              content: [
                { token: long, logprob: 0 },
                { token: long, logprob: 0 },
              ],
            },
          },
        ],
      }),
    ),
    tooMuch,
  );
  const content = Array.from({ length: 100 }, () => ({ token: '', logprob: 0 }));
  const empty = { choices: [{ index: 0, delta: { content: 'a' }, logprobs: { content } }] };
  assert.match(await codeOf((x) => x.event(empty)), tooMuch, 'tokens without a text');
  const many = /^stream_oversized test sends more than 8 parts/;
  assert.match(
    await codeOf(async (x) => {
      for (let index = 0; index < 9; index += 1)
        await x.event(calls([index, `id${index}`, 'look', '{}'])).catch(() => undefined);
    }),
    many,
  );
  assert.match(
    await codeOf(async (x) => {
      for (let index = 0; index < 5; index += 1) {
        await x.text('a').catch(() => undefined);
        await x.event(chunk({ reasoning: 'b' })).catch(() => undefined);
      }
    }),
    many,
  );
  assert.is(
    await codeOf(async (x) => {
      for (let index = 0; index < 50; index += 1)
        await x.event(calls([index % 2, `id${index % 2}`, index < 2 ? 'look' : null, '1']));
    }),
    'complete',
  );
});

test.run();
