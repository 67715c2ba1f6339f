import type { Failure } from '../../../../machines/events.ts';
import type { Target } from '../../../../machines/failover.ts';
import type { OutputPart, Piece, TokenLogprob } from '../../../../machines/messages.ts';
import { partOf, partsAfter } from '../../../../machines/messages.ts';
import type { DeadlineName, FinishReason, Usage } from '../../../../machines/run/context.ts';
import { TIMEOUT_ERROR } from '../../../../machines/run/context.ts';
import { InputReader, inputOf } from './custom-input.ts';
import {
  compactionItem,
  contentOf,
  emptied,
  type Item,
  type ItemStatus,
  itemId,
  itemOf,
  logprobOf,
  NAMES,
  placeIn,
} from './items.ts';
import {
  cutBy,
  type ResponseRequest,
  type ResponseState,
  type ResponseStatus,
  responseObject,
} from './object.ts';
import { type SentNames, sentName } from './tools.ts';

/** An event of a run, from the log. `at` is in milliseconds since the epoch. */
export interface RunLogEvent {
  readonly type: string;
  readonly at: number;
  readonly data: Readonly<Record<string, unknown>>;
}

/** An event of the Responses API, numbered. */
export type ResponseEvent = Item & { readonly type: string; readonly sequence_number: number };

/**
 * The events of one response: a fold of the events of its run, from the first.
 *
 * 1. A sequence number depends only on the events of the run up to there. So a stream that is
 *    resumed, on any boot, has the same events with the same numbers.
 * 2. Each output event of the log makes one delta at most, and opens one item at most.
 * 3. Output items are the parts of the answer, in their order. Text ends when the next part begins.
 *    Calls end with the answer, because a provider may return to an earlier call.
 * 4. A response never starts its answer again: `input.ts` asks for the recovery `resume`.
 */
export class ResponseEvents {
  /** What was asked, at the target that answers. */
  private source: ResponseRequest;
  private number = 0;
  /** The text of an answer that is only text. */
  private text = '';
  private parts: readonly OutputPart[] = [];
  /** Token probabilities of each part. */
  private readonly logprobs = new Map<number, TokenLogprob[]>();
  /** Parts that have begun. */
  private begun = 0;
  /** The input of each call of a custom tool. */
  private readonly inputs = new Map<number, InputReader>();
  /** How the items ended that have. */
  private readonly ended = new Map<number, ItemStatus>();
  /** The part whose content has not ended. Calls are not counted. */
  private open: number | null = null;
  private started = false;
  private timeout: Failure | null = null;
  private state: Omit<ResponseState, 'output'>;

  constructor(source: ResponseRequest) {
    this.source = source;
    this.state = {
      status: source.fields.background === true ? 'queued' : 'in_progress',
      usage: null,
      error: null,
      finish_reason: null,
      completed_at: null,
    };
  }

  /** The response after the events so far. */
  response(): Item {
    const output = this.items(this.isOver ? 'incomplete' : 'in_progress');
    return responseObject(this.source, { ...this.state, output });
  }

  get status(): ResponseStatus {
    return this.state.status;
  }

  get isOver(): boolean {
    return this.status !== 'queued' && this.status !== 'in_progress';
  }

  /** The number of the last event. -1: there was none. */
  get last(): number {
    return this.number - 1;
  }

  /** The response events of the next event of the run. */
  after({ type, at, data }: RunLogEvent): ResponseEvent[] {
    switch (type) {
      case 'run.accepted':
        if (data.request !== undefined) this.moveTo(data.request as Target);
        return this.accepted();
      case 'run.started':
        if (this.started) return [];
        this.started = true;
        this.state = { ...this.state, status: 'in_progress' };
        return [this.event('response.in_progress', { response: this.response() })];
      case 'run.attempt_failed':
        if (data.next !== undefined) this.moveTo(data.next as Target);
        return [];
      case 'run.output_appended':
        return this.piece(data as unknown as LoggedPiece);
      case 'run.deadline_passed':
        this.timeout = {
          code: 'run_timed_out',
          message: TIMEOUT_ERROR[data.deadline as DeadlineName] ?? '',
          retryable: true,
        };
        return [];
      case 'run.completed':
        return this.completed(at, data as unknown as Completed);
      case 'run.failed':
      case 'run.interrupted':
        return this.failed('failed', data.error as Failure);
      case 'run.timed_out':
        return this.failed('failed', this.timeout);
      case 'run.cancelled':
        return this.failed('cancelled', CANCELLED);
      default:
        return [];
    }
  }

  private moveTo({ provider, model }: Target): void {
    this.source = { ...this.source, request: { ...this.source.request, provider, model } };
  }

  private accepted(): ResponseEvent[] {
    const created = this.event('response.created', { response: this.response() });
    if (this.source.fields.background !== true) return [created];
    return [created, this.event('response.queued', { response: this.response() })];
  }

  private piece(piece: LoggedPiece): ResponseEvent[] {
    const before = this.allParts();
    // A piece without text that continues nothing says nothing: it only has tokens.
    if (piece.kind === undefined && piece.text === '' && before.length === 0) return [];
    const index = partOf(before, piece);
    this.parts = partsAfter(this.parts, this.text, piece);
    if (piece.kind === undefined) this.text += piece.text;
    if (this.source.fields.compaction === true) return [];
    const events: ResponseEvent[] = [];
    if (index >= this.begun) events.push(...this.close('completed'), ...this.begin(index));
    const logprobs = piece.logprobs ?? [];
    if (logprobs.length > 0)
      this.logprobs.set(index, [...(this.logprobs.get(index) ?? []), ...logprobs]);
    const part = this.allParts()[index];
    const reader = this.inputs.get(index);
    const delta = reader === undefined ? piece.text : reader.add(piece.text);
    if (part !== undefined && delta !== '') events.push(this.delta(part, index, delta, logprobs));
    return events;
  }

  private begin(index: number): ResponseEvent[] {
    const part = this.allParts()[index];
    if (part === undefined) return [];
    this.begun = index + 1;
    const empty = emptied(part);
    const id = itemId(this.source.run_id, part, index);
    const added = this.event('response.output_item.added', {
      output_index: index,
      item: itemOf(id, empty, 'in_progress', { names: this.names }),
    });
    if (part.type === 'tool_call') {
      const { custom } = sentName(this.names, part.name);
      if (custom === true) this.inputs.set(index, new InputReader());
      return [added];
    }
    this.open = index;
    return [added, this.onContent('added', index, contentOf(empty))];
  }

  private delta(
    part: OutputPart,
    index: number,
    delta: string,
    logprobs: readonly TokenLogprob[],
  ): ResponseEvent {
    const place = { ...this.at(part, index), ...placeIn(part), delta };
    if (part.type === 'tool_call')
      return this.event(`response.${this.callName(index)}.delta`, place);
    return part.type === 'text'
      ? this.event('response.output_text.delta', { ...place, logprobs: logprobs.map(logprobOf) })
      : this.event(`response.${NAMES[part.type]}.delta`, place);
  }

  /** Ends the content of the open part. */
  private close(status: ItemStatus): ResponseEvent[] {
    const index = this.open;
    const part = index === null ? undefined : this.allParts()[index];
    if (index === null || part === undefined || part.type === 'tool_call') return [];
    this.open = null;
    const place = { ...this.at(part, index), ...placeIn(part) };
    const logprobs = this.logprobs.get(index) ?? [];
    const done =
      part.type === 'text'
        ? { ...place, text: part.text, logprobs: logprobs.map(logprobOf) }
        : { ...place, [part.type === 'refusal' ? 'refusal' : 'text']: part.text };
    return [
      this.event(`response.${NAMES[part.type]}.done`, done),
      this.onContent('done', index, contentOf(part, logprobs)),
      this.itemDone(index, status),
    ];
  }

  private closeCalls(status: ItemStatus): ResponseEvent[] {
    return this.allParts().flatMap((part, index) => {
      if (part.type !== 'tool_call') return [];
      const { name } = sentName(this.names, part.name);
      const reader = this.inputs.get(index);
      const rest = reader?.end() ?? '';
      const whole =
        reader === undefined
          ? { name, arguments: part.arguments }
          : { input: inputOf(part.arguments) };
      return [
        ...(rest === '' ? [] : [this.delta(part, index, rest, [])]),
        this.event(`response.${this.callName(index)}.done`, { ...this.at(part, index), ...whole }),
        this.itemDone(index, status),
      ];
    });
  }

  private callName(index: number): string {
    return this.inputs.has(index) ? 'custom_tool_call_input' : 'function_call_arguments';
  }

  private completed(at: number, { finish_reason, usage }: Completed): ResponseEvent[] {
    const isCut = cutBy(finish_reason) !== null;
    const status = isCut ? 'incomplete' : 'completed';
    const events =
      this.source.fields.compaction === true
        ? this.summarised()
        : [...this.close(status), ...this.closeCalls(status)];
    this.state = { status, error: null, usage, finish_reason, completed_at: isCut ? null : at };
    return [...events, this.event(`response.${status}`, { response: this.response() })];
  }

  private summarised(): ResponseEvent[] {
    const item = compactionItem(this.source.run_id, this.allParts());
    return ['added', 'done'].map((what) =>
      this.event(`response.output_item.${what}`, { output_index: 0, item }),
    );
  }

  /** OpenAI has no event for a cancelled response: its status says it. */
  private failed(status: 'failed' | 'cancelled', error: Failure | null): ResponseEvent[] {
    this.state = { ...this.state, status, error };
    return [this.event('response.failed', { response: this.response() })];
  }

  private itemDone(output_index: number, status: ItemStatus): ResponseEvent {
    this.ended.set(output_index, status);
    const item = this.items(status)[output_index];
    return this.event('response.output_item.done', { output_index, item });
  }

  private onContent(what: 'added' | 'done', output_index: number, part: Item): ResponseEvent {
    const of = this.allParts()[output_index] as OutputPart;
    const type = of.type === 'reasoning' ? 'reasoning_summary_part' : 'content_part';
    const place = { ...this.at(of, output_index), ...placeIn(of) };
    return this.event(`response.${type}.${what}`, { ...place, part });
  }

  private at(part: OutputPart, output_index: number): Item {
    return { item_id: itemId(this.source.run_id, part, output_index), output_index };
  }

  private event(type: string, fields: Item): ResponseEvent {
    const sequence_number = this.number;
    this.number += 1;
    return { type, sequence_number, ...fields };
  }

  /** `status`: of the items that have not ended. */
  private items(status: ItemStatus): Item[] {
    const { run_id, fields } = this.source;
    if (fields.compaction === true)
      return this.state.finish_reason === null ? [] : [compactionItem(run_id, this.allParts())];
    return this.allParts().map((part, index) => {
      const id = itemId(this.source.run_id, part, index);
      const logprobs = this.logprobs.get(index) ?? [];
      return itemOf(id, part, this.ended.get(index) ?? status, { names: this.names, logprobs });
    });
  }

  private get names(): SentNames {
    return this.source.fields.names ?? {};
  }

  private allParts(): readonly OutputPart[] {
    if (this.parts.length > 0 || this.text === '') return this.parts;
    return [{ type: 'text', text: this.text }];
  }
}

interface LoggedPiece extends Piece {
  readonly logprobs?: readonly TokenLogprob[];
}
interface Completed {
  readonly finish_reason: FinishReason;
  readonly usage: Usage;
}

const CANCELLED: Failure = {
  code: 'run_cancelled',
  message: 'The response was cancelled.',
  retryable: false,
};
