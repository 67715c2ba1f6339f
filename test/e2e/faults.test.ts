import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { connect as connectTo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connect } from '../../src/transport/control/client.ts';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';
import { addModels, followAnswer } from '../torture/answers.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { empty, fill, inject, injecting, mountOver, works } from '../torture/disk.ts';
import { ask } from '../torture/http.ts';

/**
 * Faults of what is under the daemon: it is loud, loses nothing that was acknowledged, and goes on
 * when the fault is over.
 */
const test = suite('faults');

const canMount = mounts();
const canTrace = works('strace', ...injecting('fsync:error=EIO'), 'true');
const canLimit = works('prlimit', '--version');
const canFake = works('faketime', '-f', '+1h', 'true');
for (const [possible, what] of [
  [canMount, 'a full disk: mounting is not permitted here'],
  [canTrace, 'a disk that fails: there is no strace here, or it may not trace'],
  [canLimit, 'too few file descriptors: there is no prlimit here'],
  [canFake, 'a clock that jumps: there is no faketime here'],
] as const)
  if (!possible) console.log(`skipped: ${what}`);

/** Being root is not enough where the system call is forbidden, as in most containers. */
function mounts(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'svc-mount-'));
  const disk = mountOver(folder, 1);
  disk?.unmount();
  rmSync(folder, { recursive: true });
  return disk !== null;
}

const post = (home: PausedHome, body: object = { prompt: 'x' }) =>
  ask(home, '/v1/runs', { method: 'POST', body });
const state = async (home: PausedHome, id: string) => (await ask(home, `/v1/runs/${id}`)).json;

async function withHome(
  env: NodeJS.ProcessEnv,
  work: (home: PausedHome) => Promise<void>,
): Promise<void> {
  const home = await makePausedHome(env);
  try {
    await work(home);
  } finally {
    await home.close();
  }
}

/** A home on a separate disk. */
async function onSmallDisk(work: (home: PausedHome) => Promise<void>): Promise<void> {
  await withHome({ SVC_LIMIT_RESERVE_BYTES: String(1024 * 1024) }, async (home) => {
    const config = readFileSync(home.paths.config);
    const disk = mountOver(home.folder, 24);
    if (disk === null) throw new Error('nothing could be mounted');
    writeFileSync(home.paths.config, config, { mode: 0o600 });
    try {
      await work(home);
    } finally {
      await home.svc(['stop', '--force']);
      disk.unmount();
    }
  });
}

(canMount ? test : test.skip)(
  'a full disk: new runs are refused, what was accepted is recorded and nothing of it is lost, and it works again by itself',
  () =>
    onSmallDisk(async (home) => {
      const life = await serve(home);
      const { json: run } = await post(home);
      await waitFor('it is asked', () => home.server.streams.size === 1);
      home.server.say('before ');
      // Nothing commits while the disk is filled: the reserve is spent later, for the log alone.
      await waitFor(
        'the piece is recorded',
        async () => (await state(home, run.id)).output === 'before ',
      );
      fill(home.folder);
      const refused = await waitFor('a run is refused', async () => {
        home.server.say('.');
        const answer = await post(home, { prompt: 'x'.repeat(50_000) });
        return answer.status !== 202 && answer;
      });
      assert.is(refused.status, 507, refused.text);
      assert.is(refused.json.error.code, 'store_full');
      const notReady = await waitFor('it is not ready', async () => {
        const answer = await ask(home, '/readyz');
        return answer.status === 503 && answer;
      });
      assert.match(notReady.json.reason ?? notReady.text, /disk|space/);
      assert.is((await ask(home, '/livez')).status, 200);
      const command = await home.svc(['run', 'x', '--no-start']);
      assert.is(command.code, 4, command.stderr);
      home.server.say('after');
      home.server.finish();
      const done = await waitFor('the run ends, from the reserve', async () => {
        const record = await state(home, run.id);
        return record.state === 'completed' && record;
      });
      assert.match(done.output, /^before \.+after$/);

      empty(home.folder);
      await waitFor('it is ready again', async () => (await ask(home, '/readyz')).status === 200);
      const { json: next } = await post(home);
      await waitFor('it is asked', () => home.server.streams.size > 0);
      home.server.finish();
      await waitFor(
        'the next run is recorded',
        async () => (await state(home, next.id)).state === 'completed',
      );

      fill(home.folder);
      await waitFor(
        'a run is refused again',
        async () => (await post(home, { prompt: 'x'.repeat(50_000) })).status === 507,
      );
      home.server.finish();
      const stop = await home.svc(['stop', '--timeout', '5']);
      assert.is(stop.code, 0, stop.stderr);
      assert.equal(await life.ended, { code: 0, signal: null });
      empty(home.folder);
      const again = await serve(home);
      assert.is((await again.ask((client) => client.call('status'))).last_boot?.ending, 'clean');
      assert.is((await state(home, run.id)).output, done.output);
      await again.stop(0);
    }),
);

(canTrace ? test : test.skip)(
  'a write or a sync that fails: it stops, loudly, and nothing that was acknowledged is lost',
  () =>
    withHome({}, async (home) => {
      let life = await serve(home);
      for (const [call, error] of [
        ['fdatasync', 'EIO'],
        ['pwrite64', 'EIO'],
        ['pwrite64', 'EROFS'],
      ] as const) {
        const acknowledged: string[] = [];
        let over = false;
        void life.ended.then(() => {
          over = true;
        });
        for (let count = 0; count < 3; count += 1) acknowledged.push((await post(home)).json.id);
        const endTracing = await inject(life.pid, `${call}:error=${error}:when=3+`);
        await waitFor('it has ended', async () => {
          const answer = await post(home).catch(() => null);
          if (answer?.status === 202) acknowledged.push(answer.json.id);
          home.server.finish();
          return over;
        });
        assert.is((await life.ended).code, 1, `${call} ${error}`);
        await endTracing();
        assert.match(life.printed(), /store_failed/);
        assert.ok(acknowledged.length > 0);
        life = await serve(home);
        for (const id of acknowledged) assert.is((await state(home, id)).id, id);
        const { last_boot } = await life.ask((client) => client.call('status'));
        assert.is.not(last_boot?.ending, 'clean');
      }
      await life.stop(0);
    }),
);

(canTrace ? test : test.skip)(
  'a disk that takes 20 ms for each sync: everything works, and the daemon answers meanwhile',
  () =>
    withHome({}, async (home) => {
      const life = await serve(home);
      const endTracing = await inject(life.pid, 'fsync,fdatasync:delay_exit=20000');
      const words = Array.from({ length: 30 }, (_, index) => `word ${index} `);
      const counts = [0, 0];
      const hearing = counts.map((_, index) =>
        followAnswer(home, { prompt: 'x' }, () => {
          counts[index] = (counts[index] ?? 0) + 1;
        }),
      );
      await waitFor('both are asked', () => home.server.streams.size === 2);
      for (const [index, word] of words.entries()) {
        home.server.say(word);
        await waitFor('both have heard a piece', () => counts.every((count) => count > index));
      }
      home.server.finish();
      for (const { record, text } of await Promise.all(hearing))
        assert.equal([record?.state, text], ['completed', words.join('')]);
      assert.is((await ask(home, '/readyz')).status, 200);
      assert.is((await life.stop()).code, 0);
      await endTracing();
    }),
);

(canLimit ? test : test.skip)(
  'no file descriptor left: it lives, says so, and takes connections again when there are some',
  () =>
    // Without a model no engine starts until a run needs it. Silent connections stay open.
    withHome({ SVC_MODEL: 'none', SVC_LIMIT_HEADER_MS: '600000' }, async (home) => {
      addModels(home);
      const life = await serve(home, {
        wrapper: ['prlimit', `--nofile=${DESCRIPTORS}:${DESCRIPTORS}`],
      });
      const { json: run } = await post(home);
      await waitFor('it is asked', () => home.server.streams.size === 1);
      const { hostname, port } = new URL(
        (await life.ask((client) => client.call('status'))).addresses.http ?? '',
      );
      const before = await connect(home.paths.socket);
      const held: Socket[] = [];
      const hold = () => held.push(connectTo(Number(port), hostname).on('error', () => {}));
      for (let count = 0; count < 120; count += 1) hold();
      // Fewer are left than an engine takes for its pipes. A file that is closed leaves one more.
      await waitFor('no descriptor is left', () => {
        hold();
        return readdirSync(`/proc/${life.pid}/fd`).length > DESCRIPTORS - 3;
      });
      const other = await before.call('run.start', {
        prompt: 'x',
        provider: 'local',
        model: 'quick',
        max_tokens: 5,
      });
      const found = await waitFor('the run that found none has its end', async () => {
        const run = await before.call('run.get', { id: other.id });
        return run.ended_at !== null && run;
      });
      assert.is(found.state, 'failed');
      // The error says it if the model file could not be opened, else the log does.
      assert.match(`${found.error?.message}\n${life.printed()}`, /EMFILE/);
      for (const socket of held) socket.destroy();
      before.close();
      await waitFor(
        'it takes connections again',
        async () => (await ask(home, '/readyz').catch(() => null))?.status === 200,
      );
      home.server.say('through it all');
      home.server.finish();
      await waitFor(
        'the run ends',
        async () => (await state(home, run.id)).output === 'through it all',
      );
      assert.is((await life.stop()).code, 0);
    }),
);

/** A WAL that SQLite began again still has old frames at its end: they are cut off. */
function liveFrames(wal: Buffer): Buffer {
  const [header, frameHeader, salt] = [32, 24, wal.subarray(16, 24)];
  const frameBytes = frameHeader + wal.readUInt32BE(8);
  let end = header;
  while (wal.subarray(end + 8, end + 16).equals(salt)) end += frameBytes;
  return wal.subarray(0, end);
}

test('a torn log and a flipped one are refused, loudly; doctor names it, and what can be read is exported', () =>
  withHome({}, async (home) => {
    const life = await serve(home);
    const wal = `${home.paths.database}-wal`;
    /** Where the WAL ended before the last run. */
    let torn = 0;
    const runFive = async () => {
      for (let count = 0; count < 5; count += 1) {
        torn = liveFrames(readFileSync(wal)).length;
        await post(home, { prompt: `prompt ${count} ${'x'.repeat(2000)}` });
        await waitFor('it is asked', () => home.server.streams.size === 1);
        home.server.finish();
        await waitFor('it has ended', () => home.server.streams.size === 0);
      }
    };
    // The first round of retention writes the WAL back. These runs are to be in the WAL alone.
    const writtenBack = () => statSync(home.paths.database, { bigint: true }).mtimeNs;
    for (let before = 0n; before !== writtenBack(); await runFive()) before = writtenBack();
    // What is in the middle of its commit is not known to be lost when it is.
    await waitFor(
      'all is recorded',
      async () => (await life.ask((client) => client.call('status'))).state === 'ready',
    );
    // A search writes the index of words: it is behind the last event, as on a busy machine.
    const search = async () => (await ask(home, SEARCH)).json.runs.length;
    const runs = await search();
    await life.kill();
    const whole = liveFrames(readFileSync(wal));
    torn += 9000;
    const damages: (() => void)[] = [
      () => truncateSync(wal, torn),
      () => writeFileSync(wal, flipped(whole, torn)),
    ];
    for (const damage of damages) {
      writeFileSync(wal, whole);
      damage();
      const start = await home.svc(['start']);
      assert.is(start.code, 1, start.stdout);
      assert.match(start.stderr, /event log/);
      const doctor = await home.svc(['doctor', '--json']);
      assert.is(doctor.code, 1);
      const { checks } = JSON.parse(doctor.stdout) as {
        checks: { name: string; status: string; detail: string }[];
      };
      assert.is(checks.find(({ name }) => name === 'event log')?.status, 'fail', doctor.stdout);
      const exported = await home.svc(['runs', 'export', '--all']);
      assert.is(exported.code, 1, exported.stderr);
      assert.ok(exported.stdout.trim().split('\n').length > 10, exported.stderr);
      assert.match(exported.stdout, /prompt 0/);
    }
    // Without the end of the index nothing is lost: it follows from the runs.
    writeFileSync(wal, whole.subarray(0, -9000));
    const again = await serve(home);
    assert.is(await search(), runs);
    await again.stop(0);
  }));

(canFake ? test : test.skip)(
  'a clock that jumps back by an hour, and ahead by a year, fires no deadline and changes no order',
  () =>
    withHome({ SVC_LIMIT_PROVIDER_RUNS: '1' }, async (home) => {
      const file = join(dirname(home.paths.config), 'clock');
      writeFileSync(file, '+0');
      const library = FAKETIME.find((path) => works('test', '-e', path));
      const env = {
        LD_PRELOAD: library,
        FAKETIME_TIMESTAMP_FILE: file,
        FAKETIME_NO_CACHE: '1',
        FAKETIME_DONT_FAKE_MONOTONIC: '1',
        DONT_FAKE_MONOTONIC: '1',
      };
      let life: Life = await serve(home, { env });
      const ids: string[] = [];
      for (const jump of ['-1h', '+365d', '+0']) {
        ids.push((await post(home)).json.id);
        await waitFor('it is asked', () => home.server.streams.size === 1);
        writeFileSync(file, jump);
        ids.push((await post(home)).json.id);
        await life.kill();
        await waitFor(
          'the connection to the upstream is closed',
          () => home.server.streams.size === 0,
        );
        life = await serve(home, { env });
        await waitFor('it is asked again', () => home.server.streams.size === 1);
        const records = await Promise.all(ids.map((id) => state(home, id)));
        assert.equal(
          records.map(({ queue_position }) => queue_position),
          ids.map((_, index) => (index === 0 ? null : index)),
          `after ${jump}`,
        );
        const { runs } = (await ask(home, '/v1/runs')).json;
        assert.equal(
          runs.map(({ id }: { id: string }) => id),
          [...ids].reverse(),
        );
      }
      for (const id of ids) {
        await waitFor(
          'it is asked',
          async () =>
            home.server.streams.size === 1 && (await state(home, id)).state === 'starting',
        );
        home.server.finish();
        await waitFor('it ends', async () => (await state(home, id)).state === 'completed');
      }
      await life.stop(0);
    }),
);

const SEARCH = '/v1/runs/search?words=prompt&limit=100';

/** Enough for the daemon itself and a few clients. */
const DESCRIPTORS = 64;

const FAKETIME = ['x86_64', 'aarch64'].map(
  (machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`,
);

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ 4;
  return copy;
}

test.run();
