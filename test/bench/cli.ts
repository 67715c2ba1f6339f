import { spawnSync } from 'node:child_process';
import { makeHome, PROGRAM } from '../helpers/svc.ts';

/**
 * Time of short commands against `node -e 0`: `tsx test/bench/cli.ts [rounds]`.
 *
 * The commands take turns. A ratio is the median of the ratios within a round, so that a busy
 * machine slows both sides.
 */

const rounds = Number(process.argv[2] ?? 30);
const home = makeHome();
const commands = [
  ['version'],
  ['status'],
  ['health', '--source', 'socket'],
  ['health'],
  ['health', '--source', 'grpc'],
  ['logs'],
  ['status', '--json'],
  ['--help'],
];
const cases = {
  'node -e 0': ['-e', '0'],
  ...Object.fromEntries(commands.map((words) => [`svc ${words.join(' ')}`, [PROGRAM, ...words]])),
};
const times = new Map(Object.keys(cases).map((name) => [name, [] as number[]]));

const started = await home.svc(['start']);
if (started.code !== 0) throw new Error(started.stderr);
try {
  for (const args of Object.values(cases)) measure(args);
  for (let round = 0; round < rounds; round += 1)
    for (const [name, args] of Object.entries(cases)) times.get(name)?.push(measure(args));
} finally {
  await home.svc(['stop', '--force']);
  await home.close();
}

const base = times.get('node -e 0') ?? [];
for (const [name, own] of times) {
  const ratios = own.map((time, round) => time / (base[round] ?? Number.NaN));
  console.log(
    `${name.padEnd(26)} median ${median(own).toFixed(1).padStart(6)} ms   ratio ${median(ratios).toFixed(2)}`,
  );
}

function measure(args: readonly string[]): number {
  const began = performance.now();
  const { status, stderr } = spawnSync(process.execPath, args, {
    env: home.env,
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
  });
  const took = performance.now() - began;
  if (status !== 0) throw new Error(`${args.join(' ')}: ${status} ${stderr}`);
  return took;
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
