import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { AnyEvent } from '../../machines/events.ts';
import { type RunSnapshot, runMachine } from '../../machines/run/chart.ts';
import type { RunCreated, RunEvent } from '../../machines/run/context.ts';
import { init, step } from '../../machines/step.ts';
import { shortMessages } from '../../src/contract/messages/parts.ts';
import type { Commit, EventStore, RunRow, StoredEvent } from '../../src/kernel/store/port.ts';
import { createSqliteStore } from '../../src/kernel/store/sqlite/sqlite.ts';
import { runRow } from '../../src/runtime/runs/record.ts';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { AS_SHIPPED } from '../helpers/svc.ts';
import { launch, ready } from '../torture/daemon.ts';
import { Report } from './lib/report.ts';

/**
 * Time from the start of the daemon to its first ready answer, with a log and with an
 * empty home: `npm run bench recovery [finished] [unfinished] [rounds]`.
 *
 * The log has many finished runs, and some that a killed daemon left unfinished. Half of those are
 * queued, half are in the middle of an answer.
 */

class Writer {
  seq = 0;
  private readonly store: EventStore;
  private readonly versions = new Map<string, number>();
  private commitNow: Commit = { events: [], runs: [] };

  constructor(store: EventStore) {
    this.store = store;
  }

  get size(): number {
    return this.commitNow.events.length;
  }

  add(stream: string, added: AnyEvent): void {
    const { type, at, ...data } = added as AnyEvent & Record<string, unknown>;
    const version = (this.versions.get(stream) ?? 0) + 1;
    this.versions.set(stream, version);
    this.seq += 1;
    const event: StoredEvent = {
      seq: this.seq,
      stream,
      version,
      type,
      schema: 1,
      at,
      boot_id: BOOT,
      data,
    };
    this.commitNow.events.push(event);
  }

  addRun(id: string, [created, ...events]: [RunCreated, ...RunEvent[]]): void {
    let { snapshot } = init(runMachine, created) as { snapshot: RunSnapshot };
    this.add(id, created);
    for (const event of events) {
      ({ snapshot } = step(runMachine, snapshot, event));
      this.add(id, event);
    }
    this.commitNow.runs.push(runRow(snapshot, this.seq) as RunRow);
    this.versions.delete(id);
  }

  async commit(): Promise<void> {
    await this.store.append(this.commitNow);
    this.commitNow = { events: [], runs: [] };
  }
}

/** A million events. */
const finished = Number(process.argv[2] ?? 170_000);
const unfinished = Number(process.argv[3] ?? 1_000);
const rounds = Number(process.argv[4] ?? 7);
const report = new Report('recovery');
const BOOT = 'boot_00000000000000000000000001';
const LIMITS = { SVC_LIMIT_QUEUE_RUNS: '100000', SVC_LIMIT_RUN_LOSSES: '1000' };

const empty = await makePausedHome({ ...AS_SHIPPED, ...LIMITS });
const full = await makePausedHome({ ...AS_SHIPPED, ...LIMITS });
const began = performance.now();
const events = await fillLog(full);
console.log(
  `log of ${events} events, ${finished} finished and ${unfinished} unfinished runs, written in ${Math.round(performance.now() - began)} ms`,
);
const times = { empty: [] as number[], full: [] as number[] };
for (let round = 0; round < rounds; round += 1) {
  times.empty.push(await startOf(empty));
  times.full.push(await startOf(full));
}
for (const [way, values] of Object.entries(times))
  report.add({ what: 'start to ready', unit: 'ms', way, values, floor: 'empty' });
report.add({ what: 'first start', unit: 'ms', way: 'full', values: times.full.slice(0, 1) });
const life = launch(full);
await ready(life);
const { runs, last_boot } = await life.ask((client) => client.call('status'));
console.log(
  `after ${rounds} kills: ${runs.active} active, ${runs.queued} queued, ${runs.finished} finished; the boot before was ${last_boot?.ending}`,
);
await life.kill();
await Promise.all([empty.close(), full.close()]);
report.print();

async function startOf(home: PausedHome): Promise<number> {
  const started = performance.now();
  const one = launch(home);
  await ready(one);
  const took = performance.now() - started;
  await one.kill();
  return took;
}

async function fillLog(home: PausedHome): Promise<number> {
  mkdirSync(dirname(home.paths.database), { recursive: true, mode: 0o700 });
  const store = createSqliteStore({
    database: home.paths.database,
    highWater: home.paths.highWater,
  });
  await store.open();
  const writer = new Writer(store);
  writer.add(`daemon:${BOOT}`, boot('daemon.boot_started', bootStarted()));
  writer.add(
    `daemon:${BOOT}`,
    boot('daemon.listening', { addresses: { http: null, grpc: null, socket: null } }),
  );
  writer.add(`daemon:${BOOT}`, boot('daemon.store_opened', { last_boot: null }));
  writer.add(
    `daemon:${BOOT}`,
    boot('daemon.listening', { addresses: { http: null, grpc: null, socket: null } }),
  );
  writer.add(`daemon:${BOOT}`, boot('daemon.runs_recovered', { queued: 0, ended: 0 }));
  writer.add(`daemon:${BOOT}`, boot('daemon.providers_probed', {}));
  for (let run = 1; run <= finished + unfinished; run += 1) {
    const id = `run_${String(run).padStart(26, '0')}`;
    const kind = run <= finished ? 'finished' : run % 2 === 0 ? 'queued' : 'streaming';
    writer.addRun(id, factsOf(id, kind));
    if (writer.size > 4000) await writer.commit();
  }
  await writer.commit();
  await store.close();
  return writer.seq;
}

function factsOf(
  run_id: string,
  kind: 'finished' | 'queued' | 'streaming',
): [RunCreated, ...RunEvent[]] {
  const at = Date.now();
  const provider = kind === 'streaming' ? 'local' : 'held';
  const request = {
    provider,
    model: 'held',
    cloud: false,
    messages: shortMessages(`prompt of ${run_id}`, null),
    max_tokens: null,
    temperature: null,
    seed: 1,
    seed_asked: false,
  };
  const bounds = {
    max_attempts: 3,
    max_losses: 1000,
    queue_deadline_at: at + 1e9,
    deadline_at: at + 1e9,
    first_output_ms: 1e9,
    idle_ms: 1e9,
    cancel_grace_ms: 10_000,
  };
  const more = {
    idempotency_key: null,
    request_digest: null,
    client: 'bench',
    recovery: 'resume' as const,
    resumable: provider === 'local',
  };
  const created: RunCreated = { type: 'run.accepted', at, run_id, request, ...more, ...bounds };
  const started: RunEvent = { type: 'run.started', at, attempt: 1, resumes: false };
  const output: RunEvent = {
    type: 'run.output_appended',
    at,
    attempt: 1,
    text: 'some words of an answer, '.repeat(8),
    token_ids: Array.from({ length: 40 }, (_, index) => index),
  };
  if (kind === 'queued') return [created];
  if (kind === 'streaming') return [created, started, output];
  return [
    created,
    started,
    output,
    {
      type: 'run.completed',
      at,
      attempt: 1,
      finish_reason: 'stop',
      usage: { input_tokens: 5, output_tokens: 40 },
    },
  ];
}

function boot(type: string, data: object): AnyEvent {
  return { type, at: Date.now(), ...data } as unknown as AnyEvent;
}

function bootStarted(): object {
  return {
    boot_id: BOOT,
    host_boot_id: null,
    pid: 1,
    version: '0.0.0',
    capacity: 100_000,
    start_deadline_at: Date.now() + 1e9,
  };
}
