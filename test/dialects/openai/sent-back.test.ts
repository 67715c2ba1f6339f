import { test } from 'uvu';
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { chatMessage, messageOf } from '../../../src/dialects/openai/chat-messages.ts';

const said = { role: 'assistant', content: 'Yes.' };
const parts = (more: object) =>
  messageOf(v.parse(chatMessage, { ...said, ...more }), 0, new Map()).content;

test('reasoning that a client sends back is a part of its message, under either name', () => {
  const expected = [
    { type: 'reasoning', text: 'Hm.' },
    { type: 'text', text: 'Yes.' },
  ];
  assert.equal(parts({ reasoning_content: 'Hm.' }), expected);
  assert.equal(parts({ reasoning: 'Hm.' }), expected);
  assert.equal(parts({ reasoning: 'Hm.', reasoning_content: 'Hm.' }), expected);
  assert.equal(parts({ reasoning: null, reasoning_content: '' }), expected.slice(1));
});

test.run();
