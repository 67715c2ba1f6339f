import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { RealFleet, SHORT } from '../helpers/fleet.ts';
import { PausedServer } from '../helpers/paused-server.ts';
import { postgresPrograms } from '../helpers/postgres.ts';
import { waitFor } from '../helpers/wait.ts';
import { ask } from '../torture/http.ts';

/** Daemons of the built program on machines whose clocks are wrong by hours and days. */
const test = suite('a fleet with wrong clocks');
const on = postgresPrograms === null ? test.skip : test;
let server: PausedServer;
let fleet: RealFleet;

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** The first one is right. */
const CLOCKS = [0, HOUR, -DAY];
const TIMEOUT_MS = 5000;
/** A busy machine is late by seconds, and a wrong clock by an hour at least. */
const LATE_MS = 60_000;
/** How exactly a node knows the time of the database. */
const NEAR_MS = 2000;

test.before(async () => {
  if (postgresPrograms === null) return;
  server = new PausedServer();
  const base_url = await server.listen();
  const limits = { ...SHORT, lease_ms: 3000 };
  fleet = await RealFleet.start({ nodes: 3, base_url, max_runs: 4, limits, clocks: CLOCKS });
});
test.after(async () => {
  if (postgresPrograms === null) return;
  await fleet.close();
  await server.close();
});

const start = async (node: number, timeout_ms: number): Promise<string> => {
  const body = { prompt: 'Wait', recovery: 'restart', timeout_ms };
  const { status, json, text } = await ask(fleet.home(node), '/v1/runs', { method: 'POST', body });
  assert.is(status, 202, text);
  return json.id;
};
interface Logged {
  type: string;
  at: number;
  boot_id: string;
  data: { downtime_ms?: number };
}
const logged = async (id: string): Promise<Logged[]> =>
  (
    await fleet.read<Omit<Logged, 'data'> & { data: string }>(
      'select type, at::float8, boot_id, data from svc_events where stream = $1 order by version',
      [id],
    )
  ).map((row) => ({ ...row, data: JSON.parse(row.data) }));
const passed = (id: string) =>
  waitFor(`a deadline of ${id} passes`, async () => {
    const log = await logged(id);
    return log.some(({ type }) => type === 'run.deadline_passed') && log;
  });
const time = async () =>
  (
    await fleet.read<{ now: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now',
    )
  )[0]?.now ?? 0;
/** By the clock of the database, without the time that the run was on no node. */
const lasted = (log: readonly Logged[]): number => {
  const at = (type: string) => log.find((event) => event.type === type)?.at ?? Number.NaN;
  const down = log.reduce((sum, { data: { downtime_ms = 0 } }) => sum + downtime_ms, 0);
  return at('run.deadline_passed') - at('run.accepted') - down;
};
const inTime = (log: readonly Logged[]) => {
  const ms = lasted(log) - TIMEOUT_MS;
  assert.ok(ms > -NEAR_MS && ms < LATE_MS, JSON.stringify(log));
};

on('a run ends in time wherever it was accepted, and runs where the clock is right', async () => {
  const right = await fleet.bootOf(0);
  const before = await time();
  for (const node of CLOCKS.keys()) {
    const log = await passed(await start(node, TIMEOUT_MS));
    inTime(log);
    const at = log[0]?.at ?? 0;
    assert.ok(at >= before - NEAR_MS && at <= (await time()) + NEAR_MS, `${before} ${at}`);
    assert.is(log.find(({ type }) => type === 'run.started')?.boot_id, right);
  }
  const { stdout, stderr } = await fleet.home(1).svc(['nodes']);
  assert.match(stdout, /right/);
  assert.match(stdout, /\+60 min/);
  assert.match(stdout, /-24 h/);
  assert.is(
    stderr.match(/takes no runs: its clock is too far from that of the database/g)?.length,
    2,
  );
  const health = await ask(fleet.home(1), '/v1/runtime/health');
  assert.match(health.text, /The clock of this machine is 3600 s ahead of that of the database/);
});

on(
  'a clock that is set while a run is computed or changes its node moves no deadline',
  async () => {
    for (const [taken, ms] of [HOUR, -DAY].entries()) {
      const [from, to] = taken % 2 === 0 ? [0, 1] : [1, 0];
      // The other node began with a wrong clock, and has the right one now.
      fleet.setClock(to, ms);
      if (fleet.lives[to] == null) await fleet.boot(to);
      await waitFor('one node takes runs', async () => {
        const { nodes } = (await ask(fleet.home(from), '/v1/nodes')).json;
        return nodes.filter(({ takes_runs }: { takes_runs: boolean }) => takes_runs).length === 1;
      });
      const id = await start(from, TIMEOUT_MS);
      await waitFor('it runs', async () => {
        // A busy node may lose its lease, and is another boot then.
        const mine = await fleet.bootOf(from).catch(() => null);
        const log = await logged(id);
        return log.some(({ type, boot_id }) => type === 'run.started' && boot_id === mine);
      });
      fleet.setClock(to, 0);
      fleet.setClock(from, ms);
      await fleet.kill(from);
      const log = await passed(id);
      inTime(log);
      assert.is(log.at(-1)?.boot_id, await fleet.bootOf(to));
    }
  },
);

test.run();
