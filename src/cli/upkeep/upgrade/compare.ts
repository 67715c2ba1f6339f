import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { formatOf } from '../../../../machines/events.ts';
import { hasCode } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { oneLine } from '../../../logs/plain.ts';
import { type OpenLog, withLog } from '../../terminal/offline/open-log.ts';
import type { Folded } from './fold.ts';

export interface Comparison {
  events: number;
  streams: number;
  /** Of runs and other machines that differ, a sentence each. The first ones. */
  differences: string[];
  differing: number;
  /** The newest format that an event of the log needs. */
  format: number;
  /** Position of the last event. */
  last_seq: number;
}

/** A program with its first words. */
export type Build = readonly [string, ...string[]];

const PAGE = 500;
/** Differences that are shown. */
const SHOWN = 10;

/**
 * Folds the log with two builds side by side, and compares the states of all machines. The log is
 * read from the running daemon, which continues. Without one, it is read from a copy. Null: there
 * is no log.
 *
 * 1. Both read the same events. Each has its own process, so a build that fails harms nothing.
 * 2. Only fields that both know are compared: a new version may know more of a state.
 * 3. A stream that both have said is forgotten, so the memory does not grow with the log.
 * 4. With `after_seq` only the streams are compared that have later events.
 */
export async function compareBuilds(
  paths: Paths,
  before: Build,
  after: Build,
  after_seq = 0,
): Promise<Comparison | null> {
  const found: Comparison = {
    events: 0,
    streams: 0,
    differences: [],
    differing: 0,
    format: 0,
    last_seq: 0,
  };
  const waiting = [new Map<string, Folded>(), new Map<string, Folded>()] as const;
  const differ = (sentence: string) => {
    found.differing += 1;
    if (found.differences.length < SHOWN) found.differences.push(oneLine(sentence));
  };
  const take = (side: 0 | 1) => (folded: Folded) => {
    const other = waiting[1 - side]?.get(folded.stream);
    if (other === undefined) waiting[side].set(folded.stream, folded);
    else {
      waiting[1 - side]?.delete(folded.stream);
      found.streams += 1;
      const [old, now] = side === 0 ? [folded, other] : [other, folded];
      const sentence = difference(old, now);
      if (sentence !== null) differ(sentence);
    }
  };
  const folds = [startFold(before, take(0)), startFold(after, take(1))];
  try {
    await withLog(paths, async (log) => {
      found.last_seq = log.last_seq;
      const pages = after_seq === 0 ? eventsAfter(log, 0) : eventsOfChanged(log, after_seq);
      for await (const page of pages) {
        const text = page.map((event) => `${JSON.stringify(event)}\n`).join('');
        await Promise.all(folds.map((fold) => fold.write(text)));
        for (const { type } of page) found.format = Math.max(found.format, formatOf(type) ?? 0);
        found.events += page.length;
      }
    });
  } catch (error) {
    for (const fold of folds) fold.kill();
    if (hasCode(error, 'daemon_not_running')) return null;
    throw error;
  }
  const [old, now] = await Promise.all(folds.map((fold) => fold.end()));
  if (old !== null || now !== null)
    differ(
      old === null
        ? `The new build cannot read the log: ${now}`
        : `The build in use cannot read the log: ${old}`,
    );
  else
    for (const [side, name] of ['build in use', 'new build'].entries())
      for (const stream of waiting[side]?.keys() ?? []) differ(`Only the ${name} has ${stream}.`);
  return found;
}

async function* eventsAfter({ last_seq, readAll }: OpenLog, after_seq: number) {
  for (let next = after_seq + 1; next <= last_seq; ) {
    const page = (await readAll(next, PAGE)).filter(({ seq }) => seq <= last_seq);
    if (page.length === 0) return;
    yield page;
    next = (page.at(-1)?.seq ?? next) + 1;
  }
}

/** All events of the streams that have one after the position. */
async function* eventsOfChanged(log: OpenLog, after_seq: number) {
  const streams = new Set<string>();
  for await (const page of eventsAfter(log, after_seq))
    for (const { stream } of page) streams.add(stream);
  for (const stream of streams)
    for (let next = 1; ; ) {
      const page = await log.readStream(stream, next, PAGE);
      if (page.length === 0) break;
      yield page;
      next = (page.at(-1)?.version ?? next) + 1;
    }
}

/** The differences, as a sentence; null for the same state. */
function difference(old: Folded, now: Folded): string | null {
  const { stream } = old;
  if (old.refused?.seq !== now.refused?.seq) {
    const [who, { seq, type, state }] = (
      now.refused === null ? ['build in use', old.refused] : ['new build', now.refused]
    ) as [string, NonNullable<Folded['refused']>];
    return `${stream}: the ${who} refuses the event ${seq}, ${type}, in the state ${state}.`;
  }
  if (old.state !== now.state)
    return `${stream}: ${old.state} with the build in use, ${now.state} with the new one.`;
  const names = Object.keys(old.fields).filter(
    (name) => name in now.fields && old.fields[name] !== now.fields[name],
  );
  return names.length === 0
    ? null
    : `${stream}: in the state ${old.state}, ${names.join(', ')} differ.`;
}

interface Fold {
  write(text: string): Promise<unknown>;
  /** Resolves with its error; null for success. */
  end(): Promise<string | null>;
  kill(): void;
}

function startFold([program, ...words]: Build, take: (folded: Folded) => void): Fold {
  const child = spawn(program, [...words, 'upgrade', '--fold'], { stdio: 'pipe' });
  let problem = '';
  child.stderr.on('data', (text) => {
    problem = `${problem}${text}`.slice(0, PROBLEM_CHARS);
  });
  child.on('error', ({ message }) => {
    problem = message;
  });
  // A fold that has failed reads no more.
  child.stdin.on('error', () => {});
  const lines = createInterface({ input: child.stdout });
  lines.on('line', (line) => {
    try {
      take(JSON.parse(line) as Folded);
    } catch {
      problem ||= `it printed no state, but ${oneLine(line.slice(0, 80))}`;
      child.kill();
    }
  });
  const read = once(lines, 'close');
  const closed = new Promise<number | null>((resolve) => child.on('close', resolve));
  return {
    write: async (text) => {
      if (child.stdin.writable && !child.stdin.write(text))
        await Promise.race([once(child.stdin, 'drain'), closed]);
    },
    end: async () => {
      child.stdin.end();
      const [code] = await Promise.all([closed, read]);
      return code === 0 ? null : problem.split('\n', 1)[0] || `exit code ${code}`;
    },
    kill: () => child.kill(),
  };
}

const PROBLEM_CHARS = 4096;
