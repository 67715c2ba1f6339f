import { accessSync, constants, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testModel } from '../../tools/test-models/models.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import type { Life } from '../torture/daemon.ts';
import { withOneHome } from './local-life.ts';

/** A real model behind the APIs of a daemon. */
const test = suite<{ home: Home; life: Life }>('real models behind the APIs');

const minilm = testModel('minilm');
if (minilm === null) console.log('skipped: no models of npm run test-models');
const smollm2 = testModel('smollm2');
const server = llamaServer();
if (server === null) console.log('skipped: no llama-server (LLAMA_SERVER, or on the PATH)');
const withServer = server === null || smollm2 === null ? test.skip : test;
const withVectors = minilm === null ? test.skip : test;

withOneHome(test, () => {
  const home = makeHome();
  mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
  if (minilm !== null) symlinkSync(minilm, join(home.paths.models, 'minilm.gguf'));
  const command = [server ?? '', '-m', smollm2 ?? '', '-c', '1024', '-t', '1', '--port', '{port}'];
  const providers = { real: { like: 'llama-server', command } };
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  if (server !== null) writeFileSync(home.paths.config, JSON.stringify({ providers }));
  return home;
});

/** The program of llama.cpp. Null: it is not here. */
function llamaServer(): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const paths = [
    process.env.LLAMA_SERVER,
    ...folders.map((folder) => join(folder, 'llama-server')),
  ];
  for (const path of paths)
    try {
      if (path === undefined) continue;
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // The next one.
    }
  return null;
}

withVectors('the vectors of all-MiniLM-L6-v2 are those of its model card', async ({ home }) => {
  const input = ['That is a happy person', 'That is a very happy person', 'Today is a sunny day'];
  const body = JSON.stringify({ model: 'minilm', input });
  const { code, stdout, stderr } = await home.svc(['api', 'POST', '/v1/embeddings', '-d', body]);
  assert.is(code, 0, stderr);
  const { data } = JSON.parse(stdout) as { data: { embedding: number[] }[] };
  const [asked, near, far] = data.map(({ embedding }) => embedding) as [
    number[],
    number[],
    number[],
  ];
  const cosine = (other: number[]) =>
    asked.reduce((sum, each, index) => sum + each * (other[index] ?? 0), 0);
  assert.is(asked.length, 384);
  assert.is(cosine(near).toFixed(3), '0.943');
  assert.is(cosine(far).toFixed(3), '0.257');
  const listed = await home.svc(['model', 'show', 'minilm']);
  assert.match(listed.stdout, /capabilities +embedding/);
});

withServer('the real llama-server is started, asked, listed and ended', async ({ home, life }) => {
  const answered = await home.svc(['run', 'Say hi.', '--provider', 'real', '--max-tokens', '12']);
  assert.is(answered.code, 0, answered.stderr);
  assert.ok(answered.stdout.trim().length > 0);
  const { models } = await life.ask((client) => client.call('model.ps'));
  const loaded = models.find(({ id }) => id === 'real/real');
  const pid = loaded?.pid ?? null;
  assert.type(pid, 'number');
  assert.ok((loaded?.memory_bytes ?? 0) > 50_000_000, 'its model is counted');
  const schema = {
    type: 'object',
    properties: { role: { enum: ['reader', 'writer'] } },
    required: ['role'],
    additionalProperties: false,
  };
  const body = {
    model: 'real/real',
    max_tokens: 30,
    messages: [{ role: 'user', content: 'Reader or writer? Answer as JSON.' }],
    response_format: { type: 'json_schema', json_schema: { name: 'role', schema } },
  };
  const formed = await home.svc([
    'api',
    'POST',
    '/v1/chat/completions',
    '-d',
    JSON.stringify(body),
  ]);
  assert.is(formed.code, 0, formed.stderr);
  const { choices, usage } = JSON.parse(formed.stdout);
  assert.match(JSON.parse(choices[0].message.content).role, /^(reader|writer)$/);
  assert.ok(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  assert.is((await home.svc(['model', 'unload', 'real'])).code, 0);
  await waitFor('its process is gone', () => {
    try {
      return !process.kill(pid ?? process.pid, 0);
    } catch {
      return true;
    }
  });
});

test.run();
