import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as assert from 'uvu/assert';
import { commands } from '../../src/cli/terminal/commands.ts';
import { numberFields } from '../../src/contract/options.ts';
import { limitSpecs } from '../../src/limits.ts';
import { completed, type FakeDaemon, run, suiteWithDaemon } from './fake-daemon.ts';

/** What `svc run` sends of its flags and files. */
const test = suiteWithDaemon('what svc run asks');

const answer = (daemon: FakeDaemon) =>
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    result(completed('yes'));
  });

/** The fields that say what the answer is to be like. */
function asked(daemon: FakeDaemon): Record<string, unknown> {
  const { stream, idempotency_key, client, origin, ...fields } =
    daemon.asked.findLast(({ method }) => method === 'run.start')?.params ?? {};
  return fields;
}

const PNG = Buffer.from(
  '89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63000100000500010d0a2db40000000049454e44ae426082',
  'hex',
);

test('each number of a request has its flag', () => {
  const flags = commands.find(({ name }) => name === 'run')?.flags.map(({ name }) => name);
  for (const { flag } of Object.values(numberFields)) assert.ok(flags?.includes(flag), flag);
});

test('flags of the answer reach the daemon', async ({ home, daemon }) => {
  answer(daemon);
  const { code, stderr } = await home.svc([
    'run',
    'p',
    '--stop',
    'END',
    '--stop',
    '\n',
    '--top-p',
    '0.9',
    '--top-k',
    '40',
    '--min-p',
    '.05',
    '--repeat-penalty',
    '1.1',
    '--typical-p',
    '.9',
    '--dry-multiplier',
    '0.8',
    '--max-tokens',
    '9',
    '--format',
    'json',
  ]);
  assert.is(code, 0, stderr);
  assert.equal(asked(daemon), {
    prompt: 'p',
    max_tokens: 9,
    top_p: 0.9,
    top_k: 40,
    min_p: 0.05,
    repeat_penalty: 1.1,
    typical_p: 0.9,
    dry_multiplier: 0.8,
    stop: ['END', '\n'],
    response_format: { type: 'json' },
  });
});

test('a choice, a regular expression and a grammar are flags', async ({ home, daemon }) => {
  answer(daemon);
  for (const [flags, fields] of [
    [['--choice', 'yes', '--choice', 'no'], { choice: ['yes', 'no'] }],
    [['--regex', '\\d{4}'], { regex: '\\d{4}' }],
    [['--grammar', 'root ::= "a"'], { grammar: 'root ::= "a"' }],
  ] as const) {
    const { code, stderr } = await home.svc(['run', 'p', ...flags]);
    assert.is(code, 0, stderr);
    assert.equal(asked(daemon), { prompt: 'p', ...fields });
  }
  const { code, stderr } = await home.svc(['run', 'p', '--regex', '']);
  assert.equal([code, /--regex must not be empty/.test(stderr)], [2, true]);
});

test('a number out of its range is refused with the range', async ({ home, daemon }) => {
  for (const [flag, value, says] of [
    ['--top-p', '1.5', 'from 0 to 1'],
    ['--top-k', '-1', 'from 0 to 1000000'],
    ['--repeat-penalty', '0', 'from 0.1 to 10'],
    ['--format', 'xml', 'one of text, json'],
  ] as const) {
    const { code, stderr } = await home.svc(['run', 'p', flag, value]);
    assert.is(code, 2);
    assert.ok(stderr.includes(`${flag} must be`) && stderr.includes(says), stderr);
  }
  assert.equal(daemon.asked, []);
});

test('text files follow the prompt, each under its name', async ({ home, daemon }) => {
  answer(daemon);
  const [a, b] = [join(home.folder, 'a.txt'), join(home.folder, 'b.md')];
  writeFileSync(a, '\ufefffirst\n\n');
  writeFileSync(b, 'zweite ü\r\n');
  await home.svc(['run', 'compare', '--file', a, '--file', b, '--system', 's']);
  const texts = `File ${basename(a)}:\nfirst\n\n\nFile ${basename(b)}:\nzweite ü`;
  assert.equal(asked(daemon), { prompt: `compare\n\n${texts}`, system: 's' });
  await home.svc(['run', '--file', a], { stdin: 'from stdin' });
  assert.is(asked(daemon).prompt, `from stdin\n\nFile ${basename(a)}:\nfirst\n`);
  await home.svc(['run', '--file', b]);
  assert.is(asked(daemon).prompt, `File ${basename(b)}:\nzweite ü`);
});

test('an image or a sound is a part of a message, whatever its name is', async ({
  home,
  daemon,
}) => {
  answer(daemon);
  const [image, text] = [join(home.folder, 'photo.txt'), join(home.folder, 'a.txt')];
  const [sound, wave] = [join(home.folder, 'voice.bin'), Buffer.from('RIFF\0\0\0\0WAVEfmt ')];
  writeFileSync(image, PNG);
  writeFileSync(sound, wave);
  writeFileSync(text, 'words');
  const args = ['run', 'see', '--file', image, '--file', sound, '--file', text, '--system', 's'];
  const { code, stderr } = await home.svc(args);
  assert.is(code, 0, stderr);
  assert.equal(asked(daemon), {
    messages: [
      { role: 'system', content: 's' },
      {
        role: 'user',
        content: [
          { type: 'text', text: `see\n\nFile ${basename(image)}:\n` },
          { type: 'image', media_type: 'image/png', data: PNG.toString('base64') },
          { type: 'text', text: `\n\nFile ${basename(sound)}:\n` },
          { type: 'audio', media_type: 'audio/wav', data: wave.toString('base64') },
          { type: 'text', text: `\n\nFile ${basename(text)}:\nwords` },
        ],
      },
    ],
  });
});

test('a file that is no text and no image is refused, with what it is', async ({
  home,
  daemon,
}) => {
  const folder = join(home.folder, 'folder');
  mkdirSync(folder);
  for (const [name, bytes, says] of [
    ['a.pdf', Buffer.from('%PDF-1.7\n\0'), /is a PDF.*\nhint: .*pdftotext/s],
    ['a.bin', Buffer.from([1, 2, 0, 4]), /is binary/],
    ['a.txt', Buffer.from('\ufeffwords', 'utf16le'), /is UTF-16 text.*iconv/s],
    ['latin.txt', Buffer.from('käse', 'latin1'), /is binary/],
    ['', null, /is a folder/],
    ['none.txt', null, /no such file/],
  ] as const) {
    const path = name === '' ? folder : join(home.folder, name);
    if (bytes !== null) writeFileSync(path, bytes);
    const { code, stdout, stderr } = await home.svc(['run', 'p', '--file', path]);
    assert.equal([code, stdout], [2, ''], stderr);
    assert.ok(stderr.includes(path), stderr);
    assert.match(stderr, says);
  }
  assert.equal(daemon.asked, []);
});

test('files together are bounded as the prompt is, and an endless one is read no further', async ({
  home,
  daemon,
}) => {
  const file = join(home.folder, 'large.txt');
  writeFileSync(file, 'x'.repeat(limitSpecs.prompt_bytes.value / 2));
  for (const files of [[file, file], ['/dev/zero']]) {
    if (process.platform === 'win32') continue;
    const args = ['run', 'p', ...files.flatMap((path) => ['--file', path]), '--json'];
    const { code, stderr } = await home.svc(args);
    assert.is(code, 2);
    assert.is(JSON.parse(stderr).error.code, 'prompt_too_large');
  }
  assert.equal(daemon.asked, []);
});

test('a schema comes from its file, and has to be an object', async ({ home, daemon }) => {
  answer(daemon);
  const file = join(home.folder, 'schema.json');
  const schema = { type: 'object', properties: { name: { type: 'string' } } };
  writeFileSync(file, JSON.stringify(schema));
  assert.is((await home.svc(['run', 'p', '--schema', file])).code, 0);
  assert.equal(asked(daemon), { prompt: 'p', response_format: { type: 'json', schema } });
  for (const [text, says] of [
    ['{', /is not JSON/],
    ['[1]', /has no JSON object/],
  ] as const) {
    writeFileSync(file, text);
    const { code, stderr } = await home.svc(['run', 'p', '--schema', file]);
    assert.is(code, 2);
    assert.match(stderr, says);
  }
  const both = await home.svc(['run', 'p', '--schema', file, '--format', 'text']);
  assert.match(both.stderr, /exclude each other/);
});

test('a preset gives what the command line does not say', async ({ home, daemon }) => {
  answer(daemon);
  const presets = {
    'commit-message': {
      system: 'You write commit messages.',
      template: 'For $& this:\n{prompt}',
      model: 'groq/m',
      temperature: 0,
      stop: ['END'],
    },
    plain: { system: 's' },
  };
  writeFileSync(home.paths.config, JSON.stringify({ presets }), { mode: 0o600 });
  assert.is((await home.svc(['run', 'a $& b', '-t', 'commit-message'])).code, 0);
  assert.equal(asked(daemon), {
    model: 'groq/m',
    system: 'You write commit messages.',
    temperature: 0,
    stop: ['END'],
    prompt: 'For $& this:\na $& b',
  });
  const flags = ['--temperature', '1', '--system', 'mine', '-p', 'local'];
  await home.svc(['run', 'x', '--preset', 'commit-message', ...flags]);
  assert.equal(asked(daemon), {
    provider: 'local',
    system: 'mine',
    temperature: 1,
    stop: ['END'],
    prompt: 'For $& this:\nx',
  });
  await home.svc(['run', 'x', '-t', 'plain']);
  assert.equal(asked(daemon), { prompt: 'x', system: 's' });
  const { code, stderr } = await home.svc(['run', 'x', '-t', 'commit']);
  assert.is(code, 2);
  assert.match(stderr, /no preset "commit"\.\nhint: Did you mean commit-message\?/);
  await daemon.close();
  assert.match((await home.svc(['config', 'show'])).stdout, /presets .*You write commit messages/);
});

test.run();
