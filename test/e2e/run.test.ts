import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { PausedServer } from '../helpers/paused-server.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';

/** Prompts on the built program with the real engine: one daemon for all tests. */
const test = suite('a prompt, from the command line');
let home: Home;

test.before(() => {
  home = makeHome();
});
test.after(async () => {
  await home.svc(['stop', '--force']);
  await home.close();
});

const error = (text: string) =>
  (JSON.parse(text.trim().split('\n').at(-1) ?? '{}') as { error: { code: string; hint: string } })
    .error;

/**
 * Does something with a server that the test holds, at this address, which is closed afterwards.
 */
async function withHeldServer(
  work: (server: PausedServer, base_url: string) => Promise<void>,
): Promise<void> {
  const server = new PausedServer();
  const base_url = await server.listen();
  try {
    await work(server, base_url);
  } finally {
    await server.close();
  }
}

test('on a machine where nothing runs, one command prints an answer of the engine and nothing else on stdout', async () => {
  const outcome = await home.svc(['run', 'What is svc?']);
  assert.is(outcome.code, 0, outcome.stderr);
  assert.match(outcome.stdout, /daemon/);
  assert.is(outcome.stdout.trimEnd().split('\n').length, 1);
  assert.match(outcome.stderr, /[Ss]tarting the daemon/);
  assert.match(outcome.stderr, /built-in model/);
});

test('the second time nothing is said beside the answer, and the answer is the same', async () => {
  const [first, second] = [
    await home.svc(['run', 'What is svc?']),
    await home.svc(['run', 'What is svc?']),
  ];
  assert.is(second?.stderr, '');
  assert.is(first?.stdout, second?.stdout);
});

test('the answer that loaded the model has the load time, and the next one has none', async () => {
  const { runs } = JSON.parse((await home.svc(['runs', 'list', '--json'])).stdout) as {
    runs: { load_ms?: number }[];
  };
  assert.ok((runs.at(-1)?.load_ms ?? 0) > 0);
  assert.is(runs[0]?.load_ms, undefined);
});

test('text from stdin is appended to the prompt, or is the prompt', async () => {
  const [argument, piped, dash] = await Promise.all([
    home.svc(['run', 'How do I stop the daemon?']),
    home.svc(['run'], { stdin: 'How do I stop the daemon?' }),
    home.svc(['run', '-'], { stdin: 'How do I stop the daemon?' }),
  ]);
  assert.is(piped?.stdout, argument?.stdout);
  assert.is(dash?.stdout, argument?.stdout);
  const both = JSON.parse((await home.svc(['run', 'one', '--json'], { stdin: 'two' })).stdout) as {
    prompt: string;
  };
  assert.match(both.prompt, /^one\n+two$/);
});

test('several words are one prompt, without quotes', async () => {
  const [words, quoted] = await Promise.all([
    home.svc(['run', 'how', 'do', 'I', 'stop', 'the', 'daemon?', '--json', '--seed', '1']),
    home.svc(['run', 'how do I stop the daemon?', '--seed', '1']),
  ]);
  const { prompt, output } = JSON.parse(words.stdout) as { prompt: string; output: string };
  assert.is(prompt, 'how do I stop the daemon?');
  assert.is(`${output}\n`, quoted.stdout);
});

test('--json prints the record, complete and agreeing with the history', async () => {
  const { stdout, code } = await home.svc(['run', 'What is svc?', '--json', '--max-tokens', '5']);
  assert.is(code, 0);
  const record = JSON.parse(stdout) as Record<string, unknown> & {
    usage: { output_tokens: number };
  };
  assert.is(record.state, 'completed');
  assert.is(record.provider, 'local');
  assert.is(record.cloud, false);
  assert.is(record.finish_reason, 'length');
  assert.is(record.usage.output_tokens, 5);
  assert.equal(
    JSON.parse((await home.svc(['runs', 'show', String(record.id), '--json'])).stdout),
    record,
  );
});

test('the same seed gives the same answer, also when sampling', async () => {
  const sample = async (seed: string) =>
    (
      await home.svc([
        'run',
        'Tell me about states',
        '--temperature',
        '1.5',
        '--seed',
        seed,
        '--max-tokens',
        '40',
      ])
    ).stdout;
  assert.is(await sample('7'), await sample('7'));
});

test('several runs at once are each answered as if alone', async () => {
  const prompts = [
    'What is svc?',
    'How do I stop the daemon?',
    'How do I see the logs?',
    'What is a run?',
    'What does exit code 8 mean?',
    'hello',
  ];
  const alone: string[] = [];
  for (const prompt of prompts) alone.push((await home.svc(['run', prompt])).stdout);
  const together = await Promise.all(prompts.map((prompt) => home.svc(['run', prompt])));
  assert.equal(
    together.map((outcome) => outcome.stdout),
    alone,
  );
});

test('--detach prints the id at once, and the run is answered all the same', async () => {
  const { stdout, code } = await home.svc(['run', 'What is svc?', '--detach']);
  assert.is(code, 0);
  assert.match(stdout, /^run_[0-9A-Z]{26}\n$/);
  await waitFor(
    'the run is answered',
    async () =>
      (
        JSON.parse((await home.svc(['runs', 'show', stdout.trim(), '--json'])).stdout) as {
          state: string;
        }
      ).state === 'completed',
  );
});

test('a prompt that is no text, or too much of it, is refused and nothing is recorded', async () => {
  const count = async () =>
    (JSON.parse((await home.svc(['status', '--json'])).stdout) as { runs: { finished: number } })
      .runs.finished;
  const before = await count();
  const nul = await home.svc(['run', '--json'], { stdin: 'a\0b' });
  assert.is(nul.code, 2);
  assert.is(error(nul.stderr).code, 'prompt_not_text');
  const broken = await home.svc(['run', '--json'], {
    stdin: Buffer.from([0x61, 0xff, 0xfe, 0x62]),
  });
  assert.is(broken.code, 2);
  assert.is(error(broken.stderr).code, 'prompt_not_text');
  const huge = await home.svc(['run', '--json'], { stdin: Buffer.alloc(100 * 1024 * 1024, 'a') });
  assert.is(huge.code, 2);
  assert.is(error(huge.stderr).code, 'prompt_too_large');
  const empty = await home.svc(['run', '--json'], { stdin: '' });
  assert.is(empty.code, 2);
  assert.is(error(empty.stderr).code, 'prompt_missing');
  assert.is(await count(), before);
});

test('a prompt that does not fit the context is refused, not cut', async () => {
  const outcome = await home.svc(['run', '--json'], { stdin: 'word '.repeat(5_000) });
  assert.is(outcome.code, 2);
  assert.match(outcome.stdout + outcome.stderr, /context_length_exceeded/);
});

test('a model that is invalid or absent, is named with exit 7', async () => {
  const file = join(home.folder, 'letter.gguf');
  writeFileSync(file, 'this is not a model\n'.repeat(100));
  const none = await home.svc(['run', 'x', '--model', file]);
  assert.is(none.code, 7, none.stderr);
  assert.match(none.stderr, /letter\.gguf|GGUF/);
  const missing = await home.svc(['run', 'x', '--model', 'nope']);
  assert.is(missing.code, 7);
  assert.match(missing.stderr, /nope/);
  assert.is((await home.svc(['run', 'What is svc?'])).code, 0);
});

test('an unknown provider names the known ones, and --cloud without one says how to add it', async () => {
  const unknown = await home.svc(['run', 'x', '--provider', 'nope']);
  assert.is(unknown.code, 7);
  assert.match(unknown.stderr, /local/);
  const cloud = await home.svc(['run', 'x', '--cloud']);
  assert.is(cloud.code, 7);
  assert.match(cloud.stderr, /svc provider add/);
  assert.is((await home.svc(['run', 'x', '--cloud', '--provider', 'local'])).code, 2);
});

test('a provider that is added answers at once, and is gone when it is removed', async () => {
  await withHeldServer(async (server, base_url) => {
    assert.is(
      (await home.svc(['provider', 'add', 'held', '--base-url', base_url, '--model', 'held'])).code,
      0,
    );
    const run = home.spawn(['run', 'hello', '--provider', 'held']);
    await waitFor('the server is asked', () => server.streams.size === 1);
    server.say('from another server');
    server.finish();
    const outcome = await run.ended;
    assert.is(outcome.stdout, 'from another server\n', outcome.stderr);
    // It is asked again every few seconds whether it is there.
    const providers = await waitFor('none is being probed', async () => {
      const listed = JSON.parse((await home.svc(['provider', 'list', '--json'])).stdout) as {
        providers: { id: string; kind: string; state: string }[];
      };
      return listed.providers.every(({ state }) => state !== 'probing') && listed.providers;
    });
    assert.equal(
      providers.map(({ id, kind, state }) => [id, kind, state]),
      [
        ['local', 'local', 'available'],
        ['held', 'local', 'available'],
      ],
    );
    const models = JSON.parse((await home.svc(['model', 'list', '--json'])).stdout) as {
      models: { id: string }[];
    };
    assert.ok(models.models.some(({ id }) => id === 'held/held'));
  });
  const gone = await home.svc(['run', 'x', '--provider', 'held', '--timeout', '60']);
  assert.is(gone.code, 9, gone.stderr);
  assert.is((await home.svc(['provider', 'remove', 'held'])).code, 0);
  assert.is((await home.svc(['run', 'x', '--provider', 'held'])).code, 7);
});

test('a cloud provider without its key refuses before anything leaves the machine', async () => {
  await home.svc([
    'provider',
    'add',
    'far',
    '--base-url',
    'https://far.invalid/v1',
    '--key-env',
    'FAR_KEY',
    '--model',
    'm',
  ]);
  const outcome = await home.svc(['run', 'x', '--cloud']);
  assert.is(outcome.code, 5, outcome.stderr);
  assert.match(outcome.stderr, /FAR_KEY/);
  const { providers } = JSON.parse((await home.svc(['provider', 'list', '--json'])).stdout) as {
    providers: { id: string; state: string; credential: string }[];
  };
  const far = providers.find(({ id }) => id === 'far');
  assert.is(far?.state, 'unauthorised');
  assert.is(far?.credential, 'env:FAR_KEY (not set)');
  await home.svc(['provider', 'remove', 'far']);
});

test('logs are the same from the daemon and from its files', async () => {
  const live = await home.svc(['logs', '--tail', '5', '--json']);
  assert.is(live.code, 0, live.stderr);
  const asked = home.spawn(['logs', '--follow', '--tail', '0', '--level', 'debug', '--json']);
  await home.svc(['stop']);
  await asked.ended;
  const files = (await home.svc(['logs', '--tail', '1000', '--json'])).stdout;
  for (const line of live.stdout.trim().split('\n')) assert.ok(files.includes(line), line);
  assert.is((await home.svc(['logs', '--tail', 'abc'])).code, 2);
});

test('doctor reports how a killed daemon died and which runs it had', async () => {
  await withHeldServer(async (server, base_url) => {
    await home.svc(['start']);
    await home.svc(['provider', 'add', 'held', '--base-url', base_url, '--model', 'held']);
    const id = (await home.svc(['run', 'x', '--provider', 'held', '--detach'])).stdout.trim();
    await waitFor('the server is asked', () => server.streams.size === 1);
    const { pid } = JSON.parse((await home.svc(['status', '--json'])).stdout) as { pid: number };
    process.kill(pid, 'SIGKILL');
    await waitFor('the daemon is gone', async () => (await home.svc(['status'])).code === 1);
    const dead = await home.svc(['doctor', '--json']);
    const { checks } = JSON.parse(dead.stdout) as {
      checks: { name: string; status: string; detail: string; hint: string | null }[];
    };
    const last = checks.find(({ name }) => name === 'last boot');
    assert.match(last?.detail ?? '', /It died in the state answering, with/);
    assert.match(last?.detail ?? '', new RegExp(id));
    assert.is(checks.find(({ name }) => name === 'event log')?.status, 'ok');
    await home.svc(['provider', 'remove', 'held']);
  });
  chmodSync(home.paths.data, 0o755);
  const open = await home.svc(['doctor']);
  assert.is(open.code, 1);
  assert.match(open.stdout, /chmod 700/);
  chmodSync(home.paths.data, 0o700);
  mkdirSync(home.paths.models, { recursive: true });
});

test.run();
