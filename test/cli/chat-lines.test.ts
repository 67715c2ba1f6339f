import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chatCommandOf, chatCommands, chatHelp } from '../../src/cli/chat/commands.ts';
import { ChatHistory } from '../../src/cli/chat/history.ts';
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

test('the history has the newest lines, and its file is cut at twice as many', () => {
  const data = mkdtempSync(join(tmpdir(), 'svc-history-'));
  const file = join(data, 'chat-history');
  const lines = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, at) => `line ${from + at}`);
  const write = (count: number) =>
    writeFileSync(
      file,
      lines(0, count)
        .map((line) => `${line}\n`)
        .join(''),
    );
  const inFile = () => readFileSync(file, 'utf8').split('\n').slice(0, -1);
  try {
    write(1999);
    const { lines_max } = new ChatHistory({ data });
    assert.equal([lines_max, inFile().length], [1000, 1999]);
    write(2000);
    const history = new ChatHistory({ data });
    assert.equal(inFile(), lines(1000, 2000));
    for (const line of ['new', 'new', ' ', 'x'.repeat(4097), 'x'.repeat(4096)]) history.add(line);
    const newest = ['x'.repeat(4096), 'new', ...lines(1002, 2000).reverse()];
    assert.equal(history.lines, newest);
    assert.equal(new ChatHistory({ data }).lines, newest);
  } finally {
    rmSync(data, { recursive: true });
  }
});

test.run();
