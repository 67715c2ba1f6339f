import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { askChat, type Target } from '../bench/lib/chat.ts';
import { startDaemon } from '../bench/lib/daemon.ts';
import { startUpstream, useUpstream } from '../bench/lib/upstream.ts';
import { makeHome } from '../helpers/svc.ts';
import { chunk, type Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { works } from '../torture/disk.ts';

/**
 * What a run costs a warm daemon: calls of the system, and memory that its main thread allocates.
 * Both are counted. On a busy machine a run takes longer, so timers of the daemon add to it: the
 * cheapest of several rounds counts. The bounds are a quarter above what was measured.
 */
const test = suite<World>('the cost of a run');

interface World {
  upstream: Upstream;
  chat: Target;
  pid: number;
  /** Bytes on the heap of the main thread that were allocated since the start. */
  allocated(): Promise<number>;
  stop(): Promise<void>;
}

/** Few enough for a quick test, and enough that rare work does not count. */
const RUNS = 40;
/** A machine with other work gets as many tries. */
const ROUNDS = 6;
/** The code of V8 changes in the first runs. */
const WARM_UP = 100;
const PIECES = 20;

/** Calls of the system for each run, by what they are for. The rest depends on threads. */
const GROUPS: Record<string, { calls: string[]; most: number }> = {
  'writes to the log': { calls: ['pwrite64', 'pwritev'], most: 66 },
  'syncs of the log': { calls: ['fsync', 'fdatasync'], most: 2.7 },
  'looks at files': {
    calls: ['openat', 'close', 'statx', 'fstat', 'newfstatat', 'pread64', 'ftruncate'],
    most: 14,
  },
  'messages to clients, the upstream and other threads': {
    calls: ['read', 'readv', 'write', 'writev', 'recvmsg', 'sendmsg', 'sendto', 'recvfrom'],
    most: 20,
  },
};

const canTrace = works('strace', '-f', '-qq', '-o', '/dev/null', 'true');
if (!canTrace) console.log('skipped: there is no strace here, or it may not trace');

/** Counts the bytes between collections. At a signal it adds a line with their sum to the file. */
const counter = (file: string) => `
  import { appendFileSync } from 'node:fs';
  import { GCProfiler } from 'node:v8';
  import { isMainThread } from 'node:worker_threads';
  const heap = () => process.memoryUsage().heapUsed;
  let [profiler, sum, used] = [new GCProfiler(), 0, heap()];
  const take = (until, then) => {
    sum += until - used;
    used = then;
  };
  const report = () => {
    for (const { beforeGC, afterGC } of profiler.stop().statistics)
      take(beforeGC.heapStatistics.usedHeapSize, afterGC.heapStatistics.usedHeapSize);
    take(heap(), heap());
    profiler = new GCProfiler();
    profiler.start();
    appendFileSync(${JSON.stringify(file)}, sum + '\\n');
  };
  if (isMainThread) {
    profiler.start();
    process.on('SIGUSR2', report);
  }`;

const answerOf = (pieces: number) => {
  const words = Array.from({ length: pieces }, (_, n) => chunk({ content: `word ${n} ` }));
  const events = [...words, chunk({}, 'stop')].map((one) => `data: ${JSON.stringify(one)}\n\n`);
  return `${events.join('')}data: [DONE]\n\n`;
};

/** Asks one after the other, for an answer of so many pieces. */
async function ask({ upstream, chat }: World, runs: number, pieces = PIECES): Promise<void> {
  const answer = answerOf(pieces);
  upstream.scenario = (exchange) =>
    exchange.received.path.endsWith('/models')
      ? exchange.reply(200, { object: 'list', data: [{ id: 'm' }] })
      : exchange.open().response.end(answer);
  for (let run = 0; run < runs; run += 1)
    await askChat(chat, { model: 'fake/m', prompt: 'Say some words.' });
}

test.before(async (world) => {
  const home = makeHome({ SVC_LOG_LEVEL: 'warn' });
  const [program, sums] = [join(home.folder, 'counter.mjs'), join(home.folder, 'sums')];
  writeFileSync(program, counter(sums));
  writeFileSync(sums, '');
  home.env.NODE_OPTIONS = `--import ${program}`;
  world.upstream = await startUpstream(() => {});
  useUpstream(home, world.upstream);
  const { life, chat, stop } = await startDaemon(home);
  let asked = 0;
  Object.assign(world, { chat, pid: life.pid });
  world.allocated = async () => {
    asked += 1;
    process.kill(life.pid, 'SIGUSR2');
    const lines = () => readFileSync(sums, 'utf8').split('\n').slice(0, -1);
    await waitFor('the sum', () => lines().length === asked);
    return Number(lines().at(-1));
  };
  world.stop = async () => {
    await stop();
    await world.upstream.stop();
  };
  await ask(world, WARM_UP);
});
test.after(({ stop }) => stop());

test('a piece of an answer allocates about 0.8 kB, a run of twenty about 250 kB', async (world) => {
  const perRun = async (pieces: number, most: number) => {
    await ask(world, 1, pieces);
    const costs = await rounds(
      async () => {
        const before = await world.allocated();
        await ask(world, RUNS, pieces);
        return ((await world.allocated()) - before) / RUNS;
      },
      (cost) => cost < most,
    );
    return Math.min(...costs);
  };
  const few = await perRun(PIECES, 320_000);
  assert.ok(few > 10_000 && few < 320_000, `${few} bytes a run`);
  const many = await perRun(PIECES + 200, few + 200 * 1100);
  const perPiece = (many - few) / 200;
  assert.ok(perPiece > 50 && perPiece < 1100, `${perPiece} bytes a piece`);
});

(canTrace ? test : test.skip)(
  'a run makes a known number of calls of the system',
  async (world) => {
    const sums = (found: Record<string, number>) =>
      Object.entries(GROUPS).map(([what, { calls, most }]) => {
        const sum = calls.reduce((total, call) => total + (found[call] ?? 0), 0) / RUNS;
        return { what, sum, most, isWithin: sum > 0 && sum <= most };
      });
    const all = await rounds(
      () => callsOf(world.pid, () => ask(world, RUNS)),
      (found) => sums(found).every(({ isWithin }) => isWithin),
    );
    const last = all.at(-1) ?? {};
    for (const { what, sum, most, isWithin } of sums(last))
      assert.ok(isWithin, `${sum} ${what}, at most ${most}: ${JSON.stringify(last)}`);
  },
);

/** The results of all rounds, up to the first one that is good. */
async function rounds<T>(work: () => Promise<T>, isGood: (result: T) => boolean): Promise<T[]> {
  const results: T[] = [];
  do results.push(await work());
  while (results.length < ROUNDS && !isGood(results.at(-1) as T));
  return results;
}

/** How often the threads of a process make each call while the work is done. */
async function callsOf(pid: number, work: () => Promise<void>): Promise<Record<string, number>> {
  const tracer = spawn('strace', ['-f', '-c', '-e', 'signal=none', '-p', String(pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let printed = '';
  tracer.stderr.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  const ended = once(tracer, 'close');
  await Promise.race([once(tracer.stderr, 'data'), ended]);
  await work();
  tracer.kill('SIGINT');
  await ended;
  const rows = [...printed.matchAll(/^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$/gm)];
  return Object.fromEntries(rows.map(([, count, call = '']) => [call, Number(count)]));
}

test.run();
