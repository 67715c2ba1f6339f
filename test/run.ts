import { spawn, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { parseArgs } from 'node:util';
import { isTestOf, packages } from './packages.ts';
import { ProcessorTime } from './runner/processor-time.ts';
import { type Outcome, runFile, skipReasons } from './runner/run-file.ts';
import { runTogether } from './runner/together.ts';
import { changedFirst, filesOf, isShared, TIERS, type Tier } from './tiers.ts';

/**
 * Runs the tests: `node test/run.ts [filter…] [--package dialects] [--tier all|quick] [--coverage]
 * [--jobs 4] [--bound 900] [--leave 20] [--bail] [--root test] [--lacked 'no chromium']`. Files
 * that import what the working tree changed go first.
 *
 * Each file runs in its own process. uvu alone exits 0 when nothing ran: a file without `.run()`, a
 * `before` hook that throws, a pattern without a match. Here each of these fails. So does a file
 * that hangs, crashes or leaves a process behind. A file that
 * skips tests says why. The last line is `N passed, N failed[, N skipped]`.
 */

const COVERAGE = 'coverage';
/** Where Node keeps what it compiled, so that no file compiles all that it imports. */
const COMPILED = resolve('node_modules/.cache/svc-tests');

const { values, positionals: filters } = parseArgs({
  allowPositionals: true,
  options: {
    tier: { type: 'string', default: 'all' },
    /** Only the tests of a package: see `test/packages.ts`. */
    package: { type: 'string' },
    coverage: { type: 'boolean', default: false },
    /** Files at one time. A file waits for a third of its time, and four left two cores idle. */
    jobs: { type: 'string', default: String(Math.min(5, availableParallelism() + 3)) },
    /** Most files of one process; of slow ones a quarter. 40, or 1 where a filter names them. */
    together: { type: 'string' },
    /** Time limit of one file, in seconds. */
    bound: { type: 'string', default: '900' },
    /** Seconds that leftover processes of a file have to exit. */
    leave: { type: 'string', default: '20' },
    /** The first file that fails ends the others. */
    bail: { type: 'boolean', default: false },
    root: { type: 'string', default: 'test' },
    /**
     * Only what the run before skipped for this reason. The sum is of both runs: a file that runs
     * again counts once.
     */
    lacked: { type: 'string', multiple: true, default: [] },
    /** A file that gets a line for each test file: the folder that is its /tmp, and its name. */
    folders: { type: 'string' },
    /** Where a run keeps its outcomes for `--lacked`. */
    outcomes: { type: 'string', default: 'node_modules/.cache/svc-test-outcomes.json' },
  },
});

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => stop.abort());

const root = resolve(values.root);
const before = values.lacked.length === 0 ? [] : readOutcomes();
const scratch = mkdtempSync(join(tmpdir(), 'svct-'));
chmodSync(scratch, 0o711);
const time = new ProcessorTime(scratch);
const env = cleanEnvironment();
const tier = readTier();
const found = findFiles();
process.stdout.write(`tier ${tier}: ${found.length} files\n`);
// A run that is killed leaves no outcomes of an older one.
rmSync(values.outcomes, { force: true });
const outcomes = [...before.filter(({ file }) => !found.includes(file)), ...(await runAll(found))];
if (!stop.signal.aborted) keepOutcomes(outcomes);
time.stop();
remove(scratch);
if (values.coverage) await reportCoverage();
process.exitCode = conclude(outcomes) ? 0 : 1;

function readTier(): Tier {
  const known = TIERS.find((name) => name === values.tier);
  if (known === undefined) throw new Error(`--tier is one of ${TIERS.join(', ')}`);
  return known;
}

function findFiles(): string[] {
  const files = globSync('**/*.test.ts', { cwd: root })
    .map((file) => shown(join(root, file)))
    .filter((file) => values.root !== 'test' || !file.startsWith('test/fixtures/'))
    .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
    .filter((file) => values.package === undefined || isTestOf(known(values.package), file))
    .filter((file) => values.lacked.length === 0 || isLacking(file));
  return changedFirst(filesOf(tier, files), readChanged());
}

function known(name: string): string {
  if (name in packages) return name;
  throw new Error(`--package is one of ${Object.keys(packages).join(', ')}`);
}

/** The files that the working tree has and the last commit has not, or has otherwise. */
function readChanged(): string[] {
  const { stdout } = spawnSync('git', ['status', '--porcelain', '-z', '--no-renames'], {
    encoding: 'utf8',
  });
  return (stdout ?? '').split('\0').map((line) => line.slice('XY '.length));
}

/** Whether the run before skipped tests of a file for such a reason. A failure there is kept. */
function isLacking(file: string): boolean {
  const outcome = before.find((outcome) => outcome.file === file);
  return (
    outcome !== undefined &&
    outcome.failed === 0 &&
    outcome.skipped > 0 &&
    skipReasons(outcome.output).some((reason) =>
      values.lacked.some((lack) => reason.includes(lack)),
    )
  );
}

function readOutcomes(): Outcome[] {
  try {
    return JSON.parse(readFileSync(values.outcomes, 'utf8')) as Outcome[];
  } catch (error) {
    throw new Error('--lacked needs the outcomes of a whole run before it', { cause: error });
  }
}

/** Of the output only the reasons of skipped tests are read again. */
function keepOutcomes(outcomes: readonly Outcome[]): void {
  const kept = outcomes.map((outcome) => ({
    ...outcome,
    cpu_s: null,
    output: skipReasons(outcome.output)
      .map((reason) => `skipped: ${reason}\n`)
      .join(''),
  }));
  mkdirSync(dirname(values.outcomes), { recursive: true });
  writeFileSync(values.outcomes, JSON.stringify(kept));
}

/** Settings of the user's own daemon must not reach the daemons under test. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(SVC_|FORCE_COLOR$|NODE_TEST|NODE_OPTIONS$|NODE_V8_COVERAGE$)/.test(name),
  );
  if (!values.coverage) return { ...Object.fromEntries(kept), NODE_COMPILE_CACHE: COMPILED };
  // Code from the cache has no exact coverage.
  rmSync(COVERAGE, { recursive: true, force: true });
  return { ...Object.fromEntries(kept), NODE_V8_COVERAGE: resolve(COVERAGE, 'tmp') };
}

async function runAll(files: readonly string[]): Promise<Outcome[]> {
  const waiting = unitsOf(files);
  const done: Outcome[] = [];
  const worker = async () => {
    for (
      let unit = waiting.shift();
      unit !== undefined && !stop.signal.aborted;
      unit = waiting.shift()
    ) {
      await runUnit(unit, (outcome) => {
        done.push(outcome);
        print(outcome);
        if (values.bail && outcome.failed > 0) stop.abort();
      });
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, Number(values.jobs)) }, worker));
  return done;
}

/** What a process runs: one file, or several that share it. */
function unitsOf(files: readonly string[]): string[][] {
  const size = Number(values.together ?? (filters.length > 0 ? 1 : 40));
  const small = new Set(filesOf('quick', files));
  const units: string[][] = [];
  /** The unit that is not full, of small files and of slow ones. */
  const open = new Map<boolean, string[]>();
  for (const file of files) {
    const isSmall = small.has(file);
    const last = open.get(isSmall);
    if (last !== undefined && last.length < (isSmall ? size : size / 4) && isShared(file))
      last.push(file);
    else {
      const unit = [file];
      units.push(unit);
      if (isShared(file)) open.set(isSmall, unit);
    }
  }
  return units;
}

async function runUnit(files: readonly string[], done: (outcome: Outcome) => void): Promise<void> {
  const runnable: { file: string; folder: string }[] = [];
  for (const file of files) {
    const problem = refuse(readFileSync(file, 'utf8'));
    if (problem === null) runnable.push({ file, folder: makeFolder(file) });
    else
      done({
        file,
        passed: 0,
        failed: 1,
        skipped: 0,
        ms: 0,
        cpu_s: null,
        output: '',
        problems: [problem],
      });
  }
  const [first, second] = runnable;
  const options = {
    env,
    bound_ms: Number(values.bound) * 1000,
    leave_ms: Number(values.leave) * 1000,
    bail: values.bail,
    signal: stop.signal,
    time,
  };
  const clean = (outcome: Outcome, folder: string) => done(withLeft(outcome, folder));
  if (second !== undefined) await runTogether(runnable, options, clean);
  else if (first !== undefined)
    clean(await runFile(first.file, { ...options, folder: first.folder }), first.folder);
}

/** Tests use it as /tmp, also processes that have dropped their privileges. */
function makeFolder(file: string): string {
  const folder = mkdtempSync(join(scratch, 't-'));
  chmodSync(folder, 0o1777);
  if (values.folders !== undefined) appendFileSync(values.folders, `${folder} ${file}\n`);
  return folder;
}

function withLeft(outcome: Outcome, folder: string): Outcome {
  const left = [...unmountBelow(folder), ...remove(folder)];
  return left.length === 0
    ? outcome
    : { ...outcome, failed: Math.max(1, outcome.failed), problems: [...outcome.problems, ...left] };
}

/** Unmounts the disks of a killed file. Returns them as sentences. */
function unmountBelow(folder: string): string[] {
  if (process.platform !== 'linux') return [];
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  const points = mounts
    .map((line) => line.split(' ')[1] ?? '')
    .filter((point) => point.startsWith(folder + sep));
  for (const point of points.toReversed()) spawnSync('umount', ['-l', point]);
  return points.map((point) => `it left ${point} mounted`);
}

/** Returns what prevents the removal, as a sentence. */
function remove(folder: string): string[] {
  try {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    return [];
  } catch (error) {
    return [`what it left could not be removed: ${(error as Error).message}`];
  }
}

/** Why a file would not run all of its tests; null if it would. */
function refuse(source: string): string | null {
  const suites = source.match(/=\s*suite(<[^(]*>)?\(/g)?.length ?? 0;
  const runs = source.match(/\.run\(\)/g)?.length ?? 0;
  if (runs < Math.max(1, suites))
    return `.run() is missing: ${Math.max(1, suites)} needed, ${runs} found`;
  return /\.only\(\s*['"`]/.test(source)
    ? 'a test is marked .only: the others would be left out'
    : null;
}

function print({ file, passed, failed, skipped, ms, cpu_s, output, problems }: Outcome): void {
  const counts = [
    `${passed} passed`,
    failed > 0 && `${failed} failed`,
    skipped > 0 && `${skipped} skipped`,
  ]
    .filter(Boolean)
    .join(', ');
  const cpu = cpu_s === null ? '' : `  ${cpu_s.toFixed(1)} s cpu`;
  const mark = failed > 0 ? 'FAIL' : passed > 0 ? 'ok  ' : 'skip';
  process.stdout.write(`${mark} ${shown(file)}  ${counts}  ${(ms / 1000).toFixed(1)} s${cpu}\n`);
  if (failed === 0) return;
  if (output.trim() !== '') process.stdout.write(`${output.trimEnd()}\n`);
  for (const problem of problems) process.stdout.write(`     ${problem}\n`);
}

/** Prints the sum as the last line. Returns true when tests ran and all passed. */
function conclude(all: readonly Outcome[]): boolean {
  const sum = (key: 'passed' | 'failed' | 'skipped') =>
    all.reduce((total, outcome) => total + outcome[key], 0);
  const [passed, skipped] = [sum('passed'), sum('skipped')];
  const failed = sum('failed') + (stop.signal.aborted ? 1 : 0);
  if (all.length === 0)
    process.stdout.write(
      filters.length > 0
        ? `no test file matches ${filters.join(', ')}\n`
        : 'no test file was found\n',
    );
  if (stop.signal.aborted) process.stdout.write('the run was stopped before its end\n');
  const cpu_s = all.reduce((total, outcome) => total + (outcome.cpu_s ?? 0), 0);
  if (cpu_s > 0) process.stdout.write(`${cpu_s.toFixed(0)} s of processor time\n`);
  if (skipped > 0)
    process.stdout.write(`${[`${skipped} skipped`, ...whySkipped(all)].join(': ')}\n`);
  const count = skipped > 0 ? `, ${skipped} skipped` : '';
  process.stdout.write(`${passed} passed, ${failed} failed${count}\n`);
  return passed > 0 && failed === 0;
}

function whySkipped(all: readonly Outcome[]): string[] {
  const reasons = all
    .filter(({ skipped }) => skipped > 0)
    .flatMap(({ output }) => skipReasons(output));
  return reasons.length === 0 ? [] : [[...new Set(reasons)].sort().join(', ')];
}

function reportCoverage(): Promise<void> {
  const args = [
    'report',
    '--temp-directory',
    join(COVERAGE, 'tmp'),
    '--reporter',
    'text',
    '--reporter',
    'lcovonly',
    '--all',
    '--src',
    '.',
  ];
  const scope = [
    '--include',
    'src/**/*.ts',
    '--include',
    'machines/**/*.ts',
    '--exclude-after-remap',
  ];
  const child = spawn(process.execPath, [resolve('node_modules/c8/bin/c8.js'), ...args, ...scope], {
    stdio: 'inherit',
  });
  return new Promise((done) => child.once('close', () => done()));
}

function shown(file: string): string {
  return relative(process.cwd(), file).replaceAll(sep, '/');
}
