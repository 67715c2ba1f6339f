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
  --tier all   also tries ${SLOW} slow tests and ${BUILT} of the built program, nearest first
  --within N   seconds for the tests of one fault; 600 without it
  --jobs N     as many faults at one time, each in its copy; 1 without it

It plants small faults in a copy of src and machines, turns on one at a time, and says which test
finds it. It tries the quick tests that run the fault, then the type check and the lint.`;

/** For more faults it is quicker to run all quick tests once, before all faults. */
const MANY = 20;

const TYPES = ['node_modules/typescript/lib/tsc.js', '--noEmit', '-p', '.'];
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
/** A fault with its number. */
type Numbered = readonly [id: number, fault: Fault];
/** How a fault is found in a copy; null: it is not found. */
type Find = (copy: Copy, numbered: Numbered, within: AbortSignal) => Promise<string | null>;

const count = { found: 0, lost: 0 };
const make = () => new Copy(stop.signal);
const [plain, recorder] = [make(), make()];
// One worker runs no tests while others are recorded.
const copies = options.jobs === 1 ? [recorder] : Array.from({ length: options.jobs }, make);
const all = new Set([recorder, ...copies]);
const tests = new Tests(recorder);
try {
  for (const copy of all) await plant(copy);
  if (faults.length > MANY) await tests.recordQuick();
  let left = await tryEach([...faults.entries()], findByQuickTest);
  left = await tryChecks(left);
  if (options.isAll) left = await tryEach(left, findBySlowTest);
  for (const [, fault] of left) print(fault, 'NOT FOUND');
  count.lost = left.length;
} finally {
  for (const copy of [plain, ...all]) copy.remove();
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
      jobs: { type: 'string', default: '1' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  const [file = null, line = null] = values.file?.split(':') ?? [];
  const numbers = [values.count, values.seed, values.within, values.jobs, line ?? '1'].map(Number);
  const isWrong =
    numbers.some((value) => !Number.isSafeInteger(value) || value < 1) ||
    !['quick', 'all'].includes(values.tier) ||
    (file !== null && !existsSync(file));
  if (values.help || isWrong) {
    console[isWrong ? 'error' : 'log'](USAGE);
    process.exit(isWrong ? 2 : 0);
  }
  const [count = 0, seed = 0, within_s = 0, jobs = 0] = numbers;
  const isAll = values.tier === 'all';
  const place = { file, line: line && Number(line) };
  return { count, seed, within_s, jobs, ...place, isAll, isList: values.list };
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

function print(fault: Fault, by: string): void {
  if (!stop.signal.aborted) console.log(`${named(fault)}\n  ${by}`);
}

async function plant(copy: Copy): Promise<void> {
  copy.plant(faults);
  if (options.isAll && (await copy.node(['tools/build.mjs'])) !== 0)
    throw new Error('the program with the faults cannot be built');
}

/** Tries each fault, some at one time. Returns those that are not found. */
async function tryEach(waiting: readonly Numbered[], find: Find): Promise<Numbered[]> {
  const queue = [...waiting];
  const left: Numbered[] = [];
  const work = async (copy: Copy) => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      if (stop.signal.aborted) return;
      const within = AbortSignal.timeout(options.within_s * 1000);
      const by = await find(copy, next, within);
      if (stop.signal.aborted) return;
      if (by === null) left.push(next);
      else count.found += 1;
      const late = within.aborted ? ` in ${options.within_s} s` : '';
      print(next[1], by ?? `not by ${find === findBySlowTest ? 'slow' : 'quick'} tests${late}`);
    }
  };
  await Promise.all(copies.map(work));
  return left;
}

async function findByQuickTest(
  copy: Copy,
  [id, fault]: Numbered,
  within: AbortSignal,
): Promise<string | null> {
  const { nearest, quick } = tests.for(fault.file);
  return (
    (await tests.firstFailure(copy, id, fault, nearest, within)) ??
    (await tests.firstFailure(copy, id, fault, quick, within))
  );
}

/** By a slow test, or one of the built program. */
function findBySlowTest(copy: Copy, [id, fault]: Numbered, within: AbortSignal) {
  const { slow, built } = tests.for(fault.file);
  return tests.firstFailure(copy, id, fault, [...slow, ...built], within);
}

/** Tries the type check and the lint, with a fault in each of many files. Returns what is left. */
async function tryChecks(faults: readonly Numbered[]): Promise<Numbered[]> {
  const left: Numbered[] = [];
  for (let waiting = [...faults]; waiting.length > 0 && !stop.signal.aborted; ) {
    const isFirst = ([, { file }]: Numbered, index: number) =>
      waiting.findIndex(([, fault]) => fault.file === file) === index;
    const some = waiting.filter(isFirst);
    left.push(...(await checkTogether(some)));
    waiting = waiting.filter((one) => !some.includes(one));
  }
  return left;
}

/** Checks faults of different files. Returns those that are not found. */
async function checkTogether(some: readonly Numbered[]): Promise<Numbered[]> {
  const faults = some.map(([, fault]) => fault);
  const checks = new Map([
    ['the type check', TYPES],
    ['the lint', [...LINT, ...faults.map(({ file }) => file)]],
  ]);
  for (const [name, args] of checks) {
    const lines: string[] = [];
    const within = AbortSignal.timeout(options.within_s * 1000);
    const code = await plain.withTexts(faults, () =>
      plain.node(args, within, (line) => lines.push(line)),
    );
    if (code === 0 || within.aborted || stop.signal.aborted) continue;
    const isNamed = ({ file }: Fault) => lines.some((line) => line.startsWith(file));
    const blamed = some.length === 1 ? some : some.filter(([, fault]) => isNamed(fault));
    for (const [, fault] of blamed) print(fault, name);
    count.found += blamed.length;
    const others = some.filter((one) => !blamed.includes(one));
    // The problem is only in a file that uses one of them.
    const middle = blamed.length > 0 ? others.length : Math.ceil(others.length / 2);
    const halves = [others.slice(0, middle), others.slice(middle)];
    const left: Numbered[] = [];
    for (const half of halves) if (half.length > 0) left.push(...(await checkTogether(half)));
    return left;
  }
  return [...some];
}
