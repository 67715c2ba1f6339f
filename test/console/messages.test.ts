import { test } from 'uvu';
import * as assert from 'uvu/assert';
// @ts-expect-error The console has no types: its files are JavaScript.
import { MESSAGE_CHARACTERS, MESSAGES_SHOWN } from '../../src/console/bounds.js';
// @ts-expect-error The same.
import { conversation, silentParts } from '../../src/console/parts/messages.js';
import type { RunRecord } from '../../src/contract/contract.ts';

interface Line {
  name: string;
  text: string;
  kind: string;
}
const run = (fields: Partial<RunRecord>) => fields as RunRecord;

test('a conversation has a line for each part, with its role', () => {
  const lines = conversation(
    run({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look.' },
            { type: 'image', media_type: 'image/png', size_bytes: 2000 },
          ],
        },
        {
          role: 'assistant',
          content: [{ type: 'tool_call', id: 'a', name: 'look', arguments: '{}' }],
        },
        {
          role: 'tool',
          content: [{ type: 'tool_result', id: 'a', text: 'dark', is_error: false }],
        },
      ],
    }),
  );
  assert.equal(
    lines.map(({ name, text }: Line) => [name, text]),
    [
      ['user', 'Look.'],
      ['user, image', '[image/png, 2 KiB]'],
      ['assistant, calls a tool', 'look {}'],
      ['tool, result', 'dark'],
    ],
  );
  assert.equal(conversation(run({})), []);
});

test('a long conversation shows its last parts, and a long part its beginning', () => {
  const content = Array.from({ length: MESSAGES_SHOWN + 2 }, (_, index) => ({
    type: 'text' as const,
    text: `${index} ${'x'.repeat(MESSAGE_CHARACTERS)}`,
  }));
  const lines = conversation(run({ messages: [{ role: 'user', content }] }));
  assert.is(lines.length, MESSAGES_SHOWN + 1);
  assert.match(lines[0]?.text ?? '', '2 parts');
  assert.match(lines[1]?.text ?? '', /^2 x+…$/);
  assert.is(lines[1]?.text.length, MESSAGE_CHARACTERS + 1);
});

test('the parts of an answer besides its text are lines', () => {
  const lines = silentParts(
    run({
      output_parts: [
        { type: 'reasoning', text: 'Hm.' },
        { type: 'text', text: 'Hi' },
        { type: 'tool_call', id: 'a', name: 'look', arguments: '{}' },
      ],
    }),
  );
  assert.equal(
    lines.map(({ name, text, kind }: Line) => [name, text, kind]),
    [
      ['reasoning', 'Hm.', 'reasoning'],
      ['calls a tool', 'look {}', 'tool_call'],
    ],
  );
});

test.run();
