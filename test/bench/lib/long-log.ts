import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { AnyEvent } from '../../../machines/events.ts';
import { type RunSnapshot, runMachine } from '../../../machines/run/chart.ts';
import type { RunCreated, RunEvent } from '../../../machines/run/context.ts';
import { init, step } from '../../../machines/step.ts';
import { shortMessages } from '../../../src/contract/messages/parts.ts';
import type { Paths } from '../../../src/home/paths.ts';
import type { Commit, StoredEvent } from '../../../src/kernel/store/port.ts';
import { createSqliteStore } from '../../../src/kernel/store/sqlite/sqlite.ts';
import { runRow } from '../../../src/runtime/runs/record.ts';

/** A word that each prompt has, and one that one prompt in a thousand has. */
export const [FREQUENT, RARE] = ['daemon', 'ptarmigan'];
/** Runs of one conversation. */
const TURNS = 10;
const COMMIT_EVENTS = 4_000;
/** Between two runs: a million of them last ten days. */
const BETWEEN_MS = 864;
const BOOT = 'boot_00000000000000000000000001';

/**
 * Writes a log as the daemon does, with so many finished runs in the last days. Every prompt and
 * answer has its own text of some hundred characters.
 */
export async function writeLongLog(paths: Paths, runs: number): Promise<void> {
  mkdirSync(dirname(paths.database), { recursive: true, mode: 0o700 });
  const store = createSqliteStore({ database: paths.database, highWater: paths.highWater });
  await store.open();
  const now = Date.now();
  let commit: Commit = { events: [], runs: [] };
  let [seq, written] = [0, Promise.resolve<unknown>(undefined)];
  for (let run = 1; run <= runs; run += 1) {
    const id = idOf(run);
    const [created, ...events] = factsOf(id, run, now - (runs - run) * BETWEEN_MS);
    let { snapshot } = init(runMachine, created) as { snapshot: RunSnapshot };
    commit.events.push(stored(created, id, ++seq, 1));
    for (const [index, event] of events.entries()) {
      ({ snapshot } = step(runMachine, snapshot, event));
      commit.events.push(stored(event, id, ++seq, index + 2));
    }
    commit.runs.push(runRow(snapshot, seq));
    if (commit.events.length < COMMIT_EVENTS && run < runs) continue;
    // The next commit is made while the thread writes this one, with its index of words.
    await written;
    written = store.append(commit).then(() => store.unindexedRuns?.());
    commit = { events: [], runs: [] };
  }
  await written;
  await store.close();
}

function stored(event: AnyEvent, stream: string, seq: number, version: number): StoredEvent {
  const { type, at, ...data } = event as AnyEvent & Record<string, unknown>;
  return { seq, stream, version, type, schema: 1, at, boot_id: BOOT, data };
}

function factsOf(run_id: string, run: number, at: number): [RunCreated, ...RunEvent[]] {
  const first = run - ((run - 1) % TURNS);
  const request = {
    provider: 'fake',
    model: 'm',
    cloud: false,
    messages: shortMessages(promptOf(run), null),
    max_tokens: null,
    temperature: null,
    seed: 1,
    seed_asked: false,
  };
  const created: RunCreated = {
    type: 'run.accepted',
    at,
    run_id,
    request,
    idempotency_key: null,
    request_digest: null,
    client: 'bench',
    recovery: 'resume',
    resumable: false,
    max_attempts: 3,
    max_losses: 3,
    queue_deadline_at: at + 600_000,
    deadline_at: at + 600_000,
    first_output_ms: 300_000,
    idle_ms: 120_000,
    cancel_grace_ms: 10_000,
    ...(first === run ? {} : { conversation: idOf(first), continues: idOf(run - 1) }),
  };
  const output = `${textOf(run, 7)} answer`;
  return [
    created,
    { type: 'run.started', at: at + 1, attempt: 1, resumes: false },
    { type: 'run.output_appended', at: at + 2, attempt: 1, text: output, token_ids: [] },
    {
      type: 'run.completed',
      at: at + 3,
      attempt: 1,
      finish_reason: 'stop',
      usage: { input_tokens: 50, output_tokens: 40 },
    },
  ];
}

function promptOf(run: number): string {
  return `${FREQUENT} ${run % 1000 === 1 ? RARE : 'sparrow'} ${textOf(run, 3)}`;
}

/** Forty words of a vocabulary of some thousand. */
function textOf(run: number, step: number): string {
  let word = (run * 2_654_435_761) >>> 0;
  return Array.from({ length: 40 }, () => {
    word = (Math.imul(word, 1_664_525) + 1_013_904_223 * step) >>> 0;
    return `w${((word >>> 8) % 5_000).toString(36)}`;
  }).join(' ');
}

/** In the order of the runs. */
function idOf(run: number): string {
  return `run_${String(run).padStart(26, '0')}`;
}
