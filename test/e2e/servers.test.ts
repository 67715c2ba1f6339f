import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { LoadedRecord } from '../../src/contract/contract.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { withOneHome } from './local-life.ts';

/** Servers that svc starts, as a user meets them. */
const test = suite<{ home: Home; life: Life }>('servers that svc starts');

const SCRIPT = fileURLToPath(new URL('../helpers/scripted-server.mjs', import.meta.url));
/** A PNG of one pixel. */
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const IMAGES = '/v1/images/generations';
const SOUND = Buffer.from('RIFF\0\0\0\0WAVEfmt ').toString('base64');
const ANSWER = 'w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 ';

withOneHome(test, () => {
  const home = makeHome();
  const once = (name: string) => `--once=${join(home.folder, name)}`;
  const command = (...flags: string[]) => [process.execPath, SCRIPT, '--port={port}', ...flags];
  const providers = {
    vl: { like: 'llama-server', command: command('--child', once('vl')) },
    plain: { command: command(once('plain')) },
    bare: { command: command('--bare') },
    broken: { command: command('--says=unknown_architecture', '--exit=3') },
  };
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  writeFileSync(home.paths.config, JSON.stringify({ providers }));
  return home;
});

const loaded = (life: Life): Promise<LoadedRecord> => life.ask((client) => client.call('model.ps'));
const serverPid = (life: Life) =>
  waitFor('the server is loaded', async () => (await loaded(life)).models[0]?.pid ?? false);

test('a run starts one, it is listed, loaded and unloaded, and the run is a local one', async ({
  home,
}) => {
  const answered = await home.svc(['run', 'Hi', '--provider', 'vl']);
  assert.equal([answered.code, answered.stdout.trim()], [0, ANSWER.trim()]);
  assert.match((await home.svc(['model', 'ps'])).stdout, /^vl\/vl +answers +(idle|busy)/m);
  const cloud = JSON.parse((await home.svc(['runs', 'list', '--cloud', '--json'])).stdout);
  assert.equal(cloud.runs, []);
  assert.match((await home.svc(['model', 'unload', 'vl'])).stdout, /Unloaded vl\/vl/);
  assert.match((await home.svc(['model', 'load', 'vl'])).stdout, /Loaded vl\/vl/);
});

test('after a crash llama-server goes on with the text, and another begins again if it may', async ({
  home,
}) => {
  for (const [provider, policy, said] of [
    ['vl', 'resume', /to continue the recorded text/],
    ['plain', 'restart', /attempt 2/],
  ] as const) {
    const asked = ['run', 'crash once', '--provider', provider, '--recovery', policy];
    const answered = await home.svc(asked);
    assert.is(answered.code, 0, answered.stderr);
    const shown = JSON.parse((await home.svc(['runs', 'show', 'last', '--json'])).stdout);
    assert.equal([shown.state, shown.output.trim()], ['completed', ANSWER.trim()]);
    const why = (await home.svc(['runs', 'why', 'last'])).stdout;
    assert.match(why, said);
    assert.is(why.includes('to continue'), policy === 'resume', why);
  }
});

test('the images of every API and the sounds of OpenAI reach it as they are', async ({ home }) => {
  const image = `data:image/png;base64,${PIXEL}`;
  const source = { type: 'base64', media_type: 'image/png', data: PIXEL };
  const requests: [path: string, message: object][] = [
    [
      '/v1/chat/completions',
      {
        content: [
          { type: 'text', text: 'Hi' },
          { type: 'image_url', image_url: { url: image } },
          { type: 'input_audio', input_audio: { data: SOUND, format: 'wav' } },
        ],
      },
    ],
    [
      '/v1/messages',
      {
        content: [
          { type: 'image', source },
          { type: 'text', text: 'Hi' },
        ],
      },
    ],
    ['/api/chat', { content: 'Hi', images: [PIXEL] }],
  ];
  for (const [path, message] of requests) {
    const body = {
      model: 'vl/vl',
      max_tokens: 9,
      stream: false,
      messages: [{ role: 'user', ...message }],
    };
    const asked = ['api', 'POST', path, '-d', JSON.stringify(body)];
    const { code, stdout, stderr } = await home.svc(asked);
    assert.is(code, 0, `${path}: ${stderr}`);
    assert.ok(stdout.includes(image), `${path}: ${stdout}`);
    assert.is(stdout.includes(SOUND), path === '/v1/chat/completions', stdout);
  }
});

test('an order for images is passed to a server that svc starts', async ({ home }) => {
  const order = JSON.stringify({ model: 'vl/draw', prompt: 'A cat' });
  const { code, stdout, stderr } = await home.svc(['api', 'POST', IMAGES, '-d', order]);
  assert.is(code, 0, stderr);
  assert.equal(JSON.parse(stdout).data, [{ b64_json: 'draw' }]);
  const bare = await home.svc(['api', 'POST', IMAGES, '-d', order.replace('vl/', 'bare/')]);
  assert.is(bare.code, 0, bare.stderr);
  const local = await home.svc(['api', 'POST', IMAGES, '-d', order.replace('vl/draw', 'svc-mini')]);
  assert.match(local.stdout + local.stderr, /capability_missing|has no path/);
});

test('one that does not start says what it printed, and only config.json can name one', async ({
  home,
}) => {
  const failed = await home.svc(['run', 'Hi', '--provider', 'broken']);
  assert.is.not(failed.code, 0);
  assert.match(failed.stderr, /unknown architecture/);
  assert.match(failed.stderr, /svc model load broken/);
});

test('nothing of it is left when the daemon is killed', async (context) => {
  await context.home.svc(['run', 'Hi', '--provider', 'vl']);
  const pid = await serverPid(context.life);
  const group = () => {
    try {
      return process.kill(-pid, 0);
    } catch {
      return false;
    }
  };
  assert.ok(group());
  assert.match(readFileSync(`/proc/${pid}/cmdline`, 'utf8'), /scripted-server/);
  await context.life.kill();
  await waitFor('its group is gone', () => !group());
  context.life = await serve(context.home);
  assert.equal((await loaded(context.life)).models, []);
});

test.run();
