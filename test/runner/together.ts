import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { collect, count, endLeft, killGroup, type Outcome, type RunOptions } from './run-file.ts';

/** The work of a process that runs several files. */
export interface Shared {
  files: readonly { file: string; folder: string }[];
  leave_ms: number;
  bail: boolean;
}

/** What that process reports. */
export type Report = { begins: string } | Ended;

export interface Ended {
  ends: string;
  ms: number;
  cpu_s: number;
  problems: string[];
}

/** It begins each report. */
export const MARK = '\u001e';

const MAIN = join(import.meta.dirname, 'together-main.ts');

/**
 * Runs test files in one process, one after another: the code under test is loaded once. A file
 * that fails otherwise than by a test ends that process, and the files after it get a new one.
 * `done` is called for each file, in order.
 */
export async function runTogether(
  files: Shared['files'],
  options: Omit<RunOptions, 'folder'>,
  done: (outcome: Outcome, folder: string) => void,
): Promise<void> {
  let waiting = files;
  while (waiting.length > 0 && !options.signal.aborted) {
    const outcomes = await runProcess(waiting, options);
    for (const [index, outcome] of outcomes.entries()) done(outcome, waiting[index]?.folder ?? '');
    waiting = waiting.slice(outcomes.length);
  }
}

/** The outcomes of the files that one process has begun: at least of the first. */
async function runProcess(
  files: Shared['files'],
  { env, bound_ms, leave_ms, bail, signal, time }: Omit<RunOptions, 'folder'>,
): Promise<Outcome[]> {
  const started = performance.now();
  const shared: Shared = { files, leave_ms, bail };
  const folder = files[0]?.folder ?? '';
  const child = spawn(process.execPath, [MAIN, JSON.stringify(shared)], {
    env: { ...env, TMPDIR: folder, TEMP: folder, TMP: folder, SVC_HOME: join(folder, 'home') },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let isExpired = false;
  const kill = () => killGroup(child);
  const bound = setTimeout(() => {
    isExpired = true;
    kill();
  }, bound_ms);
  signal.addEventListener('abort', kill);
  const reports = collect(child, [child.stdout], (text) => text.includes(MARK) && bound.refresh());
  const errors = collect(child, [child.stderr], () => {});
  const end = await new Promise<string | number | null>((resolve) => {
    child.once('exit', (code, by) => resolve(by ?? code));
    child.once('error', () => resolve('not started'));
  });
  clearTimeout(bound);
  signal.removeEventListener('abort', kill);
  const spent_s = time.ended();
  const leaked: string[][] = [];
  for (const { folder } of files)
    leaked.push(await endLeft(child, folder, isExpired ? 0 : leave_ms, signal));
  const runs = readRuns(await reports(), await errors());
  const last = isExpired
    ? `it was killed at its bound of ${bound_ms / 1000} s`
    : `it crashed: ${end}`;
  const outcomes = files.slice(0, Math.max(1, runs.length)).map(({ file }, index): Outcome => {
    const { text = '', ended = null } = runs[index] ?? {};
    const problems = [...(ended?.problems ?? [last])];
    const left = leaked[index] ?? [];
    if (left.length > 0) problems.push(`it left ${left.length} running: ${left.join(', ')}`);
    return {
      file,
      ...count(text, 0, problems),
      ms: ended?.ms ?? performance.now() - started,
      cpu_s: ended?.cpu_s ?? null,
      output: text,
      problems,
    };
  });
  // The start of the process counts for its first file.
  const known_s = outcomes.reduce((sum, { cpu_s }) => sum + (cpu_s ?? 0), 0);
  const [first] = outcomes;
  if (first !== undefined && spent_s !== null)
    first.cpu_s = (first.cpu_s ?? 0) + Math.max(0, spent_s - known_s);
  return outcomes;
}

/** The output of each file that the process has begun, and its end. */
function readRuns(stdout: string, stderr: string): { text: string; ended: Ended | null }[] {
  const runs: { text: string; ended: Ended | null }[] = [];
  const errors = stderr.split(MARK);
  for (const [index, part] of stdout.split(MARK).entries()) {
    if (index === 0) continue;
    const [line = '', ...rest] = part.split('\n');
    const report = JSON.parse(line) as Report;
    const last = runs.at(-1);
    if ('begins' in report)
      runs.push({ text: [...rest, ...(errors[index] ?? '').split('\n')].join('\n'), ended: null });
    else if (last !== undefined) last.ended = report;
  }
  return runs;
}
