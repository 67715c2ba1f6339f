import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type CreationEvent, SCHEMA_VERSION } from '../../machines/events.ts';
import { init, statePath, step } from '../../machines/step.ts';
import { machineOf } from '../../src/kernel/registry.ts';
import { type StoredEvent, toEvent } from '../../src/kernel/store/port.ts';
import { Hub } from '../helpers/hub.ts';
import { makeModel } from '../helpers/pulls.ts';
import { coverOf } from '../machines/cover.ts';
import { models } from '../machines/models/all.ts';
import type { Model } from '../machines/models/model.ts';
import { MACHINES } from './edges.ts';
import { Harness } from './harness.ts';
import { startHeld } from './walk-run.ts';

/**
 * Records a golden log: `node test/walk/golden.ts <name>` runs a few boots of the built program. It
 * writes their events to test/fixtures/logs/<name>.jsonl, and the folded states beside them. With
 * `--every-kind`, the log gets the kinds of event that it lacks, from the graphs of the machines.
 * Done once for each released version, never again.
 */

export const LOGS = 'test/fixtures/logs';

/** The state of each stream: its path and its context, as this version folds it. */
export function statesOf(
  events: readonly StoredEvent[],
): Record<string, { state: string; context: object }> {
  const snapshots = new Map<string, ReturnType<typeof init>['snapshot']>();
  for (const event of events) {
    const machine = machineOf(event.stream);
    const before = snapshots.get(event.stream);
    const accepted = toEvent(event);
    snapshots.set(
      event.stream,
      before === undefined
        ? init(machine, accepted).snapshot
        : step(machine, before, accepted).snapshot,
    );
  }
  return Object.fromEntries(
    [...snapshots].map(([stream, snapshot]) => [
      stream,
      { state: statePath(snapshot), context: snapshot.context as object },
    ]),
  );
}

async function record(): Promise<StoredEvent[]> {
  const harness = await Harness.build(
    { LIMIT_RUN_ATTEMPTS: 2, LIMIT_QUEUE_RUNS: 8, LIMIT_PROVIDER_RUNS: 3 },
    { engine: true },
  );
  const hub = await Hub.start({ 'small.gguf': makeModel(16) });
  try {
    await harness.start('ready');
    for (const [prompt, state] of [
      ['say say finish', 'completed'],
      ['503', 'failed'],
      ['say cut', 'interrupted'],
    ] as const) {
      await harness.untilRun(await harness.run(prompt, { provider: 'up' }), state);
    }
    const cancelled = await harness.run('say hold', { provider: 'up' });
    await harness.cancel(cancelled);
    await harness.untilRun(
      await harness.run('hold', { provider: 'up', timeout_ms: 200 }),
      'timed_out',
    );
    await harness.home.svc(['model', 'pull', `${hub.url}/small.gguf`]);
    for (const prompt of ['hold', '503 after', 'say hold', 'hold', 'hold'])
      await harness.run(prompt, { provider: 'up' });
    const { id, engine } = await startHeld(harness);
    process.kill(engine, 'SIGCONT');
    await harness.cancel(id);
    await harness.kill();
    await harness.start('running.accepting');
    await harness.askToStop('force');
    await harness.gone(0);
    return await harness.events();
  } finally {
    await harness.close();
    await hub.stop();
  }
}

/** The log, and few short streams of each machine with the kinds of its events that it lacks. */
function everyKind(file: string): StoredEvent[] {
  const text = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
  const log = text.split('\n').flatMap((line): StoredEvent[] => (line ? [JSON.parse(line)] : []));
  const seen = new Set<string>(log.map(({ type }) => type));
  for (const { machine, created } of models.filter(({ machine: { id } }) => id in KEYS)) {
    const ways = coverOf(models.find((one) => one.created === created) as Model).accepted.map(
      ({ from, event }) => [created, ...from.path, event] as CreationEvent[],
    );
    for (const way of ways.sort((a, b) => a.length - b.length)) {
      if (way.every(({ type }) => seen.has(type))) continue;
      const stream = `${KEYS[machine.id]}${log.length}`;
      for (const [index, { type, at, ...data }] of way.entries()) {
        seen.add(type);
        const [seq, version] = [log.length + 1, index + 1];
        log.push({
          seq,
          stream,
          version,
          type,
          schema: SCHEMA_VERSION,
          at,
          boot_id: 'boot_1',
          data,
        });
      }
    }
  }
  return log;
}

/** How a stream of a machine begins. A call of a tool is folded by its run. */
const KEYS: Readonly<Record<string, string>> = {
  run: 'run_',
  ...Object.fromEntries(MACHINES.filter((id) => id !== 'run').map((id) => [id, `${id}:a:b:`])),
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , name = 'unnamed', how] = process.argv;
  const events = how === '--every-kind' ? everyKind(`${LOGS}/${name}.jsonl`) : await record();
  mkdirSync(LOGS, { recursive: true });
  // The fixtures do not name this machine or its paths.
  const lines = events.map((event) =>
    JSON.stringify(event)
      .replaceAll(/\/[\w/]*svc-test-\w+/g, '/svc')
      .replace(/"host_boot_id":"[^"]+"/, '"host_boot_id":"host"'),
  );
  const plain = lines.map((line) => JSON.parse(line) as StoredEvent);
  writeFileSync(`${LOGS}/${name}.jsonl`, `${lines.join('\n')}\n`);
  writeFileSync(`${LOGS}/${name}.states.json`, `${JSON.stringify(statesOf(plain), null, 2)}\n`);
}
