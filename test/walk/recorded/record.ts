import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { programVersion } from '../../../src/home/version.ts';
import { machineOf } from '../../../src/kernel/registry.ts';
import type { StoredEvent } from '../../../src/kernel/store/port.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { coverOf } from '../../machines/cover.ts';
import { models } from '../../machines/models/all.ts';
import type { StreamMachine } from '../edges.ts';
import { runScenarios } from '../real.ts';
import { scenarios } from '../scenarios.ts';
import { follow, openKernel, streamOf } from '../walk-kernel.ts';
import { parseLines, RECORDED, readRecorded } from './logs.ts';
import { moreScenarios } from './more-scenarios.ts';
import { type Outcome, outcomeOf } from './outcome.ts';
import { SHOWS, type Story, storyOf } from './shows.ts';

/**
 * Records what a released version writes. `node test/walk/recorded/record.ts` runs every boot of
 * the walk, or reads the named logs. It keeps the shortest stream that shows each row of
 * `shows.ts`. A stream that is recorded stays as it is. `record.ts --state-paths` writes the
 * present names of inner states, and nothing else.
 */
async function record(logs: readonly string[]): Promise<void> {
  const events =
    logs.length > 0
      ? logs.flatMap((log) => parseLines(readFileSync(log, 'utf8')))
      : await ledEvents();
  const led = wholeStreams(events.map(plain)).map((stream) => storyOf(stream));
  const stories = [
    ...led.filter((story) => sizeOf(story) < STREAM_MAX),
    ...(await kernelStreams()),
  ];
  const folder = `${RECORDED}/${programVersion()}`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [machine, shows] of Object.entries(SHOWS)) {
    const own = stories.filter(
      ({ events: [first] }) => first !== undefined && machineOf(first.stream).id === machine,
    );
    for (const [name, isShown] of Object.entries(shows)) {
      const [shortest] = own
        .filter(isShown)
        .sort((a, b) => isByKernel(a) - isByKernel(b) || sizeOf(a) - sizeOf(b));
      if (shortest === undefined) console.log(`not recorded: ${machine} ${name}`);
      else {
        if (isByKernel(shortest)) console.log(`by the kernel: ${machine} ${name}`);
        write(`${folder}/${machine}.${name}`, shortest.events, shortest.outcome);
      }
    }
  }
}

async function ledEvents(): Promise<StoredEvent[]> {
  const { logs } = await runScenarios([...moreScenarios, ...scenarios]);
  return logs.flat();
}

/** Streams from their first event on; of one that was read in several boots, all events. */
function wholeStreams(events: readonly StoredEvent[]): StoredEvent[][] {
  const streams = [...Map.groupBy(events, ({ stream }) => stream).values()];
  const whole = streams.map((all) =>
    [...new Map(all.map((event) => [event.version, event])).values()].sort(
      (a, b) => a.version - b.version,
    ),
  );
  return whole.filter((stream) => stream.every(({ version: place }, index) => place === index + 1));
}

/**
 * One stream for each edge of each machine, recorded by the kernel: for what a daemon cannot be
 * made to do, or says at too great length.
 */
async function kernelStreams(): Promise<Story[]> {
  const stories: Story[] = [];
  for (const model of models) {
    const store = createMemoryStore();
    const { kernel, clock } = await openKernel(store);
    for (const [index, { from, event }] of coverOf(model).accepted.entries()) {
      const stream = streamOf(model.machine.id as StreamMachine, index);
      await follow(kernel, clock, stream, model, [...from.path, event]);
      stories.push(storyOf(await store.readStream(stream, 1, 100), 'kernel'));
      kernel.forget(stream);
    }
    kernel.close();
  }
  return stories;
}

/** Without the places and the names of the machine that recorded it. */
function plain(event: StoredEvent): StoredEvent {
  const text = JSON.stringify(event)
    .replaceAll(/\/[\w/]*svc-(test|disk)-\w+/g, '/svc')
    .replace(/"host_boot_id":"[^"]+"/, '"host_boot_id":"host"');
  return JSON.parse(text) as StoredEvent;
}

/** Characters. */
const STREAM_MAX = 25_000;

/** Those of a daemon come first. */
function isByKernel({ outcome }: Story): number {
  return Number(outcome.by === 'kernel');
}

function sizeOf({ events }: Story): number {
  return JSON.stringify(events).length;
}

function write(place: string, events: readonly StoredEvent[], outcome: Outcome): void {
  writeFileSync(`${place}.jsonl`, `${events.map((event) => JSON.stringify(event)).join('\n')}\n`);
  writeOutcome(place, outcome);
}

function writeOutcome(place: string, outcome: Outcome): void {
  const fields = Object.entries(outcome).map(
    ([name, value]) => ` ${JSON.stringify(name)}: ${JSON.stringify(value)}`,
  );
  writeFileSync(`${place}.json`, `{\n${fields.join(',\n')}\n}\n`);
}

function renamePaths(): void {
  for (const { version: recorded, machine, shows, events, outcome } of readRecorded())
    writeOutcome(`${RECORDED}/${recorded}/${machine}.${shows}`, {
      ...outcome,
      state_paths: outcomeOf(events).state_paths,
    });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , ...args] = process.argv;
  if (args[0] === '--state-paths') renamePaths();
  else await record(args);
}
