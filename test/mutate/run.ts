import { existsSync, globSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Copy } from './copy.ts';
import { type Fault, faultsOf } from './faults.ts';
import { BUILT, SLOW, Tests } from './tests.ts';

const USAGE = `npm run mutate -- [options]

  --count N    as many faults; 60 without it
  --seed N     other faults; 1 without it
  --file F     only faults of this file; --file F:LINE, only of this line
  --list       only names the faults
  --tier all   also builds the program, and tries ${BUILT} tests of it
  --within N   seconds for the tests of one fault; 600 without it

It plants one small fault at a time in a copy of src and machines, and says which test finds it.
It tries the nearest quick tests, the type check and the lint, then all quick tests, and ${SLOW} slow
ones near to the fault.`;

/** Other rules are about what a plant looks like, and not about what it does. */
const LINT = ['node_modules/@biomejs/biome/bin/biome', 'lint', '--only=nursery/noFloatingPromises'];

const options = readOrExit();
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => stop.abort());

const sources = globSync('{src,machines}/**/*.ts').filter(isTried).sort();
const faults = chosen(faultsOf(sources));
if (options.isList) {
  for (const fault of faults) console.log(named(fault));
  process.exit(0);
}
const copy = new Copy(stop.signal);
const tests = new Tests(copy);
const count = { found: 0, lost: 0 };
try {
  for (const fault of faults) {
    const within = AbortSignal.timeout(options.within_s * 1000);
    const by = await find(fault, within);
    if (stop.signal.aborted) break;
    count[by === null ? 'lost' : 'found'] += 1;
    console.log(`${named(fault)}\n  ${by ?? notFound(within)}`);
  }
} finally {
  copy.remove();
}
if (tests.broken.size > 0) console.log(`fail without a fault: ${[...tests.broken].join(', ')}`);
const left = faults.length - count.found - count.lost;
const notTried = left > 0 ? `, ${left} not tried` : '';
console.log(`${count.found} found, ${count.lost} not found${notTried}, seed ${options.seed}`);
process.exitCode = count.found === faults.length ? 0 : 1;

function readOrExit() {
  const { values } = parseArgs({
    options: {
      count: { type: 'string', default: '60' },
      seed: { type: 'string', default: '1' },
      file: { type: 'string' },
      list: { type: 'boolean', default: false },
      tier: { type: 'string', default: 'quick' },
      within: { type: 'string', default: '600' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  const [file = null, line = null] = values.file?.split(':') ?? [];
  const numbers = [values.count, values.seed, values.within, line ?? '1'].map(Number);
  const isWrong =
    numbers.some((value) => !Number.isSafeInteger(value) || value < 1) ||
    !['quick', 'all'].includes(values.tier) ||
    (file !== null && !existsSync(file));
  if (values.help || isWrong) {
    console[isWrong ? 'error' : 'log'](USAGE);
    process.exit(isWrong ? 2 : 0);
  }
  const [count = 0, seed = 0, within_s = 0] = numbers;
  const isAll = values.tier === 'all';
  return { count, seed, within_s, file, line: line && Number(line), isAll, isList: values.list };
}

/** Programs of the browser have only tests of the built program. */
function isTried(file: string): boolean {
  return file === options.file || (options.file === null && !file.startsWith('src/console/'));
}

/** As many as are asked for, drawn by the seed. */
function chosen(all: readonly Fault[]): Fault[] {
  const left = all.filter(({ line }) => options.line === null || line === options.line);
  const drawn: Fault[] = [];
  let state = options.seed;
  while (drawn.length < options.count && left.length > 0) {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 2_654_435_761) >>> 0;
    drawn.push(...left.splice(state % left.length, 1));
  }
  return drawn;
}

function named({ file, line, what }: Fault): string {
  return `${file}:${line}  ${what}`;
}

function notFound({ aborted }: AbortSignal): string {
  return aborted ? `NOT FOUND in ${options.within_s} s` : 'NOT FOUND';
}

/** How the fault is found; null: not at all. */
async function find(fault: Fault, within: AbortSignal): Promise<string | null> {
  const { nearest, quick, slow, built } = tests.for(fault.file);
  const fails = (...args: string[]) =>
    copy.with(fault, async () => (await copy.node(args, within)) !== 0 && !within.aborted);

  const nearly = await tests.firstFailure(fault, nearest, within);
  if (nearly !== null) return nearly;
  if (await fails('node_modules/typescript/lib/tsc.js', '--noEmit', '-p', '.'))
    return 'the type check';
  if (await fails(...LINT, fault.file)) return 'the lint';
  for (const some of [quick, slow]) {
    const by = await tests.firstFailure(fault, some, within);
    if (by !== null) return by;
  }
  if (within.aborted || !options.isAll) return null;
  if (await fails('tools/build.mjs')) return 'the build';
  const build = () => copy.node(['tools/build.mjs']);
  try {
    return await tests.firstFailure(fault, built, within, build);
  } finally {
    await build();
  }
}
