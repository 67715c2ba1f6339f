import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { postgresPrograms, startPostgres } from '../helpers/postgres.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

const on = postgresPrograms === null ? test.skip : test;

async function withDaemon(work: (home: Home) => Promise<void>): Promise<void> {
  const postgres = await startPostgres({ durable: true });
  const address = `${await postgres.database()}&password=hunter2`;
  const home = makeHome({ SVC_STORE: address });
  try {
    assert.is((await home.svc(['start'])).code, 0);
    await work(home);
    assert.is((await home.svc(['stop'])).code, 0);
  } finally {
    await home.close();
    await postgres.end();
  }
}

async function pidOf(home: Home): Promise<number> {
  return (JSON.parse((await home.svc(['status', '--json'])).stdout) as { pid: number }).pid;
}

async function runs(home: Home): Promise<{ id: string; state: string }[]> {
  const { stdout } = await home.svc(['runs', 'list', '--json']);
  return (JSON.parse(stdout) as { runs: { id: string; state: string }[] }).runs;
}

on('a daemon on PostgreSQL keeps its runs over a crash, and no text has the password', () =>
  withDaemon(async (home) => {
    assert.is((await home.svc(['run', 'hello'])).code, 0);
    const before = await runs(home);
    assert.equal(
      before.map(({ state }) => state),
      ['completed'],
    );
    process.kill(await pidOf(home), 'SIGKILL');
    assert.is((await home.svc(['start'])).code, 0);
    assert.equal(await runs(home), before);
    assert.is((await home.svc(['run', 'hello again'])).code, 0);
    assert.is((await runs(home)).length, 2);
    for (const args of [
      ['config', 'show', '--json'],
      ['config', 'get', 'store'],
      ['status', '--json'],
      ['doctor', '--json'],
      ['logs', '--tail', '100', '--json'],
    ]) {
      const { stdout, stderr } = await home.svc(args);
      assert.not.match(stdout + stderr, /hunter2/, args.join(' '));
    }
  }),
);

test.run();
