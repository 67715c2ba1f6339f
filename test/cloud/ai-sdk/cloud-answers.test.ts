import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ask, data, type Form, testForms } from '../../helpers/odd-answers.ts';

/** What other clouds really send. Nothing of an answer is lost. */

const gemini = (parts: object[], more: object = {}) => ({
  candidates: [{ index: 0, content: { parts }, ...more }],
});
const count = { usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 5 } };

const cohere = (type: string, content: object, index = 0) => ({
  type,
  index,
  delta: { message: content },
});
const cohereCall = (type: string, call: object, index = 0) =>
  cohere(type, { tool_calls: call }, index);

const gem = () => [{ ...gemini([], { finishReason: 'STOP' }), ...count }];
const gemForms: Form[] = [
  [
    'a reason with every chunk',
    [
      { ...gemini([{ text: 'Hel' }], { finishReason: 'STOP' }), ...count },
      { ...gemini([{ text: 'lo' }], { finishReason: 'STOP' }), ...count },
    ],
    'Hello',
  ],
  [
    'a reason in small letters',
    [gemini([{ text: 'Hello' }], { finishReason: 'stop' }), count],
    'Hello',
  ],
  [
    'a call with text in one chunk',
    [gemini([{ text: 'Hello' }, { functionCall: { name: 'look', args: { x: 1 } } }])],
    'text: Hello, look({"x":1})',
    'tool_calls',
  ],
  [
    'another candidate first',
    [
      {
        candidates: [
          { index: 1, content: { parts: [{ text: 'WRONG' }] } },
          { index: 0, content: { parts: [{ text: 'Hello' }] } },
        ],
      },
    ],
    'Hello',
  ],
  [
    'unknown parts and events',
    [
      { responseId: 'x' },
      gemini([{ hologram: 1 }, { executableCode: { code: 'x' } }, { text: 'Hello' }]),
    ],
    'Hello',
  ],
  [
    'a file',
    [gemini([{ text: 'Hello' }, { inlineData: { mimeType: 'image/png', data: 'AA' } }])],
    'Hello',
    'capability_missing',
  ],
  [
    'a prompt that is blocked',
    [{ promptFeedback: { blockReason: 'SAFETY' }, ...count }],
    '',
    'stop',
  ],
];
testForms('google', { adapter: 'google' }, gem, gemForms);

const co = (hasCall: boolean) => [
  {
    type: 'message-end',
    delta: {
      finish_reason: hasCall ? 'TOOL_CALL' : 'COMPLETE',
      usage: { tokens: { input_tokens: 3, output_tokens: 5 } },
    },
  },
];
const coForms: Form[] = [
  [
    'text that begins with its part',
    [
      cohere('content-start', { content: { type: 'text', text: 'Hel' } }),
      cohere('content-delta', { content: { text: 'lo' } }),
    ],
    'Hello',
  ],
  [
    'thinking that begins with its part',
    [
      cohere('content-start', { content: { type: 'thinking', thinking: 'Hm.' } }),
      cohere('content-delta', { content: { text: 'Hello' } }, 1),
    ],
    'reasoning: Hm., text: Hello',
  ],
  [
    'a plan of calls',
    [
      cohere('tool-plan-delta', { tool_plan: 'Hm.' }),
      cohere('content-delta', { content: { text: 'Hello' } }),
    ],
    'reasoning: Hm., text: Hello',
  ],
  [
    'calls that alternate',
    [
      cohereCall('tool-call-start', { id: 'a', function: { name: 'look', arguments: '{"x"' } }, 0),
      cohereCall('tool-call-start', { id: 'b', function: { name: 'look', arguments: '' } }, 1),
      cohereCall('tool-call-delta', { function: { arguments: ':1}' } }, 0),
      cohereCall('tool-call-delta', { function: { arguments: '{"x":2}' } }, 1),
    ],
    'look({"x":1}), look({"x":2})',
    'tool_calls',
  ],
  [
    'unknown events',
    [
      { type: 'glow', delta: 1 },
      { type: 'citation-start', index: 0, delta: { message: { citations: {} } } },
      cohere('content-delta', { content: { text: 'Hello' } }),
    ],
    'Hello',
  ],
];
testForms('cohere', { adapter: 'cohere' }, co, coForms);

const mi = (hasCall: boolean) => [
  { choices: [{ index: 0, delta: {}, finish_reason: hasCall ? 'tool_calls' : 'stop' }] },
  { choices: [], usage: { prompt_tokens: 3, completion_tokens: 5 } },
];
const miForms: Form[] = [
  [
    'usage without choices',
    [
      { choices: [{ index: 0, delta: { content: 'Hello' } }] },
      { choices: [], usage: { prompt_tokens: 3, completion_tokens: 5 } },
    ],
    'Hello',
  ],
  [
    'a reference',
    [
      {
        choices: [
          {
            index: 0,
            delta: {
              content: [
                { type: 'text', text: 'Hello' },
                { type: 'reference', reference_ids: [1] },
              ],
            },
          },
        ],
      },
    ],
    'Hello',
  ],
  [
    'a part of another kind',
    [
      {
        choices: [
          { index: 0, delta: { content: [{ type: 'hologram' }, { type: 'text', text: 'Hello' }] } },
        ],
      },
    ],
    'Hello',
  ],
];
testForms('mistral', { adapter: 'mistral' }, mi, miForms);

test('google: a prompt that is blocked has no candidates', async () => {
  const seen = await ask({ adapter: 'google' }, async (x) => {
    await x.open().write(data({ promptFeedback: { blockReason: 'SAFETY' }, ...count }));
    x.end();
  });
  assert.is(seen.end, 'content_filter', seen.failure?.message);
  assert.is(seen.finish?.usage.input_tokens, 3);
});

test.run();
