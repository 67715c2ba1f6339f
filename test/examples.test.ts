import { type ExecFileException, execFile, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { settingSpecs } from '../src/config/settings.ts';
import { type Home, makeHome } from './helpers/svc.ts';

/** Every example runs against the built daemon and its built-in model, or is parsed. */
const test = suite<{ home: Home; env: NodeJS.ProcessEnv }>('examples');
const FOLDER = 'docs/examples';
const BASE_URL = `http://${settingSpecs.http.default}/v1`;
const MODEL = 'local/svc-mini';

/** The files that run, each with what it prints. */
const programs: Readonly<Record<string, RegExp>> = {
  'curl.sh': /event: run\.completed[\s\S]*"object":"chat\.completion"/,
  'openai.mjs': /run/,
  'openai_client.py': /run/,
  'anthropic.mjs': /run/,
  'ai-sdk.mjs': /run/,
  'langchain.mjs': /run/,
  'grpc.mjs': /run/,
  'follow-logs.mjs': /"msg":/,
  'survive.mjs': /The second request got the same run\./,
};
const configurations = ['kubernetes.yaml', 'continue.yaml', 'zed.json', 'aider.conf.yml'];
const read = (file: string) => readFileSync(`${FOLDER}/${file}`, 'utf8');

test.before(async (context) => {
  const home = makeHome();
  context.home = home;
  const started = await home.svc(['start']);
  assert.is(started.code, 0, started.stderr);
  const { addresses } = JSON.parse((await home.svc(['status', '--json'])).stdout);
  context.env = {
    ...home.env,
    SVC_URL: addresses.http,
    SVC_GRPC_ADDRESS: addresses.grpc,
    SVC_TOKEN: (await home.svc(['token'])).stdout.trim(),
  };
});
test.after(({ home }) => home.close());

interface Ended {
  error: ExecFileException | null;
  stdout: string;
  stderr: string;
}

function run(file: string, env: NodeJS.ProcessEnv): Promise<Ended> {
  const path = `${FOLDER}/${file}`;
  const [program, ...args] = file.endsWith('.mjs')
    ? [process.execPath, path, '--once']
    : [file.endsWith('.py') ? 'python3' : 'sh', path];
  return new Promise((resolve) =>
    execFile(program as string, args, { env, timeout: 120_000 }, (error, stdout, stderr) =>
      resolve({ error, stdout, stderr }),
    ),
  );
}

/** Why a program cannot run on this machine; null when it can. */
function missing(file: string): string | null {
  if (file.endsWith('.py') && spawnSync('python3', ['-c', 'import openai']).status !== 0)
    return 'no Python package openai';
  return file.endsWith('.sh') && spawnSync('curl', ['--version']).status !== 0 ? 'no curl' : null;
}

test('each example is in the page, and in this test', () => {
  const files = readdirSync(FOLDER).filter((file) => file !== 'README.md');
  const listed = [...read('README.md').matchAll(/^\| \[`(.+?)`\]\((.+?)\)/gm)];
  assert.equal(
    listed.map(([, name]) => name).sort(),
    files.sort(),
    `the table is in ${FOLDER}/README.md`,
  );
  for (const [, name, link] of listed) assert.is(link, name);
  assert.equal(
    [...Object.keys(programs), ...configurations].sort(),
    files.sort(),
    '`programs` and `configurations` are in test/examples.test.ts',
  );
});

for (const [file, printed] of Object.entries(programs)) {
  const why = missing(file);
  if (why !== null) process.stdout.write(`skipped: ${why}\n`);
  (why === null ? test : test.skip)(`${file} runs`, async ({ env }) => {
    const { error, stdout, stderr } = await run(file, env);
    assert.is(error, null, `${error?.message}\n${stderr}`);
    assert.match(stdout, printed);
  });
}

test('an example with a wrong token fails', async ({ env }) => {
  for (const file of ['openai.mjs', 'anthropic.mjs', 'ai-sdk.mjs', 'grpc.mjs'])
    assert.ok((await run(file, { ...env, SVC_TOKEN: 'wrong' })).error, file);
});

test('the probes of the pod are answered', async ({ env }) => {
  const [container] = parse(read('kubernetes.yaml')).spec.containers;
  const port = Number(settingSpecs.http.default.split(':').at(-1));
  assert.equal(container.ports, [{ containerPort: port }]);
  for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
    const { path, port: asked } = container[probe].httpGet;
    assert.is(asked, port);
    assert.is((await fetch(env.SVC_URL + path)).status, 200, path);
  }
});

test('the configurations of editors name the default address and a model that is served', async ({
  env,
}) => {
  const [chat] = parse(read('continue.yaml')).models;
  assert.equal([chat.provider, chat.apiBase, chat.model], ['openai', BASE_URL, MODEL]);
  const { svc } = JSON.parse(read('zed.json')).language_models.openai_compatible;
  assert.equal([svc.api_url, svc.available_models[0].name], [BASE_URL, MODEL]);
  const aider = parse(read('aider.conf.yml'));
  assert.equal(aider, { model: `openai/${MODEL}`, 'openai-api-base': BASE_URL });
  const headers = { authorization: `Bearer ${env.SVC_TOKEN}` };
  const response = await fetch(`${env.SVC_URL}/v1/models`, { headers });
  const { data } = (await response.json()) as { data: { id: string }[] };
  assert.ok(data.some(({ id }) => id === MODEL));
});

test.run();
