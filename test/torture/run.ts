import { postgresPrograms } from '../helpers/postgres.ts';
import { readCommandLine, usage } from './command-line.ts';
import { damageLog } from './damage.ts';
import { tortureEngine } from './engine.ts';
import { failover } from './failover.ts';
import { tortureFleet } from './fleet.ts';
import { tortureOwners } from './owners.ts';
import { crashAt, type Point } from './points.ts';
import { tortureCache } from './prompt-cache.ts';
import { random } from './random.ts';
import { type RoundResult, tortureRound } from './round.ts';
import { tortureTools } from './tools.ts';
import { neverExercised } from './world.ts';

/**
 * `npm run torture`. Its options are in `command-line.ts`.
 *
 * kills: clients ask, follow, cancel and repeat. Then it compares what they received with the log.
 * Each round has a new home. Its seed repeats the draws, not the moments.
 */
const asked = readOrExit();
const ROUND = 50;
/** Faults without `--minutes`. */
const FLEET_FAULTS = 20;
/** A longer timer ends at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
const { cycles, clients, minutes } = asked;
const first = asked.seed ?? 1 + (Date.now() % 1_000_000);
const stop = new AbortController();
if (minutes !== null)
  setTimeout(() => stop.abort(), Math.min(minutes * 60_000, TIMER_MS_MAX)).unref();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());

const work = {
  damage: damages,
  points,
  failover: failovers,
  owners,
  'prompt-cache': prompts,
  engine,
  tools,
  fleet: fleets,
  kills,
};
for (const torture of asked.tortures) await work[torture]();

function readOrExit() {
  try {
    const read = readCommandLine(process.argv.slice(2));
    if (read !== null) return read;
    console.log(usage());
    process.exit(0);
  } catch (error) {
    console.error(`${(error as Error).message}\nSee: npm run torture -- --help`);
    process.exit(2);
  }
}

async function fleets(): Promise<void> {
  if (postgresPrograms === null) {
    console.log('PostgreSQL is not installed here, so no fleet is tested.');
    return;
  }
  const { problems, faults, by_end, ...counts } = await tortureFleet({
    seed: first,
    clients,
    faults: minutes === null ? FLEET_FAULTS : Number.POSITIVE_INFINITY,
    signal: stop.signal,
  });
  console.table({ ...counts, ...faults, ...by_end });
  for (const problem of problems.slice(0, 50)) console.log(`  ${problem}`);
  if (problems.length > 0) process.exitCode = 1;
}

async function failovers(): Promise<void> {
  const { problems, ...tally } = await failover({ runs: asked.runs, clients });
  console.table(tally);
  for (const problem of problems) console.log(`  ${problem}`);
  if (problems.length + tally.lost + tally.twice > 0) process.exitCode = 1;
}

async function owners(): Promise<void> {
  const { rounds, crowd } = asked;
  const { problems, ends, ...counts } = await tortureOwners({ rounds, crowd, signal: stop.signal });
  console.table({ ...counts, ...ends });
  for (const problem of problems.slice(0, 50)) console.log(`  ${problem}`);
  if (problems.length > 0) process.exitCode = 1;
}

async function prompts(): Promise<void> {
  report(await tortureCache({ rounds: asked.rounds, seed: first, signal: stop.signal }));
}

async function engine(): Promise<void> {
  const { cycles: kills, rounds: loads } = asked;
  report(await tortureEngine({ kills, loads, seed: first, signal: stop.signal }));
}

async function tools(): Promise<void> {
  const found = await tortureTools({ kills: cycles, clients, seed: first, signal: stop.signal });
  const most_ms = 1000;
  if (found.livez_worst_ms > most_ms)
    found.problems.push(`/livez took ${found.livez_worst_ms} ms; ${most_ms} are allowed`);
  report(found);
}

function report<R extends { problems: string[]; kills: Record<string, number> }>(result: R): void {
  const { problems, kills, ...counts } = result;
  console.table({ ...counts, ...kills });
  for (const problem of problems.slice(0, 50)) console.log(`  ${problem}`);
  if (problems.length > 0) process.exitCode = 1;
}

async function damages(): Promise<void> {
  const found = await damageLog(asked.damages, random(first));
  console.table(found);
  if (found.silent > 0) process.exitCode = 1;
}

async function points(): Promise<void> {
  for (const call of ['fsync', 'fdatasync', 'pwrite64'] as const) {
    const done: Point[] = [];
    for (let when = 1; !stop.signal.aborted && (done.at(-1)?.reached ?? true); when += asked.stride)
      done.push(await crashAt(call, when));
    const reached = done.filter((point) => point.reached);
    const problems = done.flatMap((point) =>
      point.problems.map((problem) => `${point.fault}: ${problem}`),
    );
    console.log(
      `killed at ${reached.length} calls of ${call}, up to ${reached.at(-1)?.fault}: ${problems.length} problems`,
    );
    for (const problem of problems) console.log(`  ${problem}`);
    if (problems.length > 0) process.exitCode = 1;
  }
}

async function kills(): Promise<void> {
  const rounds: RoundResult[] = [];
  const done = () => rounds.reduce((total, round) => total + round.cycles, 0);
  for (let seed = first; done() < cycles && !stop.signal.aborted; seed += 10) {
    const options = {
      seed,
      cycles: Math.min(ROUND, cycles - done()),
      clients,
      signal: stop.signal,
    };
    const result = await tortureRound(options).catch((error: unknown) =>
      console.log(`seed ${seed}: ${String(error)}`),
    );
    if (result === undefined || result.problems.length > 0) process.exitCode = 1;
    if (result === undefined) continue;
    rounds.push(result);
    console.log(
      `seed ${seed}: ${result.cycles} cycles, ${result.runs} runs, ${result.acknowledged} acknowledged, ${result.problems.length} problems`,
    );
    for (const problem of result.problems.slice(0, 20)) console.log(`  ${problem}`);
  }
  print(rounds);
  for (const kind of neverExercised(rounds.map(({ counts }) => counts))) {
    console.log(`never exercised: ${kind}. A run of ten cycles or more holds every kind.`);
    process.exitCode = 1;
  }
}

function print(rounds: readonly RoundResult[]): void {
  const sum = (of: (round: RoundResult) => number) =>
    rounds.reduce((total, round) => total + of(round), 0);
  const ready = rounds.flatMap(({ ready_ms }) => ready_ms).sort((a, b) => a - b);
  const ends = Object.groupBy(
    rounds.flatMap(({ by_end }) => Object.entries(by_end)),
    ([end]) => end,
  );
  console.table({
    cycles: sum((round) => round.cycles),
    'daemon killed': sum(({ counts }) => counts.daemon + counts.daemon_early),
    'of these on its way up': sum(({ counts }) => counts.daemon_early),
    'engine killed': sum(({ counts }) => counts.engine + counts.engine_busy),
    'of these while it computed': sum(({ counts }) => counts.engine_busy),
    'engine deaths in the log': sum(({ engine_deaths }) => engine_deaths),
    'stopped cleanly': sum(({ counts }) => counts.stop),
    'runs in the log': sum(({ runs }) => runs),
    'events in the log': sum(({ events }) => events),
    'acknowledged to clients': sum(({ acknowledged }) => acknowledged),
    lost: sum(({ lost }) => lost),
    duplicates: sum(({ duplicates }) => duplicates),
    'other problems': sum(({ problems, lost, duplicates }) => problems.length - lost - duplicates),
    'runs that went on from their tokens': sum(({ resumed }) => resumed),
    'attempts after the first': sum(({ breaks }) => breaks),
    ...Object.fromEntries(
      Object.entries(ends).map(([end, counts]) => [
        end,
        counts?.reduce((total, [, count]) => total + count, 0),
      ]),
    ),
    'start to ready, median ms': Math.round(ready[Math.floor(ready.length / 2)] ?? 0),
    'start to ready, slowest ms': Math.round(ready.at(-1) ?? 0),
  });
}
