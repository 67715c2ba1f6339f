import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { changes, openResources, processState } from './process-state.ts';
import { childSeconds } from './processor-time.ts';
import { type Ended, MARK, type Report, type Shared } from './together.ts';

/**
 * The first file of a process that runs several test files, one after another. It stops at the
 * first file which leaves something behind: the runner gives the others a new process.
 */
interface Uvu {
  UVU_DEFER?: number;
  UVU_INDEX?: number;
  UVU_QUEUE: unknown[][];
}

const uvu = globalThis as unknown as Uvu;
// uvu reads it when it is loaded: then it runs nothing before `exec`.
uvu.UVU_DEFER = 1;
uvu.UVU_INDEX = 0;
const { exec } = await import('uvu');

const { files, leave_ms, bail } = JSON.parse(process.argv[2] ?? '') as Shared;
// A process that has run no file is as open as one between two files.
await sleep(1);
const idle = openResources();

for (const { file, folder } of files) {
  mark({ begins: file });
  const ended = await run(file, folder);
  mark(ended);
  if (ended.problems.length > 0 || (bail && process.exitCode === 1)) break;
}
process.exit(0);

async function run(file: string, folder: string): Promise<Ended> {
  const [spent, children_s, started] = [process.cpuUsage(), childSeconds(), performance.now()];
  Object.assign(process.env, { TMPDIR: folder, TEMP: folder, TMP: folder });
  process.env.SVC_HOME = `${folder}/home`;
  uvu.UVU_QUEUE.splice(0, Number.POSITIVE_INFINITY, [null]);
  const before = processState();
  const problems: string[] = [];
  try {
    await import(pathToFileURL(resolve(file)).href);
    await exec();
  } catch (error) {
    console.error(error);
    problems.push(`it could not be loaded: ${error}`);
  }
  const code = process.exitCode;
  const open = await left();
  if (open.length > 0)
    problems.push(
      `it went on after its tests: one of them left something open (${open.join(', ')})`,
    );
  const changed = changes(before, processState());
  if (changed.length > 0) problems.push(`it changed what files share: ${changed.join(', ')}`);
  if (process.exitCode !== code) problems.push('its process failed after its tests had passed');
  const { user, system } = process.cpuUsage(spent);
  const cpu_s = (user + system) / 1e6 + childSeconds() - children_s;
  return { ends: file, ms: performance.now() - started, cpu_s, problems };
}

/** What a file has left open, once it had `leave_ms` to close it. */
async function left(): Promise<string[]> {
  const end = performance.now() + leave_ms;
  for (let wait_ms = 1; ; wait_ms = Math.min(50, wait_ms * 2)) {
    await sleep(wait_ms);
    const open = [...openResources()].filter(([type, count]) => count > (idle.get(type) ?? 0));
    if (open.length === 0 || performance.now() > end) return open.map(([type]) => type);
  }
}

/** Both streams have it, so that the runner knows which output belongs to which file. */
function mark(report: Report): void {
  process.stderr.write(`${MARK}\n`);
  process.stdout.write(`${MARK}${JSON.stringify(report)}\n`);
}
