import { shownTarget } from '../../../machines/failover.ts';
import { type RunSnapshot, runMachine } from '../../../machines/run/chart.ts';
import { init, statePath, step } from '../../../machines/step.ts';
import type { RunWhyRecord } from '../../contract/contract.ts';
import { clock, day } from '../../contract/event-words.ts';
import type { Target } from '../../contract/events.ts';
import { countOpaque, partsIn } from '../../contract/messages/parts.ts';
import { sentence } from '../../contract/run-events.ts';
import { streamOf } from '../../kernel/pages.ts';
import { type EventStore, type StoredEvent, toEvent } from '../../kernel/store/port.ts';
import { toRecord } from '../../runtime/runs/event-record.ts';

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

/** Consecutive outputs of one kind. */
interface Row {
  kind: string;
  pieces: number;
  characters: number;
  /** The tools that are called. */
  tools: readonly string[];
}

const NO_ROW: Row = { kind: '', pieces: 0, characters: 0, tools: [] };
/** Names in one sentence. */
const TOOLS_MAX = 8;

function did(kind: string, tools: readonly string[]): string {
  if (kind === 'tool_call')
    return `called ${tools.length === 1 ? 'the tool' : 'the tools'} ${tools.join(', ')}`;
  return { reasoning: 'reasoned', refusal: 'refused to answer' }[kind] ?? 'began answering';
}

function wordOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}

function leftOutText(count: number, target: Pick<Target, 'provider' | 'model'>): string {
  const parts = count === 1 ? '1 part' : `${count} parts`;
  return (
    `${shownTarget(target)} does not get ${parts} of the conversation, such as a signature, ` +
    'that only another provider or model can read'
  );
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
  private row: Row = NO_ROW;
  /** How many parts the present target does not get. */
  private leftOut = 0;

  add(event: StoredEvent): void {
    if (this.events.length === 0 && event.version !== 1) this.complete = false;
    if (this.complete) this.snapshot = this.next(event);
    const entry = {
      ...toRecord(event),
      state_path: this.snapshot === undefined ? '' : statePath(this.snapshot),
    };
    if (event.type === OUTPUT) this.addOutput(event, entry);
    else {
      this.endRow();
      if (event.version === 1) this.provider = this.snapshot?.context.request.provider ?? '?';
      this.events.push(entry);
      this.lines.push({ at: event.at, text: sentence(event.type, event.data, this.provider) });
      this.addLeftOut(event.at);
      // A failed attempt is of the target before it.
      this.provider = this.snapshot?.context.request.provider ?? '?';
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

  /** Reports when a target does not get the parts that only another target can read. */
  private addLeftOut(at: number): void {
    if (this.snapshot === undefined) return;
    const { request, turns } = this.snapshot.context;
    // A damaged log may have a request without messages.
    const { messages = [] } = request as Partial<typeof request>;
    const said = [...partsIn(messages), ...turns.flatMap(({ parts }) => parts)];
    const { left_out } = countOpaque(said, request);
    if (left_out > this.leftOut) this.lines.push({ at, text: leftOutText(left_out, request) });
    this.leftOut = left_out;
  }

  private addOutput(event: StoredEvent, entry: RunWhyRecord['events'][number]): void {
    const kind = wordOr(event.data.kind, 'text');
    if (kind !== this.row.kind) this.endRow();
    const { pieces } = this.row;
    if (pieces >= 2) this.events.pop();
    this.events.push(pieces >= 2 ? { ...entry, left_out: pieces - 1 } : entry);
    if (pieces === 0) this.lines.push({ at: event.at, text: '' });
    const { text, call } = event.data;
    const tool = wordOr((call as { name?: unknown } | undefined)?.name, '');
    const known = this.row.tools.includes(tool) || tool === '';
    this.row = {
      kind,
      pieces: pieces + 1,
      characters: this.row.characters + (typeof text === 'string' ? text.length : 0),
      tools: known ? this.row.tools : [...this.row.tools, tool].slice(0, TOOLS_MAX),
    };
  }

  private endRow(): void {
    const { kind, pieces, characters, tools } = this.row;
    this.row = NO_ROW;
    const line = this.lines.at(-1);
    const last = this.events.at(-1);
    if (pieces === 0 || line === undefined || last === undefined) return;
    const act = `the provider ${this.provider} ${did(kind, tools)}`;
    const attempt = `(attempt ${String(last.data.attempt)})`;
    const count = pieces === 1 ? 'one piece, at' : `${pieces} pieces, the last at`;
    const at = clock(Date.parse(last.at));
    line.text = `${act} ${attempt}: ${characters} characters in ${count} ${at}`;
  }
}
