import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';
import { ConsoleSuite } from './console-suite.ts';

/** Files that go with a question of the console. */
const on = new ConsoleSuite('attached files');
const says = on.says.bind(on);
const answered = on.answered.bind(on);
const runOf = (address: string) => /run_\w+/.exec(address)?.[0] ?? '';

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const fileOf = (name: string, buffer: Buffer) => ({
  name,
  buffer,
  mimeType: 'application/octet-stream',
});

on.inBrowser('text files and images go with a question, as svc run --file sends them', async () => {
  await on.signIn();
  await on.visit('chat');
  const attach = (name: string, buffer: Buffer) =>
    on.page.setInputFiles('#ask-file', [fileOf(name, buffer)]);
  await attach('a.bin', Buffer.from([0, 1, 2]));
  await says('#ask-said', /^a\.bin is neither text \(UTF-8\) nor a file that a run takes/);
  await attach('large.txt', Buffer.alloc(5 * 1024 * 1024, 'a'));
  await says('#ask-said', /^With large\.txt the prompt is larger/);
  await attach('notes.txt', Buffer.from('one\ntwo\n'));
  await says('#ask-files', /notes\.txt, 8 B/);
  await says('#ask-said', '');
  await attach('wrong.txt', Buffer.from('wrong'));
  await on.page.getByRole('button', { name: 'Remove the file wrong.txt' }).click();
  await on.page.fill('#ask-prompt', 'Count');
  await on.chooseModelOf('held');
  await on.send();
  await answered('Two');
  const shown = async () =>
    on.life.ask((client) => client.call('run.get', { id: runOf(on.page.url()) }));
  assert.is((await shown()).prompt, 'Count\n\nFile notes.txt:\none\ntwo');
  assert.is(await on.page.locator('#ask-files li').count(), 0);
  await attach('pixel.png', PNG);
  await says('#ask-files', /pixel\.png/);
  await on.send();
  await answered('A pixel');
  const parts = (await shown()).messages?.at(-1)?.content ?? [];
  assert.equal(parts, [
    { type: 'text', text: 'File pixel.png:\n' },
    { type: 'image', media_type: 'image/png', size_bytes: PNG.length },
  ]);
  await attach('pixel.png', PNG);
  await says('#ask-files', /pixel\.png/);
  await on.chooseModelOf('local');
  await on.page.click('#ask-send');
  await says('#chat-error', /reads no images.*Choose a model that can/);
});

on.inBrowser('a question waits for its files, and keeps what comes after it', async () => {
  await on.signIn();
  await on.visit('chat');
  await on.chooseModelOf('held');
  // A slow disk: a file is read when the test says so.
  await on.page.evaluate(`
    window.reads = [];
    const read = Blob.prototype.arrayBuffer;
    Blob.prototype.arrayBuffer = function () {
      return new Promise((go) => window.reads.push(go)).then(() => read.call(this));
    };
  `);
  const attach = (...files: [string, Buffer][]) =>
    on.page.setInputFiles(
      '#ask-file',
      files.map(([name, buffer]) => fileOf(name, buffer)),
    );
  const reads = () => on.page.evaluate<number>('window.reads.length');
  const readOne = async () => {
    await waitFor('a file is read', async () => (await reads()) > 0);
    await on.page.evaluate('window.reads.shift()()');
  };
  const MIB = 1024 * 1024;
  await attach(['a.txt', Buffer.alloc(3 * MIB, 'a')]);
  await attach(['b.txt', Buffer.alloc(3 * MIB, 'b')]);
  await readOne();
  await says('#ask-said', /^With b\.txt the prompt is larger/);
  assert.match(await on.text('#ask-files'), /a\.txt/);
  await on.page.getByRole('button', { name: 'Remove the file a.txt' }).click();

  await attach(['refused.bin', Buffer.from([0, 1, 2])]);
  await on.page.fill('#ask-prompt', 'What is in it?');
  await on.page.click('#ask-send');
  await says('#ask-said', /once its files are read/);
  await readOne();
  await says('#ask-said', /^refused\.bin is neither/);
  assert.is(await on.page.locator('#ask-prompt').inputValue(), 'What is in it?');
  assert.is(runOf(on.page.url()), '', 'it was not sent without its file');

  await attach(['pixel.png', PNG]);
  await on.page.click('#ask-send');
  await says('#ask-said', /once its files are read/);
  await on.page.fill('#ask-prompt', 'And this?');
  await attach(['next.txt', Buffer.from('next')]);
  await on.send(readOne);
  assert.is(await on.page.locator('#ask-prompt').inputValue(), 'And this?');
  await readOne();
  await says('#ask-files', /next\.txt/);
  await answered('A pixel');
  const run = await on.life.ask((client) => client.call('run.get', { id: runOf(on.page.url()) }));
  assert.equal(run.messages?.at(-1)?.content, [
    { type: 'text', text: 'What is in it?\n\nFile pixel.png:\n' },
    { type: 'image', media_type: 'image/png', size_bytes: PNG.length },
  ]);
});

on.test.run();
