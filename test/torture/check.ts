import { promptOf, type RunRequest } from '../../src/contract/messages/parts.ts';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { createSqliteStore } from '../../src/kernel/store/sqlite/sqlite.ts';
import { SMALL_RESERVE } from '../helpers/small-reserve.ts';
import type { Home } from '../helpers/svc.ts';
import { fakeAnswer } from './fake-model.ts';
import { digestOf, type RunSeen } from './record.ts';

/** Compares the log of a stopped daemon with what the clients received. */
export interface Checked {
  events: number;
  runs: number;
  /** Events and ids that a client received. */
  acknowledged: number;
  lost: number;
  duplicates: number;
  /** Runs resumed from recorded tokens, and how often. */
  resumed: number;
  breaks: number;
  /** SIGKILLs of the engine that a daemon recorded. */
  engine_deaths: number;
  by_end: Record<string, number>;
  problems: string[];
}

/** The undisturbed answer to a prompt of the local model. */
export type References = ReadonlyMap<string, { text: string; token_ids: readonly number[] }>;

export async function checkLog(
  home: Home,
  seen: readonly RunSeen[],
  references: References,
): Promise<Checked> {
  const store = createSqliteStore({
    database: home.paths.database,
    highWater: home.paths.highWater,
    limits: SMALL_RESERVE,
  });
  await store.open();
  try {
    const verified = await store.verify();
    const events = await readAll((from) => store.readAll(from, 1000));
    const checked: Checked = {
      events: events.length,
      runs: 0,
      acknowledged: 0,
      lost: 0,
      duplicates: 0,
      resumed: 0,
      breaks: 0,
      engine_deaths: events.filter(
        ({ type, data }) => type === 'engine.exited' && data.signal === 'SIGKILL',
      ).length,
      by_end: {},
      problems: [...verified.problems],
    };
    const streams = Map.groupBy(events, ({ stream }) => stream);
    checkNumbers(events, streams, checked);
    const runs = new Map([...streams].filter(([stream]) => stream.startsWith('run_')));
    for (const [id, events] of runs) checkRun(id, events, references, checked);
    checkKeys(runs, seen, checked);
    for (const one of seen) checkSeen(one, runs, references, checked);
    const { unfinished } = await store.countRuns();
    if (unfinished > 0) checked.problems.push(`${unfinished} runs have no end`);
    return checked;
  } finally {
    await store.close();
  }
}

async function readAll(read: (from: number) => Promise<StoredEvent[]>): Promise<StoredEvent[]> {
  const all: StoredEvent[] = [];
  for (let page = await read(1); page.length > 0; page = await read(all.length + 1))
    all.push(...page);
  return all;
}

function checkNumbers(
  events: readonly StoredEvent[],
  streams: ReadonlyMap<string, StoredEvent[]>,
  { problems }: Checked,
): void {
  const odd = events.findIndex(({ seq }, index) => seq !== index + 1);
  if (odd >= 0) problems.push(`the event at place ${odd + 1} has the number ${events[odd]?.seq}`);
  for (const [stream, events] of streams)
    if (events.some(({ version }, index) => version !== index + 1))
      problems.push(`the versions of ${stream} have a gap`);
}

function checkRun(
  id: string,
  events: readonly StoredEvent[],
  references: References,
  checked: Checked,
): void {
  checked.runs += 1;
  const ends = events.filter(({ type }) => TERMINAL.test(type));
  if (ends.length !== 1 || ends[0] !== events.at(-1))
    checked.problems.push(`${id} has ${ends.length} ends, and after them ${events.at(-1)?.type}`);
  const end = ends[0]?.type ?? 'none';
  checked.by_end[end] = (checked.by_end[end] ?? 0) + 1;
  const starts = events.filter(({ type }) => type === 'run.started');
  checked.breaks += Math.max(0, starts.length - 1);
  if (starts.some(({ data }) => data.resumes === true)) checked.resumed += 1;
  const { text, token_ids } = answerOf(events);
  const { provider, messages = [] } = (events[0]?.data.request ?? {}) as Partial<RunRequest>;
  const prompt = promptOf({ messages });
  const whole =
    provider === 'local' ? references.get(prompt) : { text: fakeAnswer(prompt), token_ids: [] };
  if (whole === undefined) checked.problems.push(`${id} was asked something else`);
  else if (
    end === 'run.completed' &&
    (text !== whole.text || token_ids.join() !== whole.token_ids.join())
  )
    checked.problems.push(`${id} is not the undisturbed answer`);
  else if (!whole.text.startsWith(text))
    checked.problems.push(`${id} is not the beginning of the undisturbed answer`);
}

/** The final text, without what a restart discarded. */
function answerOf(events: readonly StoredEvent[]): { text: string; token_ids: number[] } {
  let [text, token_ids]: [string, number[]] = ['', []];
  for (const { type, data } of events) {
    if (type === 'run.started' && data.resumes !== true) [text, token_ids] = ['', []];
    if (type !== 'run.output_appended') continue;
    text += String(data.text);
    token_ids.push(...(data.token_ids as number[]));
  }
  return { text, token_ids };
}

function checkKeys(
  runs: ReadonlyMap<string, StoredEvent[]>,
  seen: readonly RunSeen[],
  checked: Checked,
): void {
  const owners = Map.groupBy(runs, ([, events]) => String(events[0]?.data.idempotency_key));
  for (const [key, owned] of owners)
    if (key !== 'null' && owned.length > 1)
      duplicate(checked, `the key ${key} has ${owned.length} runs`);
  for (const { key, ids } of seen) {
    if (ids.size > 1)
      duplicate(checked, `the key ${key} was answered with ${[...ids].join(' and ')}`);
    for (const id of ids) {
      checked.acknowledged += 1;
      if (runs.get(id)?.[0]?.data.idempotency_key !== key)
        lose(checked, `the run ${id} of the key ${key}`);
    }
  }
}

function checkSeen(
  seen: RunSeen,
  runs: ReadonlyMap<string, StoredEvent[]>,
  references: References,
  checked: Checked,
): void {
  const [id = ''] = seen.ids;
  const events = runs.get(id) ?? [];
  const bySeq = new Map(events.map((found) => [found.seq, found]));
  if (new Set(seen.events.map(({ seq }) => seq)).size < seen.events.length)
    duplicate(checked, `${id} was given an event twice`);
  for (const event of seen.events) {
    checked.acknowledged += 1;
    const found = bySeq.get(event.seq);
    if (
      found === undefined ||
      found.type !== event.type ||
      found.version !== event.version ||
      digestOf(found.data) !== event.digest
    )
      lose(checked, `the event ${event.seq} (${event.type}) of ${id}`);
  }
  const ended = seen.events.some(({ type }) => TERMINAL.test(type));
  if (ended && seen.events.length !== events.length)
    checked.problems.push(`of ${id} ${seen.events.length} of ${events.length} events were given`);
  if (seen.cancelled !== null && `run.${seen.cancelled}` !== events.at(-1)?.type)
    lose(checked, `the answer to the cancel of ${id}: ${seen.cancelled}`);
  checkPrinted(seen, references, checked);
}

function checkPrinted(
  { printed, prompt }: RunSeen,
  references: References,
  checked: Checked,
): void {
  if (printed === null) return;
  const whole = `${references.get(prompt)?.text.replace(/\n+$/, '')}\n`;
  if (printed.code === 0 && printed.text !== whole)
    checked.problems.push(
      `svc run printed ${printed.text.length} characters, not the ${whole.length} of the answer`,
    );
  else if (!whole.startsWith(printed.text.replace(/\n$/, '')))
    checked.problems.push(`svc run printed something else, and ended with ${printed.code}`);
}

function lose(checked: Checked, what: string): void {
  checked.lost += 1;
  checked.problems.push(`lost: ${what}`);
}

function duplicate(checked: Checked, what: string): void {
  checked.duplicates += 1;
  checked.problems.push(`twice: ${what}`);
}

const TERMINAL = /^run\.(completed|failed|cancelled|interrupted|timed_out)$/;
