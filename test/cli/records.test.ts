import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as assert from 'uvu/assert';
import { fromBody, SvcError } from '../../src/errors.ts';
import { limitSpecs } from '../../src/limits.ts';
import { providerConfig } from '../helpers/provider-config.ts';
import type { Home } from '../helpers/svc.ts';
import { type FakeDaemon, run, status, suiteWithDaemon } from './fake-daemon.ts';

const test = suiteWithDaemon('models, providers, runs and configuration on the command line');

const provider = {
  id: 'o',
  kind: 'local',
  adapter: 'openai-compatible',
  state: 'available',
  reason: null,
  since: status.since,
  base_url: 'http://127.0.0.1:1/v1',
  credential: 'none',
  models: 2,
  default: false,
};
const model = {
  id: 'local/m',
  provider: 'local',
  name: 'm',
  state: 'available',
  size_bytes: 1536,
  digest: null,
  quantization: 'Q4',
  parameters: 7_200_000_000,
  context_length: 4096,
  capabilities: ['completion'],
  default: true,
  built_in: false,
  path: '/m.gguf',
};
const asked = (daemon: FakeDaemon, method: string) =>
  daemon.asked.filter((request) => request.method === method).map(({ params }) => params);
const configure = (home: Home, text: string) => {
  mkdirSync(dirname(home.paths.config), { recursive: true });
  writeFileSync(home.paths.config, text);
};

test('an imported model says how to ask it, also one that writes no answers', async ({
  home,
  daemon,
}) => {
  const note = async (capabilities: string[]) => {
    daemon.on('model.import', ({ result }) => result({ ...model, capabilities }));
    return (await home.svc(['model', 'import', 'm.gguf'])).stderr.trim();
  };
  assert.is(await note(['completion']), 'Ask it with: svc run "…" --model m');
  assert.is(await note(['embedding']), 'Ask it with: POST /v1/embeddings, model local/m');
  assert.is(await note(['reranking']), 'Ask it with: POST /v1/rerank, model local/m');
});

test('a run that failed says what to do', async ({ home, daemon }) => {
  const error = fromBody({ code: 'capability_missing', hint: 'Take another.' }).body();
  daemon.on('run.get', ({ result }) => result({ ...run, state: 'failed', error }));
  const { stdout } = await home.svc(['runs', 'show', run.id]);
  assert.match(stdout, /^ *hint +Take another\.$/m);
});

test('lists are JSON in their envelope, and a table to a person', async ({ home, daemon }) => {
  daemon.on('model.list', ({ result }) => result({ models: [model] }));
  daemon.on('provider.list', ({ result }) => result({ providers: [provider] }));
  daemon.on('run.list', ({ result }) =>
    result({ runs: [{ ...run, prompt: 'two\nlines' }], next: null }),
  );
  assert.equal(JSON.parse((await home.svc(['model', 'list', '--json'])).stdout), {
    models: [model],
    aliases: {},
  });
  assert.equal(JSON.parse((await home.svc(['provider', 'list', '--json'])).stdout), {
    providers: [provider],
  });
  assert.equal(JSON.parse((await home.svc(['runs', 'list', '--json'])).stdout).runs.length, 1);
  for (const [args, parts] of [
    [
      ['model', 'list'],
      ['local/m *', '1.5 KiB', '7.2B', 'Q4', '4096', 'completion'],
    ],
    [
      ['provider', 'list'],
      ['available', 'http://127.0.0.1:1/v1'],
    ],
    [
      ['runs', 'list'],
      ['run_1', 'queued', 'local/tiny', 'two…'],
    ],
  ] as const) {
    const { stdout, stderr } = await home.svc(args);
    assert.is(stderr, '');
    assert.is(stdout.split('\n').length, 3, 'a heading, a row, an end');
    for (const part of parts) assert.match(stdout, part);
  }
});

test('a run took the time in the queue and of its work, without its wait for a person', async ({
  home,
  daemon,
}) => {
  const at = (seconds: number) =>
    new Date(Date.parse(run.created_at) + seconds * 1000).toISOString();
  const ended = { ...run, started_at: at(6), ended_at: at(7212), waited_ms: 7_200_000 };
  const still = { ...ended, ended_at: null, waits_since: at(7212) };
  daemon.on('run.list', ({ result }) => result({ runs: [ended, still], next: null }));
  daemon.on('run.get', ({ result }) => result(ended));
  const [, first = '', second = ''] = (await home.svc(['runs', 'list'])).stdout.split('\n');
  assert.match(first, / 12 s \(and waited 2 h\) /);
  assert.match(second, / 12 s \(and waited \d/);
  assert.match((await home.svc(['runs', 'show', 'run_1'])).stdout, /waited +2 h for a person/);
});

test('logs takes a run as every command does, and an unknown one is an error', async ({
  home,
  daemon,
}) => {
  const [mine, other] = ['A', 'B'].map((letter) => `run_01ARZ3NDEKTSV4RRFFQ69G5F${letter}V`);
  daemon.on('run.get', ({ params, result, error }) =>
    params.id === 'last' || params.id === mine
      ? result({ ...run, id: mine })
      : error(new SvcError('run_unknown').body()),
  );
  mkdirSync(home.paths.logs, { recursive: true });
  const line = (run_id = '') =>
    `${JSON.stringify({ level: 'info', time: run.created_at, msg: run_id, run_id })}\n`;
  writeFileSync(join(home.paths.logs, 'svc.log'), line(other) + line(mine));
  const last = await home.svc(['logs', '--run', 'last', '--json']);
  assert.equal([last.code, last.stdout], [0, line(mine)], last.stderr);
  assert.is((await home.svc(['logs', '--run', other ?? ''])).code, 0, 'a run that was removed');
  for (const unknown of ['nosuch', 'run_01ARZ3NDEKTSV4RRFFQ69G5FCV']) {
    const { code, stderr } = await home.svc(['logs', '--run', unknown, '--json']);
    assert.equal([code, JSON.parse(stderr).error.code], [2, 'run_unknown']);
  }
  assert.is((await home.svc(['logs', '--run', mine ?? '', '--level', 'fatal'])).code, 0);
});

test('a provider says below the table why it does not answer, whole in a pipe', async ({
  home,
  daemon,
}) => {
  const reason = `it is away ${'and away '.repeat(20)}`.trim();
  const since = new Date().toISOString();
  const away = { ...provider, id: 'away', state: 'unreachable', reason, since, retry_at: null };
  const faulty_models = [{ ...away, model: 'm', reason: 'bad key' }];
  daemon.on('provider.list', ({ result }) =>
    result({ providers: [{ ...provider, faulty_models }, away] }),
  );
  const { stdout } = await home.svc(['provider', 'list']);
  assert.match(stdout, /unreachable for [\d.]+ m?s\. it is away/);
  assert.match(stdout, `${reason}\n`);
  assert.match(stdout, /\/m +unreachable for .* bad key/);
});

test('a foreign text cannot command the terminal', async ({ home, daemon }) => {
  const evil = 'a\u001b]0;gone\u0007\u001b[2J\u009bb\r';
  daemon.on('model.list', ({ result }) => result({ models: [{ ...model, id: evil }] }));
  daemon.on('run.get', ({ result }) => result({ ...run, prompt: evil, output: evil }));
  daemon.on('run.cancel', ({ error }) => error(new SvcError('run_unknown', evil).body()));
  for (const args of [
    ['model', 'list'],
    ['runs', 'show', 'x'],
    ['runs', 'cancel', 'x'],
  ]) {
    const { stdout, stderr } = await home.svc(args);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about
    assert.not.match(stdout + stderr, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  }
});

test('runs are read page by page up to the limit', async ({ home, daemon }) => {
  daemon.on('run.list', ({ params, result }) => {
    const first = params.before === undefined ? 0 : Number(params.before);
    const runs = Array.from({ length: Math.min(50, Number(params.limit)) }, (_, index) => ({
      ...run,
      id: `run_${first + index}`,
    }));
    result({ runs, next: String(first + runs.length) });
  });
  const { stdout } = await home.svc([
    'runs',
    'list',
    '--limit',
    '120',
    '--state',
    'failed',
    '--provider',
    'o',
    '--json',
  ]);
  const page = JSON.parse(stdout);
  assert.is(page.runs.length, 120);
  assert.is(page.next, '120');
  assert.equal(
    asked(daemon, 'run.list').map(({ limit, before }) => [limit, before]),
    [
      [100, undefined],
      [70, '50'],
      [20, '100'],
    ],
  );
  assert.ok(
    asked(daemon, 'run.list').every(({ state, provider: of }) => state === 'failed' && of === 'o'),
  );
});

test('one record is asked for by its id, and a run that is not known is exit 2', async ({
  home,
  daemon,
}) => {
  daemon.on('run.get', ({ params, result, error }) =>
    params.id === 'run_1' ? result(run) : error(new SvcError('run_unknown').body()),
  );
  daemon.on('model.show', ({ params, result }) =>
    result({ ...model, id: params.id, metadata: { 'general.name': 'M' } }),
  );
  assert.equal(JSON.parse((await home.svc(['runs', 'show', 'run_1', '--json'])).stdout), run);
  assert.is((await home.svc(['runs', 'show', 'nope'])).code, 2);
  assert.match((await home.svc(['model', 'show', 'local/m'])).stdout, /general\.name +M/);
  assert.match((await home.svc(['runs', 'cancel', 'run_1'])).stdout, 'is cancelled');
});

test('a run shows its conversation, and the parts of its answer', async ({ home, daemon }) => {
  const call = { type: 'tool_call', id: 'c1', name: 'look', arguments: '{"at":1}' };
  daemon.on('run.get', ({ result }) =>
    result({
      ...run,
      state: 'completed',
      finish_reason: 'tool_calls',
      asked_as: 'openai.chat',
      tools: [{ name: 'look', description: null, parameters: {} }],
      tool_calls: [
        {
          call: 1,
          id: 'c0',
          server: 'eyes',
          tool: 'look',
          name: 'eyes__look',
          arguments: '{}',
          state: 'lost',
          decided_by: 'policy',
          report: '3 of 10: a.txt',
          requested_at: null,
          started_at: null,
          ended_at: null,
          result: null,
          is_error: false,
        },
      ],
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?\nAnswer' },
            { type: 'image', media_type: 'image/png', size_bytes: 34_816 },
          ],
        },
        { role: 'assistant', content: [call] },
        {
          role: 'tool',
          content: [{ type: 'tool_result', id: 'c1', text: 'blind', is_error: true }],
        },
      ],
      output: '',
      output_parts: [
        { type: 'reasoning', text: 'Look again.' },
        { ...call, id: 'c2' },
        { type: 'refusal', text: 'No.' },
      ],
    }),
  );
  const { stdout } = await home.svc(['runs', 'show', 'run_1']);
  assert.match(stdout, /asked through +openai\.chat/);
  assert.match(stdout, /tools +look/);
  assert.match(stdout, /call 1 +eyes\/look, lost \(by policy\), said last: 3 of 10: a\.txt\n/);
  assert.is(
    stdout.slice(stdout.indexOf('\n\n') + 2),
    `System
  Be brief.

User
  What is this?
  Answer
  [image/png, 34 KiB]

Assistant
  (call c1) look {"at":1}

Tool
  (error of c1) blind

Answer
  Look again.
  (call c2) look {"at":1}
  (refusal) No.
`,
  );
});

test('a provider is tested: 0 when it answers, 5 when it refuses us, 9 when it is not there', async ({
  home,
  daemon,
}) => {
  for (const [state, code] of [
    ['available', 0],
    ['unauthorised', 5],
    ['unavailable', 9],
    ['degraded', 9],
  ] as const) {
    daemon.on('provider.test', ({ result }) => result({ ...provider, state, reason: 'Because.' }));
    const outcome = await home.svc(['provider', 'test', 'o', '--json']);
    assert.is(outcome.code, code);
    assert.is(JSON.parse(outcome.stdout).state, state);
  }
});

test('config show prints the values of the file when the daemon does not answer', async ({
  home,
  daemon,
}) => {
  daemon.on('config', () => {});
  const { code, stdout, stderr } = await home.svc(['config', 'show']);
  assert.is(code, 0);
  assert.match(stdout, 'log_level');
  assert.match(stderr, 'The daemon does not answer. Its next start uses these values.');
});

test('a configuration that is not a file is an error with a hint', async ({ home, daemon }) => {
  await daemon.close();
  mkdirSync(home.paths.config, { recursive: true });
  const { code, stderr } = await home.svc(['config', 'show']);
  assert.is(code, 6);
  assert.match(stderr, 'is not a file.');
  assert.match(stderr, 'hint: Move it away');
});

test('errors of provider settings name the flags', async ({ home }) => {
  for (const [args, message] of [
    [['x', '--base-url', 'ftp://h'], '--base-url must be an http or https address.'],
    [
      ['x', '--base-url', 'https://a:b@h'],
      '--base-url must not hold credentials; name their place with key.',
    ],
    [
      ['x', '--base-url', 'https://h', '--key-env', 'sk-1'],
      '--key-env must name an environment variable; it is not the key.',
    ],
    [['x', '--base-url', 'https://h', '--kind', 'remote'], '--kind must be "local" or "cloud".'],
    [['X: y', '--base-url', 'https://h'], 'A provider cannot be named "X: y": an id is'],
  ] as const) {
    const { code, stderr } = await home.svc(['provider', 'add', ...args]);
    assert.is(code, 2);
    assert.match(stderr, `error: ${message}`);
    assert.match(stderr, 'hint: See: svc provider add --help');
  }
});

test('providers are added and removed through the daemon that runs, and the key is only named', async ({
  home,
  daemon,
}) => {
  daemon.on('provider.add', ({ result }) => result(provider));
  daemon.on('provider.remove', ({ result }) => result(provider));
  assert.is(
    (
      await home.svc([
        'provider',
        'add',
        'o',
        '--base-url',
        'https://api.example/v1/',
        '--key-env',
        'KEY',
        '--model',
        'm',
      ])
    ).code,
    0,
  );
  assert.is((await home.svc(['provider', 'remove', 'o'])).code, 0);
  const expected = {
    id: 'o',
    ...providerConfig({ kind: 'cloud', base_url: 'https://api.example/v1', key: 'env:KEY' }),
  };
  assert.equal(asked(daemon, 'provider.add'), [expected]);
  assert.not.ok(existsSync(home.paths.config));
});

test('a damaged run stops no other removal: it is named, and the exit code says so', async ({
  home,
  daemon,
}) => {
  const ids = ['run_3', 'run_2', 'run_1'].map((id) => `${id}${'0'.repeat(25)}`);
  const [, damaged = ''] = ids;
  daemon.on('run.list', ({ result }) => result({ runs: ids.map((id) => ({ id })), next: null }));
  daemon.on('run.remove', ({ params, result, error }) =>
    params.id === damaged
      ? error({ ...new SvcError('store_corrupt', 'Its record is damaged.').body() })
      : result({ removed: params.id, trouble: `Texts of ${params.id} remain.` }),
  );
  const args = ['runs', 'remove', '--conversation', ids[2] ?? ''];
  const { code, stdout, stderr } = await home.svc(args);
  assert.equal([code, stdout], [1, `Removed ${ids[0]}.\nRemoved ${ids[2]}.\n`]);
  assert.match(stderr, `${damaged} was not removed. Its record is damaged.`);
  assert.match(stderr, `Texts of ${ids[2]} remain.`);
  assert.not.match(stderr, `Texts of ${ids[0]}`, 'only the last removal counts');
  const answer = await home.svc([...args, '--json']);
  assert.equal(
    [answer.code, JSON.parse(answer.stdout)],
    [
      1,
      {
        removed: [ids[0], ids[2]],
        damaged: [{ id: damaged, message: 'Its record is damaged.' }],
        trouble: `Texts of ${ids[2]} remain.`,
      },
    ],
  );
});

test('without a daemon the configuration is edited, and shown in the state unknown', async ({
  home,
  daemon,
}) => {
  await daemon.close();
  configure(home, '{\n  // mine\n  "default_provider": "o"\n}\n');
  const added = await home.svc([
    'provider',
    'add',
    'o',
    '--base-url',
    'http://localhost:8080/v1',
    '--json',
  ]);
  assert.is(added.code, 0);
  assert.is(JSON.parse(added.stdout).state, 'unknown');
  assert.match(readFileSync(home.paths.config, 'utf8'), '// mine');
  assert.is((await home.svc(['provider', 'add', 'o', '--base-url', 'http://localhost:1'])).code, 2);
  const { providers } = JSON.parse((await home.svc(['provider', 'list', '--json'])).stdout);
  assert.equal(
    providers.map(({ id, kind, state, default: is }: Record<string, unknown>) => [
      id,
      kind,
      state,
      is,
    ]),
    [
      ['local', 'local', 'unknown', false],
      ['o', 'local', 'unknown', true],
    ],
  );
  assert.is((await home.svc(['provider', 'remove', 'o'])).code, 0);
  assert.is((await home.svc(['provider', 'remove', 'o'])).code, 7);
  assert.is((await home.svc(['provider', 'remove', 'local'])).code, 2);
  assert.is((await home.svc(['model', 'list'])).code, 3);
  assert.is((await home.svc(['runs', 'list'])).code, 3);
});

test('config show says what is in force and from where; a mistake in the file is exit 6 with its place', async ({
  home,
  daemon,
}) => {
  await daemon.close();
  configure(
    home,
    '{"model":"x","limits":{"queue_runs":3},"providers":{"o":{"base_url":"http://127.0.0.1:1","key_env":"KEY"}}}',
  );
  const { stdout } = await home.svc(['config', 'show', '--json'], {
    env: { SVC_LOG_LEVEL: 'debug', KEY: 'secret-key' },
  });
  const shown = JSON.parse(stdout);
  assert.equal(shown.settings.model, { value: 'x', source: 'file' });
  assert.equal(shown.settings.log_level, { value: 'debug', source: 'environment' });
  assert.equal(shown.settings.auth, { value: true, source: 'default' });
  assert.equal(shown.limits.queue_runs, { value: 3, source: 'file' });
  assert.equal(Object.keys(shown.limits).length, Object.keys(limitSpecs).length);
  assert.is(shown.providers.o.value.key, 'env:KEY');
  assert.not.match(stdout, 'secret-key');
  assert.match((await home.svc(['config', 'show'])).stdout, /limits\.queue_runs +file +3/);
  configure(home, '{\n  "modle": 1\n}');
  const broken = await home.svc(['config', 'show', '--json']);
  assert.is(broken.code, 6);
  assert.match(JSON.parse(broken.stderr).error.message, ':2:');
});

test('the token is printed from its file, and only the daemon creates it', async ({ home }) => {
  const none = await home.svc(['token']);
  assert.equal([none.code, none.stdout], [3, '']);
  mkdirSync(home.paths.data, { recursive: true });
  writeFileSync(home.paths.token, 'abc\n');
  assert.is((await home.svc(['token'])).stdout, 'abc\n');
  assert.equal(JSON.parse((await home.svc(['token', '--json'])).stdout), { token: 'abc' });
});

test.run();
