import { writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { notInForce } from '../../src/cli/upkeep/daemon/not-in-force.ts';
import { writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { limitSpecs } from '../../src/limits.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { type FakeDaemon, runtimeFile, startFakeDaemon, status } from './fake-daemon.ts';
import { startSleeper } from './sleeper.ts';

const test = suite<{ home: Home }>('svc status');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

const json = async (home: Home) => {
  const { code, stdout } = await home.svc(['status', '--json']);
  return { code, record: JSON.parse(stdout) };
};
const using = async (home: Home, use: (daemon: FakeDaemon) => Promise<void>) => {
  const daemon = await startFakeDaemon(home);
  try {
    await use(daemon);
  } finally {
    await daemon.close();
  }
};

test('a daemon that answers reports its own status, exit 0', async ({ home }) => {
  await using(home, async (daemon) => {
    assert.equal(await json(home), { code: 0, record: status });
    const addresses = { http: 'http://127.0.0.1:4780', grpc: '127.0.0.1:4781', socket: '/x.sock' };
    const last_boot = { boot_id: 'b', ending: 'killed', at: status.since };
    daemon.on('status', ({ result }) =>
      result({
        ...status,
        state: 'running',
        state_path: 'running.accepting',
        started_at: new Date(Date.now() - 7_200_000).toISOString(),
        version: '9.9.9',
        addresses,
        last_boot,
      }),
    );
    const { code, stdout, stderr } = await home.svc(['status']);
    assert.is(code, 0);
    assert.is(stderr, '');
    for (const part of [
      'running, up 2 h',
      'answering for ',
      '9.9.9',
      'svc restart',
      'http://127.0.0.1:4780',
      '127.0.0.1:4781',
      '0 active, 0 queued, 0 finished',
      'killed, last event ',
    ]) {
      assert.match(stdout, part);
    }
  });
});

test('the models in memory and the providers that fail have a line each', async ({ home }) => {
  await using(home, async (daemon) => {
    const model = {
      purpose: 'answers',
      state: 'busy',
      runs: 2,
      memory_bytes: 120 * 1024 * 1024,
      gpu: 'vulkan',
    };
    const provider = { state: 'rate_limited', reason: 'far: too many requests (status 429).' };
    const retry_at = new Date(Date.now() + 3_600_000 * 5).toISOString();
    daemon.on('status', ({ result }) =>
      result({
        ...status,
        waiting: 1,
        models: [
          { ...model, id: 'local/qwen', warning: 'The model qwen has no layer on the GPU.' },
          {
            ...model,
            id: 'local/nomic',
            purpose: 'embeddings',
            state: 'idle',
            memory_bytes: null,
            gpu: null,
          },
        ],
        failing: [
          { ...provider, id: 'far', retry_at },
          { id: 'near', state: 'degraded', reason: null, retry_at: null },
        ],
      }),
    );
    const { code, stdout, stderr } = await home.svc(['status']);
    assert.is(code, 0);
    assert.match(stderr, 'warning: The model qwen has no layer on the GPU.');
    const rows = stdout.split('\n').filter((line) => /^ *(waiting|model|provider) /.test(line));
    assert.equal(
      rows.map((line) => line.trim().replace(/ {2,}/, ' ')),
      [
        'waiting 1 waits for you: svc approvals list',
        'model local/qwen busy, 2 runs, 120 MiB, on vulkan',
        'model local/nomic idle, for embeddings',
        'provider far rate_limited, tried again in 5 h: far: too many requests (status 429).',
        'provider near degraded',
      ],
    );
  });
});

test('a daemon that takes no runs is shown with the reason, and start says it too', async ({
  home,
}) => {
  await using(home, async (daemon) => {
    const reason = 'The disk is full.';
    const state_path = 'running.disk_full';
    daemon.on('status', ({ result }) =>
      result({ ...status, state: 'running', state_path, reason }),
    );
    const shown = await home.svc(['status']);
    assert.is(shown.code, 0);
    assert.match(shown.stdout, /state +disk full for /);
    assert.match(shown.stdout, /why +The disk is full\./);
    const start = await home.svc(['start']);
    assert.match(start.stderr, 'It takes no runs: disk full. See why: svc status');
    daemon.on('status', ({ result }) => result(status));
    assert.is((await home.svc(['start'])).stderr, '');
  });
});

test('--why adds the events that led here', async ({ home }) => {
  await using(home, async (daemon) => {
    const events = [
      {
        seq: 1,
        stream: 's',
        version: 1,
        type: 'daemon.listening',
        at: status.since,
        boot_id: 'b',
        data: { port: 1 },
      },
    ];
    daemon.on('why', ({ result }) => result({ events }));
    const { stdout } = await home.svc(['status', '--why', '--json']);
    assert.equal(JSON.parse(stdout), { ...status, events });
    assert.match((await home.svc(['status', '--why'])).stdout, /daemon\.listening {2}\{"port":1\}/);
  });
});

test('no runtime file, or one that cannot be read: stopped, exit 3', async ({ home }) => {
  for (const text of [
    null,
    '',
    '{"pid": 1',
    '[]',
    '{"pid":-1}',
    '{"pid":"1"}',
    JSON.stringify({ ...runtimeFile, pid: 0 }),
    '\0\0\0',
  ]) {
    if (text !== null) writeFileSync(home.paths.runtime, text);
    const { code, record } = await json(home);
    assert.is(code, 3);
    assert.is(record.state, 'stopped');
    assert.is(record.pid, null);
  }
});

test('a runtime file whose process is gone, or is another by now: crashed, exit 1', async ({
  home,
}) => {
  const sleeper = await startSleeper();
  const { pid, process_start } = sleeper;
  for (const file of [
    { ...runtimeFile, pid: 2 ** 22 + 1 },
    { ...runtimeFile, pid, process_start: `${process_start}0` },
  ]) {
    await writeRuntimeFile(home.paths.runtime, file);
    const { code, record } = await json(home);
    assert.is(code, 1);
    assert.is(record.state, 'crashed');
    assert.is(record.pid, file.pid);
    assert.match((await home.svc(['status'])).stderr, 'svc doctor');
  }
  assert.ok(sleeper.isAlive());
  await sleeper.end();
});

test('a process of ours without a socket: starting in its first minute, then unresponsive, exit 4', async ({
  home,
}) => {
  const { pid, process_start, end } = await startSleeper();
  await writeRuntimeFile(home.paths.runtime, { ...runtimeFile, pid, process_start });
  assert.equal(await json(home).then(({ code, record }) => [code, record.state]), [0, 'starting']);
  const started_at = new Date(Date.now() - limitSpecs.start_ms.value - 1000).toISOString();
  await writeRuntimeFile(home.paths.runtime, { ...runtimeFile, pid, process_start, started_at });
  assert.equal(await json(home).then(({ code, record }) => [code, record.state, record.pid]), [
    4,
    'unresponsive',
    pid,
  ]);
  await end();
});

test('a silent daemon is distinguished from a stopped one', async ({ home }) => {
  await using(home, async (daemon) => {
    daemon.on('status', () => {});
    await writeRuntimeFile(home.paths.runtime, {
      ...runtimeFile,
      started_at: '2020-01-01T00:00:00.000Z',
    });
    assert.equal(await json(home).then(({ code, record }) => [code, record.state]), [
      4,
      'unresponsive',
    ]);
  });
});

test('a daemon that closes the connection is asked once more', async ({ home }) => {
  await using(home, async (daemon) => {
    daemon.on('status', ({ hangUp }) => {
      hangUp();
      daemon.on('status', ({ result }) => result(status));
    });
    assert.equal(await json(home), { code: 0, record: status });
    assert.is(daemon.asked.length, 2);
  });
});

test('what does not speak the protocol is an error, not a status', async ({ home }) => {
  await using(home, async (daemon) => {
    for (const garbage of [
      'HTTP/1.1 400 Bad Request\r\n\r\n',
      '[]\n',
      '{"id":1}\n',
      '{"id":"1","result":{}}\n',
      'null\n',
      '\u0000\u0001\n',
    ]) {
      daemon.on('status', ({ raw, hangUp }) => {
        raw(garbage);
        hangUp();
      });
      const { code, stdout, stderr } = await home.svc(['status', '--json']);
      assert.is(code, 10, garbage);
      assert.is(stdout, '');
      assert.is(JSON.parse(stderr).error.code, 'connection_lost');
    }
  });
});

test('of what is not in force five keys are named, and more are counted', () => {
  const named = (count: number) => {
    const not_in_force = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].slice(0, count);
    return notInForce({ not_in_force, config_problem: null }).join();
  };
  assert.is(named(0), '');
  assert.match(named(5), 'not all of it is in effect yet: a, b, c, d, e. To apply');
  assert.match(named(7), 'not all of it is in effect yet: a, b, c, d, e, and 2 more. To apply');
});

test.run();
