import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chatCommandOf, chatCommands, chatHelp } from '../../src/cli/chat/commands.ts';
import { nextMessage } from '../../src/cli/chat/lines.ts';

/** The messages of these lines. Undefined is Ctrl-C. */
async function messagesOf(lines: readonly (string | undefined)[]): Promise<string[]> {
  const left = [...lines];
  const read = async () => (left.length === 0 ? null : left.shift());
  const messages: string[] = [];
  for (let next = await nextMessage(read); next !== null; next = await nextMessage(read))
    messages.push(next);
  return messages;
}

test('a line is a message; a backslash at its end joins the next one', async () => {
  assert.equal(await messagesOf(['one', 'two \\', 'three\\', '', 'four']), [
    'one',
    'two \nthree\n',
    'four',
  ]);
  assert.equal(await messagesOf(['one\\']), ['one'], 'the input may end there');
});

test('three quotes begin and end a message of several lines', async () => {
  assert.equal(await messagesOf(['"""', 'a', '', 'b\\', '"""', 'c']), ['a\n\nb\\', 'c']);
  assert.equal(await messagesOf(['"""a', 'b"""']), ['a\nb']);
  assert.equal(await messagesOf(['"""', 'a']), ['a'], 'the input may end there');
});

test('Ctrl-C drops what was typed of a message', async () => {
  assert.equal(await messagesOf(['one\\', undefined, 'two', '"""', undefined, 'three']), [
    'two',
    'three',
  ]);
});

test('a command begins with a slash, and a message that does has a space before it', () => {
  assert.equal(chatCommandOf('/model a b '), { name: 'model', rest: 'a b' });
  assert.equal(chatCommandOf('/exit'), { name: 'exit', rest: '' });
  for (const message of [' /exit', '//', '/ x', '/usr/bin', 'a /exit'])
    assert.is(chatCommandOf(message), null, message);
  for (const [form] of chatCommands) assert.match(chatHelp(), form);
});

test.run();
