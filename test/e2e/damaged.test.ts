import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createSqliteStore } from '../../src/kernel/store/sqlite/sqlite.ts';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { SMALL_RESERVE } from '../helpers/small-reserve.ts';
import { waitFor } from '../helpers/wait.ts';
import { event } from '../kernel/store/samples.ts';
import { serve } from '../torture/daemon.ts';
import { ask } from '../torture/http.ts';

/** Damage of the event log, as a person at the command line meets it. */
const test = suite<{ home: PausedHome }>('a damaged event log');

test.before.each(async (context) => {
  context.home = await makePausedHome();
});
test.after.each(({ home }) => home.close());

/** Finished runs, oldest first. */
async function answered(home: PausedHome, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { json } = await ask(home, '/v1/runs', {
      method: 'POST',
      body: { prompt: `prompt ${index}` },
    });
    ids.push(json.id);
    await waitFor('it is asked', () => home.server.streams.size === 1);
    home.server.say(`answer ${index}`);
    home.server.finish();
    await waitFor(
      'it has ended',
      async () => (await ask(home, `/v1/runs/${json.id}`)).json.state === 'completed',
    );
  }
  return ids;
}

/** Makes what is there older than the events that a start looks at. */
async function grow({ paths }: PausedHome): Promise<void> {
  const store = createSqliteStore({
    database: paths.database,
    highWater: paths.highWater,
    limits: SMALL_RESERVE,
  });
  const { last_seq } = await store.open();
  await store.append({
    events: Array.from({ length: 1200 }, (_, index) =>
      event(last_seq + 1 + index, 'other', index + 1),
    ),
    runs: [],
  });
  await store.close();
}

function change({ paths }: PausedHome, sql: string): void {
  const db = new Database(paths.database);
  db.exec(sql);
  db.close();
}

test('a changed event of a finished run: doctor fails on the daemon that runs, lists go on, and no export has the changed text', async ({
  home,
}) => {
  const first = await serve(home);
  const [, damaged = '', whole = ''] = await answered(home, 3);
  await first.stop(0);
  await grow(home);
  change(
    home,
    `update events set data = replace(data, 'answer 1', 'ANSWER 1') where stream = '${damaged}'`,
  );
  const life = await serve(home);
  const doctor = await waitFor('the slow check has found it', async () => {
    const outcome = await home.svc(['doctor', '--json']);
    return outcome.code === 1 && outcome;
  });
  const check = (
    JSON.parse(doctor.stdout) as { checks: { name: string; status: string; detail: string }[] }
  ).checks.find(({ name }) => name === 'event log');
  assert.is(check?.status, 'fail');
  assert.match(check?.detail ?? '', 'does not agree with its hash');
  assert.is((await home.svc(['runs', 'list'])).code, 0, 'its row is whole');
  const online = await home.svc(['runs', 'export', '--all']);
  await life.stop(0);

  const offline = await home.svc(['runs', 'export', '--all']);
  for (const { code, stdout, stderr } of [online, offline]) {
    assert.is(code, 1);
    assert.not.match(stdout, 'ANSWER 1');
    assert.match(stdout, 'answer 0');
    assert.match(stdout, 'answer 2');
    assert.match(stderr, /The events? \d+.* cannot be read\./);
  }
  for (const command of ['export', 'replay']) {
    const one = await home.svc(['runs', command, damaged]);
    assert.is.not(one.code, 0, command);
    assert.not.match(one.stdout, 'ANSWER 1');
  }

  change(
    home,
    `update runs set data = replace(data, 'prompt 1', 'PROMPT 1') where run_id = '${damaged}'`,
  );
  const again = await serve(home);
  const list = await home.svc(['runs', 'list']);
  assert.is(list.code, 1);
  assert.match(list.stdout, whole);
  assert.not.match(list.stdout, damaged);
  assert.match(list.stderr, `The record of the run ${damaged}`);
  for (const query of ['', '?limit=1']) {
    const listed: string[] = [];
    const marked: string[] = [];
    for (let path: string | null = `/v1/runs${query}`; path !== null; ) {
      const { status, json, text } = await ask(home, path);
      assert.is(status, 200, text);
      listed.push(...json.runs.map(({ id }: { id: string }) => id));
      marked.push(...(json.damaged ?? []).map(({ id }: { id: string }) => id));
      path = json.next === null ? null : `/v1/runs?limit=1&before=${json.next}`;
    }
    assert.is(listed.length, 2);
    assert.equal(marked, [damaged]);
  }
  await again.stop(0);
});

test('the data folder is moved away: runs are refused, the daemon ends and says why everywhere, and what was acknowledged is in the folder', async ({
  home,
}) => {
  const life = await serve(home);
  const [id = ''] = await answered(home, 1);
  const away = `${home.folder}/away`;
  renameSync(home.paths.data, away);
  let over = false;
  void life.ended.then(() => {
    over = true;
  });
  const acknowledged = [id];
  await waitFor('it has ended', async () => {
    const answer = over
      ? null
      : await ask(home, '/v1/runs', { method: 'POST', body: { prompt: 'x' } }).catch(() => null);
    if (answer?.status === 202) acknowledged.push(answer.json.id);
    home.server.finish();
    return over;
  });
  assert.equal(await life.ended, { code: 1, signal: null });
  const reason = `${home.paths.database} was removed while the daemon ran`;
  assert.match(life.printed(), reason);
  assert.match((await home.svc(['logs', '--level', 'error'])).stdout, reason);
  const doctor = await home.svc(['doctor', '--json']);
  assert.match(doctor.stdout, reason);
  const status = await home.svc(['status']);
  assert.match(`${status.stdout}${status.stderr}`, reason);

  rmSync(home.paths.data, { recursive: true, force: true });
  renameSync(away, home.paths.data);
  const again = await serve(home);
  for (const known of acknowledged) assert.is((await ask(home, `/v1/runs/${known}`)).status, 200);

  // The whole home is removed: the daemon ends, and a second one may start.
  const config = readFileSync(home.paths.config);
  rmSync(home.folder, { recursive: true, maxRetries: 20 });
  assert.is((await again.ended).code, 1);
  assert.match(again.printed(), 'was removed while the daemon ran');
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  writeFileSync(home.paths.config, config);
  const second = await serve(home);
  await answered(home, 1);
  assert.equal(await second.stop(0), { code: 0, signal: null });
});

test('a backup of the database, alone or with its mark, put back beside the WAL of a later state, is refused by name and not written to', async ({
  home,
}) => {
  const { data, database } = home.paths;
  const first = await serve(home);
  const [early = ''] = await answered(home, 1);
  await first.stop(0);
  const backup = `${home.folder}/backup`;
  cpSync(data, backup, { recursive: true });
  const second = await serve(home);
  await answered(home, 1);
  await second.stop(0);
  const third = await serve(home);
  const [late = ''] = await answered(home, 1);
  await third.kill();
  assert.ok(existsSync(`${database}-wal`));
  for (const files of [['events.db'], ['events.db', 'events.high-water']]) {
    for (const file of files) cpSync(`${backup}/${file}`, `${data}/${file}`);
    const kept = ['events.db', 'events.db-wal', 'events.high-water'].map(
      (file) => [file, readFileSync(`${data}/${file}`)] as const,
    );
    const refused = await home.svc(['serve']);
    assert.is(refused.code, 1, refused.stdout);
    assert.match(
      refused.stderr,
      'The WAL beside the event log was written for another state of it. Nothing was changed.',
    );
    assert.match(refused.stderr, `move ${database}-wal away`);
    for (const [file, bytes] of kept)
      assert.ok(readFileSync(`${data}/${file}`).equals(bytes), `${file} is as it was`);
  }

  renameSync(`${database}-wal`, `${home.folder}/old-wal`);
  const life = await serve(home);
  assert.is((await ask(home, `/v1/runs/${early}`)).json.output, 'answer 0');
  assert.is((await ask(home, `/v1/runs/${late}`)).status, 404);
  await life.stop(0);
  assert.is((await home.svc(['doctor', '--json'])).code, 0);
});

test.run();
