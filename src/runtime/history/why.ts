import type { RunSnapshot } from '../../../machines/run.ts';
import { runMachine } from '../../../machines/run.ts';
import { init, statePath, step } from '../../../machines/step.ts';
import { toRecord } from '../../kernel/event-record.ts';
import { streamOf } from '../../kernel/pages.ts';
import { type EventStore, type StoredEvent, toEvent } from '../../store/port.ts';
import type { RunWhyRecord } from '../contract.ts';
import { clock, day, sentence } from './sentences.ts';

const OUTPUT = 'run.output_appended';

/** Explains a run from its stream. Null when the log has no event of it. */
export async function whyRun(
  store: Pick<EventStore, 'readStream'>,
  run_id: string,
): Promise<RunWhyRecord | null> {
  const chain = new Chain();
  for await (const event of streamOf(store, run_id)) chain.add(event);
  return chain.events.length === 0
    ? null
    : { run_id, events: chain.events, explanation: chain.explanation(), complete: chain.complete };
}

/** A run's events, folded in order. Of consecutive outputs it keeps the first and the last. */
export class Chain {
  readonly events: RunWhyRecord['events'] = [];
  /**
   * The state after the last event. Undefined before the first event, or without the beginning.
   */
  snapshot: RunSnapshot | undefined;
  complete = true;
  private readonly lines: { at: number; text: string }[] = [];
  private provider = '?';
  private row = { pieces: 0, characters: 0 };

  add(event: StoredEvent): void {
    if (this.events.length === 0 && event.version !== 1) this.complete = false;
    if (this.complete) this.snapshot = this.next(event);
    if (event.version === 1) this.provider = this.snapshot?.context.request.provider ?? '?';
    const entry = {
      ...toRecord(event),
      state_path: this.snapshot === undefined ? '' : statePath(this.snapshot),
    };
    if (event.type === OUTPUT) this.addOutput(event, entry);
    else {
      this.endRow();
      this.events.push(entry);
      this.lines.push({ at: event.at, text: sentence(event.type, event.data, this.provider) });
    }
  }

  /**
   * One sentence for each event, and for consecutive outputs. A line names the day when it changes.
   */
  explanation(): string[] {
    this.endRow();
    let today = '';
    return this.lines.map(({ at, text }) => {
      const date = day(at) === today ? '' : `${day(at)} `;
      today = day(at);
      return `${date}${clock(at)} ${text}`;
    });
  }

  private next(stored: StoredEvent): RunSnapshot {
    const event = toEvent(stored);
    return this.snapshot === undefined
      ? (init(runMachine, event).snapshot as RunSnapshot)
      : step(runMachine, this.snapshot, event).snapshot;
  }

  private addOutput(event: StoredEvent, entry: RunWhyRecord['events'][number]): void {
    const { pieces } = this.row;
    if (pieces >= 2) this.events.pop();
    this.events.push(pieces >= 2 ? { ...entry, left_out: pieces - 1 } : entry);
    if (pieces === 0) this.lines.push({ at: event.at, text: '' });
    const { text } = event.data;
    this.row = {
      pieces: pieces + 1,
      characters: this.row.characters + (typeof text === 'string' ? text.length : 0),
    };
  }

  private endRow(): void {
    const { pieces, characters } = this.row;
    this.row = { pieces: 0, characters: 0 };
    const line = this.lines.at(-1);
    const last = this.events.at(-1);
    if (pieces === 0 || line === undefined || last === undefined) return;
    line.text = `the provider ${this.provider} began answering (attempt ${String(last.data.attempt)}): ${characters} characters in ${pieces === 1 ? 'one piece, at' : `${pieces} pieces, the last at`} ${clock(Date.parse(last.at))}`;
  }
}
