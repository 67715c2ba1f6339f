import { setTimeout as delay } from 'node:timers/promises';
import { RealFleet } from '../helpers/fleet.ts';
import type { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { FleetClients, TERMINAL } from './fleet-clients.ts';
import { startProvider } from './fleet-provider.ts';
import { Epochs } from './fleet-watch.ts';
import { type Random, random } from './random.ts';

export interface FleetTorture {
  acknowledged: number;
  /** Those of them that continue a conversation. */
  turns: number;
  /** Runs that a node acknowledged and that have no end, or no event. */
  lost: number;
  /** Runs with two ends, and keys with two runs. */
  duplicated_ends: number;
  out_of_order: number;
  /** Events of a boot after another node had raised its epoch. */
  writes_by_a_fenced_node: number;
  /** Events of runs beside the time of the database, and runs that a wrong deadline ended. */
  wrong_times: number;
  other_problems: number;
  faults: Record<string, number>;
  /** From the fault to the moment when another node had all runs of the dead one. */
  takeover_p50_ms: number | null;
  takeover_max_ms: number | null;
  takeovers: number;
  by_end: Record<string, number>;
  problems: string[];
}

const LEASE_MS = 2000;
const LIMITS = { lease_ms: LEASE_MS, fleet_poll_ms: 250, store_retry_ms: 100 };

/**
 * Three daemons on one PostgreSQL, and clients that ask any of them. At random a node is killed or
 * stopped, connections are cut, a clock is set, and the database is killed. Then the log is
 * compared with what the clients have seen.
 */
export async function tortureFleet(options: {
  seed: number;
  clients: number;
  /** Faults at most. */
  faults: number;
  signal: AbortSignal;
}): Promise<FleetTorture> {
  const draw = random(options.seed);
  const began_at = Date.now();
  const provider = await startProvider(6, 60);
  const fleet = await RealFleet.start({
    nodes: 3,
    base_url: provider.base_url,
    max_runs: 4,
    limits: LIMITS,
    durable: true,
    clocks: [0, 0, 0],
  });
  const epochs = new Epochs(fleet.address);
  try {
    const clients = new FleetClients(fleet, draw);
    const working = clients.work(options.clients);
    const faults = new Faults(fleet, epochs, draw);
    epochs.start();
    for (let done = 0; done < options.faults && !options.signal.aborted; done += 1)
      await faults.next();
    await faults.calm();
    clients.finish();
    await within(working, QUIET_MS, () => {
      const [first = 'no problem'] = clients.problems;
      return `${clients.waiting().join(', ')}: a client never had the end of its run; ${first}`;
    });
    await epochs.stop();
    return await check(fleet, clients, faults, epochs, began_at);
  } finally {
    await epochs.stop();
    await stop(fleet, provider);
  }
}

async function stop(fleet: RealFleet, provider: Upstream): Promise<void> {
  await fleet.close();
  await provider.stop();
}

const FAULTS = [
  'kill',
  'kill',
  'pause',
  'pause',
  'cut',
  'cut',
  'clock',
  'clock',
  'database',
] as const;
/** How wrong a clock is. The first node has the right time, so that some node takes runs. */
const CLOCKS_MS = [0, 0, 300, -300, 3_600_000, -3_600_000, 86_400_000, -86_400_000] as const;

class Faults {
  readonly counts: Record<string, number> = {};
  readonly takeovers: number[] = [];
  private readonly fleet: RealFleet;
  private readonly epochs: Epochs;
  private readonly draw: Random;

  constructor(fleet: RealFleet, epochs: Epochs, draw: Random) {
    this.fleet = fleet;
    this.epochs = epochs;
    this.draw = draw;
  }

  async next(): Promise<void> {
    await delay(this.draw.whole(300, 2000));
    const fault = this.draw.pick(FAULTS);
    this.counts[fault] = (this.counts[fault] ?? 0) + 1;
    const node = this.draw.whole(0, this.fleet.homes.length - 1);
    if (fault === 'kill') await this.kill(node);
    else if (fault === 'pause') await this.pause(node);
    else if (fault === 'cut') await this.cut();
    else if (fault === 'clock') this.clock(this.draw.whole(1, this.fleet.homes.length - 1));
    else await this.database();
  }

  /** All nodes are up, and the database is. */
  async calm(): Promise<void> {
    for (const [node, life] of this.fleet.lives.entries())
      if (life === null) await this.fleet.boot(node);
  }

  /** Another node takes the runs of this one. It does so only with the right time. */
  private spare(node: number): void {
    this.fleet.setClock((node + 1) % this.fleet.homes.length, 0);
  }

  private async kill(node: number): Promise<void> {
    this.spare(node);
    const boot = await this.bootOf(node);
    await this.fleet.kill(node);
    // It starts with another time too.
    if (node > 0 && this.draw.chance(0.5)) this.clock(node);
    if (this.draw.chance(0.7)) await this.takenOver(boot);
    await this.fleet.boot(node);
  }

  private async pause(node: number): Promise<void> {
    this.spare(node);
    const boot = await this.bootOf(node);
    const { child } = this.fleet.life(node);
    child.kill('SIGSTOP');
    await this.takenOver(boot);
    await delay(this.draw.whole(0, LEASE_MS));
    child.kill('SIGCONT');
    await waitFor('the paused node has begun again', async () => {
      if (child.exitCode !== null) throw new Error(this.fleet.life(node).printed().slice(-3000));
      return (await this.bootOf(node)) !== boot;
    });
  }

  /** Someone sets the clock of a machine. */
  private clock(node: number): void {
    this.fleet.setClock(node, this.draw.pick(CLOCKS_MS));
  }

  /** Some of the connections, of any node. */
  private async cut(): Promise<void> {
    await this.fleet
      .read(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name = 'svc' and random() < 0.5`,
      )
      .catch(() => {});
  }

  private async database(): Promise<void> {
    await this.fleet.postgres.stop('kill');
    await delay(this.draw.whole(0, 1500));
    await this.fleet.postgres.start();
  }

  private async takenOver(boot: string): Promise<void> {
    const began = performance.now();
    await waitFor('another node has the runs of a dead one', () => this.epochs.isOver(boot), {
      within_ms: 60_000,
      every_ms: 5,
    });
    this.takeovers.push(performance.now() - began);
  }

  private async bootOf(node: number): Promise<string> {
    try {
      return await waitFor('a node says its boot', () => this.fleet.bootOf(node).catch(() => null));
    } catch (error) {
      throw new Error(`node ${node}: ${this.fleet.life(node).printed().slice(-PRINTED)}`, {
        cause: error,
      });
    }
  }
}

async function check(
  fleet: RealFleet,
  clients: FleetClients,
  { counts, takeovers }: Faults,
  epochs: Epochs,
  began_at: number,
): Promise<FleetTorture> {
  const ends = await fleet.read<{ stream: string; type: string }>(
    `select stream, type from svc_events where stream like 'run\\_%' order by seq`,
  );
  const byRun = Map.groupBy(
    ends.filter(({ type }) => TERMINAL.test(type)),
    ({ stream }) => stream,
  );
  const gaps = await fleet.read<{ stream: string }>(
    'select stream from svc_events group by stream having max(version) <> count(*)',
  );
  const [log] = await fleet.read<{ last: number; events: number }>(
    `select last_seq::integer as last, (select count(*)::integer from svc_events) as events
     from svc_log`,
  );
  const unfinished = await fleet.read<{ run_id: string }>(
    'select run_id from svc_runs where not finished',
  );
  const ids = clients.runs.flatMap((run) => [...run.ids]);
  const lost = [
    ...ids.filter((id) => !byRun.has(id)),
    ...unfinished.map(({ run_id }) => run_id).filter((id) => !ids.includes(id)),
  ];
  const twice = [...byRun].filter(([, list]) => list.length > 1).map(([id]) => id);
  const shared = clients.runs.filter((run) => run.ids.size > 1).map(({ key }) => key);
  const unequal = await fleet.read<{ key: string }>(
    `select min(idempotency_key) as key from svc_runs where idempotency_key is not null
     group by idempotency_key having count(*) > 1`,
  );
  // By the clock of the database, a run is younger than the torture, and none lasts ten minutes.
  const times = await fleet.read<{ stream: string; type: string; off: number }>(
    `select stream, type, at - extract(epoch from clock_timestamp()) * 1000 as off
     from svc_events where stream like 'run\\_%' and (type = 'run.timed_out'
       or at > extract(epoch from clock_timestamp()) * 1000 + 2000 or at < $1)`,
    [began_at - 2000],
  );
  const wrong = times.map(({ stream, type, off }) => `wrong time: ${stream} ${type} ${off} ms`);
  const fenced = await epochs.lateWrites(fleet);
  const order = clients.problems.filter((problem) => problem.startsWith('out of order'));
  const others = clients.problems.filter((problem) => !problem.startsWith('out of order'));
  const holes = log?.last === log?.events ? [] : [`${log?.events} events up to ${log?.last}`];
  const sorted = takeovers.toSorted((a, b) => a - b);
  const at = (share: number) => Math.round(sorted[Math.floor(share * (sorted.length - 1))] ?? 0);
  return {
    acknowledged: ids.length,
    turns: clients.runs.filter(({ earlier }) => earlier.length > 0).length,
    lost: lost.length,
    duplicated_ends: twice.length + shared.length + unequal.length,
    out_of_order: order.length + gaps.length + holes.length,
    writes_by_a_fenced_node: fenced.length,
    wrong_times: wrong.length,
    other_problems: others.length,
    faults: counts,
    takeover_p50_ms: sorted.length === 0 ? null : at(0.5),
    takeover_max_ms: sorted.length === 0 ? null : at(1),
    takeovers: sorted.length,
    by_end: Object.fromEntries(
      [...Map.groupBy([...byRun.values()].flat(), ({ type }) => type)].map(([type, list]) => [
        type,
        list.length,
      ]),
    ),
    problems: [
      ...lost.map((id) => `lost: ${id}`),
      ...[...twice, ...shared].map((what) => `two ends: ${what}`),
      ...gaps.map(({ stream }) => `the versions of ${stream} have a gap`),
      ...holes,
      ...order,
      ...fenced,
      ...wrong,
      ...others,
    ],
  };
}

/** Of the log of a node that does not answer. */
const PRINTED = 4000;
/** Bounds a hang. */
const QUIET_MS = 120_000;

async function within<T>(work: Promise<T>, ms: number, what: () => string): Promise<T> {
  const over = new AbortController();
  const late = delay(ms, null, { signal: over.signal }).then(() => {
    throw new Error(what());
  });
  late.catch(() => {});
  return Promise.race([work, late]).finally(() => over.abort());
}
