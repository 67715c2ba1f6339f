import type { RunRow, VerifiedReport, VerifyReport } from '../../kernel/store/port.ts';
import { fromRunData } from '../../kernel/store/row.ts';
import { digestOf, referencesIn, USES } from '../../kernel/store/texts.ts';
import { EVENT_COLUMNS, eventProblem, type Read, type StoredRow } from './event-reads.ts';
import { runProblem, type StoredRun } from './reads.ts';
import { MISCOUNTED } from './texts.ts';

/** Events of one part, and problems of one report. */
const [PART_EVENTS, PROBLEMS_MAX] = [500, 20];

/**
 * Checks a log that has no chain of hashes. It owns the place of the slow check.
 *
 * 1. Each event agrees with its digest, and the versions of each stream have no gaps.
 * 2. The events and those that were removed are as many as the last position says. So none of them
 *    is missing.
 * 3. Each accepted run has a row that agrees with its digest and its events. No other run has one.
 */
export class Audit {
  private readonly read: Read;
  private seq = 0;
  private at: number | null = null;
  private damaged = new Set<string>();
  private problems: string[] = [];
  private found: string[] = [];
  /** What the texts of this round refer to; null: a text is missing or damaged. */
  private readonly texts = new Map<string, string[] | null>();

  constructor(read: Read) {
    this.read = read;
  }

  async verify(): Promise<VerifyReport> {
    const problems: string[] = [];
    let events = 0;
    this.texts.clear();
    for (let seq = 0; ; ) {
      const part = await this.part(seq);
      if (part.last === null) break;
      events += part.events;
      problems.push(...part.problems);
      seq = part.last;
    }
    problems.push(...(await this.countProblems()), ...(await this.streamProblems()));
    return { ok: problems.length === 0, events, problems: problems.slice(0, PROBLEMS_MAX) };
  }

  /** Checks the next part of the circle. `damaged`: runs whose rows do not agree. */
  async verifyPart(now: number, restart: boolean): Promise<{ done: boolean; damaged: string[] }> {
    if (restart) this.begin();
    const part = await this.part(this.seq);
    this.found.push(...part.problems);
    for (const run_id of part.damaged) this.damaged.add(run_id);
    if (part.last !== null) {
      this.seq = part.last;
      return { done: false, damaged: part.damaged };
    }
    this.found.push(...(await this.countProblems()), ...(await this.streamProblems()));
    this.problems = this.found.slice(0, PROBLEMS_MAX);
    this.begin();
    this.at = now;
    return { done: true, damaged: [] };
  }

  /** A row was made again. */
  forgetProblems(run_id: string): void {
    this.damaged.delete(run_id);
    const isOther = (problem: string) => !problem.includes(` ${run_id} `);
    this.found = this.found.filter(isOther);
    this.problems = this.problems.filter(isOther);
  }

  report(): VerifiedReport {
    return {
      seq: this.seq,
      at: this.at,
      complete: this.seq === 0 && this.at !== null,
      problems: this.problems.length > 0 ? this.problems : this.found.slice(0, PROBLEMS_MAX),
      damaged: this.damaged.size,
    };
  }

  private begin(): void {
    this.seq = 0;
    this.found = [];
    this.texts.clear();
  }

  private async part(after: number) {
    const rows = await this.read<StoredRow>(
      `select ${EVENT_COLUMNS} from svc_events where seq > $1 order by seq limit ${PART_EVENTS}`,
      [after],
    );
    const good = await this.checkTexts(rows.map(({ data }) => data));
    const problems = rows.flatMap(
      (row) =>
        eventProblem(row) ??
        (good(row.data) ? [] : `The event ${row.seq} of the log (${row.type}) ${USES}.`),
    );
    const accepted = rows.filter(({ version, type }) => version === 1 && type === 'run.accepted');
    const damaged: string[] = [];
    for (const [run_id, problem] of await this.rowProblems(accepted)) {
      problems.push(`The record of the run ${run_id} ${problem}.`);
      damaged.push(run_id);
    }
    return { last: rows.at(-1)?.seq ?? null, events: rows.length, problems, damaged };
  }

  /** The problems of the rows of these runs, as the ends of sentences. */
  private async rowProblems(accepted: readonly StoredRow[]): Promise<[string, string][]> {
    if (accepted.length === 0) return [];
    const rows = await this.read<CheckedRow>(
      `select run_id, accepted_seq, finished, state, seq, data, digest,
         (select e.seq from svc_events e where e.stream = run_id and e.type <> 'run.output_appended'
           order by version desc limit 1) as last
       from svc_runs where run_id = any($1)`,
      [accepted.map(({ stream }) => stream)],
    );
    const good = await this.checkTexts(rows.map(({ data }) => data));
    const known = new Map(rows.map((row) => [row.run_id, row]));
    return accepted.flatMap(({ stream, seq }) => {
      const row = known.get(stream);
      const problem =
        row === undefined
          ? 'is missing'
          : (runProblem(row) ??
            (!isConsistent(row, seq)
              ? 'does not agree with its events'
              : good(row.data)
                ? null
                : USES));
      return problem === null ? [] : [[stream, problem] as [string, string]];
    });
  }

  /**
   * Says of these data whether all texts that they need are there and agree with their digests.
   * Each text is read once in a round.
   */
  private async checkTexts(all: readonly string[]): Promise<(data: string) => boolean> {
    const { texts } = this;
    for (let next = newReferences(all, texts); next.length > 0; ) {
      const rows = await this.read<{ digest: string; text: string }>(
        'select digest, text from svc_texts where digest = any($1)',
        [next.slice(0, PART_EVENTS)],
      );
      const found = new Map(rows.map(({ digest, text }) => [digest, text]));
      for (const digest of next.slice(0, PART_EVENTS)) {
        const text = found.get(digest);
        texts.set(
          digest,
          text !== undefined && digestOf(text) === digest ? referencesIn(text) : null,
        );
      }
      next = [
        ...next.slice(PART_EVENTS),
        ...newReferences(
          rows.map(({ text }) => text),
          texts,
        ),
      ];
    }
    const whole = new Map<string, boolean>();
    const isWhole = (digest: string): boolean => {
      const known = whole.get(digest) ?? (texts.get(digest) ?? null)?.every(isWhole) ?? false;
      whole.set(digest, known);
      return known;
    };
    return (data) => referencesIn(data).every(isWhole);
  }

  /** In one statement, so that a commit or a removal meanwhile is seen whole or not at all. */
  private async countProblems(): Promise<string[]> {
    const [count] = await this.read<{ last_seq: number; removed: number; events: number }>(
      'select last_seq, removed, (select count(*) from svc_events) as events from svc_log where id = 1',
    );
    if (count === undefined) return ['The row of the log is missing.'];
    const { last_seq, removed, events } = count;
    return events + removed === last_seq
      ? []
      : [
          `The log came to the event ${last_seq}, and ${removed} were removed, but it has ${events} events.`,
        ];
  }

  private async streamProblems(): Promise<string[]> {
    const streams = await this.read<{ stream: string }>(
      `select stream from svc_events group by stream having count(*) <> max(version) limit $1`,
      [PROBLEMS_MAX],
    );
    const rows = await this.read<{ run_id: string }>(
      `select run_id from svc_runs r where not exists (select 1 from svc_events e
         where e.stream = r.run_id and e.version = 1) limit $1`,
      [PROBLEMS_MAX],
    );
    const [miscounted] = await this.read<{ texts: number }>(MISCOUNTED);
    return [
      ...((miscounted?.texts ?? 0) === 0
        ? []
        : [`The counts of ${miscounted?.texts} texts do not agree with their uses.`]),
      ...streams.map(({ stream }) => `Events of ${stream} are missing in the log.`),
      ...rows.map(({ run_id }) => `The run ${run_id} has a record, but no events.`),
    ];
  }
}

function newReferences(all: readonly string[], known: ReadonlyMap<string, unknown>): string[] {
  return [...new Set(all.flatMap(referencesIn))].filter((digest) => !known.has(digest));
}

type CheckedRow = StoredRun & {
  accepted_seq: number;
  state: string;
  last: number | null;
  [column: string]: unknown;
};

function isConsistent(
  { accepted_seq, seq, last, data, finished }: CheckedRow,
  accepted: number,
): boolean {
  const row: RunRow = fromRunData(data);
  return accepted_seq === accepted && seq === last && row.finished === finished;
}
