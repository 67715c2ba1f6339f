import { existsSync, globSync } from 'node:fs';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { importsOf } from '../layers.ts';
import { filesOf } from '../tiers.ts';
import { Copy } from './copy.ts';
import { type Fault, faultsOf } from './faults.ts';

/** Test files that always run, also slow ones. */
const NEAREST = 4;
const USAGE = `npm run mutate -- [options]

  --count N    as many faults; 60 without it
  --seed N     other faults; 1 without it
  --file F     only faults of this file; --file F:LINE, only of this line
  --tier all   after these tests the type check, and the tests of the built program
  --within N   seconds for the tests of one fault; 300 without it

It plants one small fault at a time in a copy of src and machines, and says which test finds it:
one of the ${NEAREST} tests nearest to the file, or a quick one that reaches it.`;

const BUILD = 'the build';
const options = readOrExit();
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => stop.abort());

const sources = globSync('{src,machines}/**/*.ts').filter(isTried).sort();
const importers = importersOf();
const faults = chosen(
  faultsOf(sources.filter((file) => file === options.file || options.file === null)),
);
const copy = new Copy(stop.signal);
/** Test files that fail without a fault. */
const broken = new Set<string>();
let lost = 0;
try {
  for (const fault of faults) {
    const within = AbortSignal.timeout(options.within_s * 1000);
    const by = await find(fault, within);
    if (stop.signal.aborted) break;
    if (by === null) lost += 1;
    console.log(`${fault.file}:${fault.line}  ${fault.what}\n  ${by ?? notFound(within)}`);
  }
} finally {
  copy.remove();
}
if (broken.size > 0) console.log(`fail without a fault: ${[...broken].join(', ')}`);
console.log(`${faults.length - lost} found, ${lost} not found, seed ${options.seed}`);
process.exitCode = lost === 0 && !stop.signal.aborted ? 0 : 1;

function readOrExit() {
  const { values } = parseArgs({
    options: {
      count: { type: 'string', default: '60' },
      seed: { type: 'string', default: '1' },
      file: { type: 'string' },
      tier: { type: 'string', default: 'quick' },
      within: { type: 'string', default: '300' },
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
  return { count, seed, within_s, file, line: line && Number(line), tier: values.tier };
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

/** Which files import a file. */
function importersOf(): Map<string, string[]> {
  const importers = new Map<string, string[]>();
  for (const file of globSync('{src,machines,test}/**/*.ts'))
    for (const { from, to, kind } of importsOf(file))
      if (kind !== 'type') importers.set(to, [...(importers.get(to) ?? []), from]);
  return importers;
}

/** The test files that reach a source file, nearest first. */
function nearestTests(file: string): string[] {
  const reached = new Set([file]);
  for (const each of reached) for (const by of importers.get(each) ?? []) reached.add(by);
  const tests = [...reached].filter((name) => /^test\/(?!fixtures\/).*\.test\.ts$/.test(name));
  // The one that is named after the file is most likely to find it.
  const named = `/${basename(file, '.ts')}.test.ts`;
  return tests.toSorted((a, b) => Number(b.endsWith(named)) - Number(a.endsWith(named)));
}

function notFound({ aborted }: AbortSignal): string {
  return aborted ? `NOT FOUND in ${options.within_s} s` : 'NOT FOUND';
}

/** How the fault is found; null: not at all. */
async function find(fault: Fault, within: AbortSignal): Promise<string | null> {
  const tests = nearestTests(fault.file);
  const quick = new Set([...filesOf('quick', tests), ...tests.slice(0, NEAREST)]);
  const first = tests.filter((file) => quick.has(file));
  const others = tests.filter((file) => !quick.has(file));
  /** Tests that reach the file by imports need no built program. */
  const byTest = async (files: readonly string[], isBuilt: boolean): Promise<string | null> => {
    const whole = files.filter((file) => !broken.has(file));
    const run = async (some: readonly string[], bound: AbortSignal) => {
      if (isBuilt && (await copy.node(['tools/build.mjs'], bound)).code !== 0) return BUILD;
      return copy.firstFailure(some, bound);
    };
    const failed = await copy.with(fault, () => run(whole, within));
    if (failed === null || failed === BUILD) return failed;
    if ((await run([failed], stop.signal)) === null) return failed;
    broken.add(failed);
    return byTest(files, isBuilt);
  };
  const quickly = await byTest(first, false);
  if (quickly !== null || options.tier === 'quick' || within.aborted) return quickly;
  const tsc = ['node_modules/typescript/lib/tsc.js', '--noEmit', '-p', '.'];
  const { code } = await copy.with(fault, () => copy.node(tsc, within));
  if (code !== 0 && !within.aborted) return 'the type check';
  return byTest([...others, ...globSync('test/{cli,e2e}/*.test.ts').sort()], true);
}
