import type { Failure } from '../../../../machines/events.ts';
import type { DeadlineName, Usage } from '../../../../machines/run/context.ts';
import { timeoutError } from '../../../../machines/run/context.ts';
import { hasEnded, type ToolCall } from '../../../../machines/tool-call.ts';
import type { Completion, Target } from '../../../contract/events.ts';
import type { OutputPart, RunOutput, TokenLogprob } from '../../../contract/messages/parts.ts';
import { partOf, partsAfter } from '../../../contract/messages/parts.ts';
import { isShown, type RunLogEvent, ServedCalls } from '../../served-calls.ts';
import { sumOf } from '../parts.ts';
import { InputReader, inputOf } from './custom-input.ts';
import {
  at,
  compactionItem,
  contentOf,
  type Item,
  type ItemStatus,
  isHidden,
  isThought,
  itemId,
  itemOf,
  itemsBefore,
  logprobOf,
  NAMES,
  textIndexOf,
  withoutContent,
} from './items.ts';
import {
  CANCELLED,
  endingOf,
  GOES_ON,
  type ResponseRequest,
  type ResponseState,
  type ResponseStatus,
  responseObject,
  subtractUsage,
} from './object.ts';
import { answerItem, approvalItem, callItem, endOf, listItems } from './served-items.ts';
import { type SentNames, sentName } from './tools.ts';

/** An event of the Responses API, numbered. */
export type ResponseEvent = Item & { readonly type: string; readonly sequence_number: number };

/** A part of the answer as an item. */
interface Shown {
  readonly id: string;
  readonly output_index: number;
  part: OutputPart;
  readonly logprobs: TokenLogprob[];
  /** Reads the input of a call of a custom tool. */
  readonly reader: InputReader | null;
  /** How it ended. Null: it has not. */
  ended: ItemStatus | null;
}

/**
 * The events of one response: a fold of the events of its run, from the first.
 *
 * 1. A sequence number depends only on the events of the run up to there. So a stream that is
 *    resumed, on any boot, has the same events with the same numbers.
 * 2. Each output event of the log makes one delta at most, and opens one item at most. An item
 *    with what its provider must get back may come before that of a call.
 * 3. Output items are the parts of the answer, in their order. Text ends when the next part begins.
 *    Calls end with the answer, because a provider may return to an earlier call.
 * 4. A response never starts its answer again: `input.ts` asks for the recovery `resume`.
 * 5. A call that svc carries out is an item once it begins. A response ends when its run only waits
 *    for approvals. The next response of the run has what follows.
 */
export class ResponseEvents {
  /** The request, with the target that answers. */
  source: ResponseRequest;
  /** The version of the last event of the run. */
  version = 0;
  /** Responses of the run before this one that have not ended. */
  private before: number;
  private number = 0;
  /** The text of a turn of the model that is only text. */
  private text = '';
  private parts: readonly OutputPart[] = [];
  /** Parts of earlier turns. */
  private earlier = 0;
  /** The items of the parts of this turn. */
  private readonly shown = new Map<number, Shown>();
  /** The part whose content has not ended. Calls are not counted. */
  private open: Shown | null = null;
  /** Makes each output item. `status`: the status of an item that has not ended. */
  private output: ((status: ItemStatus) => Item)[] = [];
  readonly served = new ServedCalls();
  /** Items of the earlier responses of the run. Null: there are no earlier responses. */
  private said: Item[] | null = null;
  /** The decisions on the approvals that the previous response asked for. */
  answers: Item[] = [];
  /** The output index of each call that svc carries out. */
  private readonly places = new Map<number, number>();
  /** The usage of each turn of the run, and how many turns were before this response. */
  private readonly usages: Usage[] = [];
  private used = 0;
  private started = false;
  private timeout: Failure | null = null;
  private state: Omit<ResponseState, 'output'>;

  constructor(source: ResponseRequest) {
    this.source = source;
    this.before = source.part;
    const isQueued = source.fields.background === true && source.part === 0;
    this.state = { ...GOES_ON, status: isQueued ? 'queued' : 'in_progress' };
  }

  /** Begins the response that follows the one that just asked for approvals. */
  beginNext(): void {
    this.before = 0;
    this.source = { ...this.source, part: this.served.asked.length };
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

  /** The number of the last event. -1: before the first event. */
  get last(): number {
    return this.before > 0 ? -1 : this.number - 1;
  }

  get isComplete(): boolean {
    return this.status === 'completed' || this.status === 'incomplete';
  }

  /**
   * The items of the complete responses of the run, with the decisions between them. Null: no
   * response is complete.
   */
  get conversation(): Item[] | null {
    if (!this.isComplete && this.said === null) return null;
    const last = this.isComplete ? this.items('completed') : [];
    return [...(this.said ?? []), ...this.answers, ...last];
  }

  /** The response events of the next event of the run. */
  after(event: RunLogEvent): ResponseEvent[] {
    if (this.isOver) return [];
    const isOfThis = this.before === 0;
    const begins = isOfThis && this.number === 0 && this.source.part > 0;
    if (begins && event.type === 'run.recovered') return [];
    const { asked } = this.served;
    const pauses = asked.length;
    const changed = this.served.after(event);
    if (event.type === 'run.tool_allowed' || event.type === 'run.tool_denied')
      for (const call of changed)
        if (asked.at(-1)?.some((one) => one.call === call.call))
          this.answers.push(answerItem(this.source, call));
    const events = [
      ...(begins ? this.continueResponse(event.at) : []),
      ...changed.flatMap((call) => this.updateCall(call)),
      ...this.handleOwnEvent(event),
      ...(asked.length > pauses ? this.pauseForApprovals(event.at, asked.at(-1) ?? []) : []),
    ];
    return isOfThis ? events : [];
  }

  private handleOwnEvent({ type, at, data }: RunLogEvent): ResponseEvent[] {
    switch (type) {
      case 'run.accepted':
        if (data.request !== undefined) this.moveTo(data.request as Target);
        return this.makeEvents('created', ...(this.source.fields.background ? ['queued'] : []));
      case 'run.started':
        if (this.started) return [];
        this.started = true;
        this.state = { ...this.state, status: 'in_progress' };
        return [...this.makeEvents('in_progress'), ...this.listServerTools()];
      case 'run.attempt_failed':
        if (data.next !== undefined) this.moveTo(data.next as Target);
        return [];
      case 'run.output_appended':
        return this.piece(data as unknown as RunOutput);
      case 'run.turn_completed':
        return this.endTurn(data.usage as Usage);
      case 'run.deadline_passed':
        this.timeout = timeoutError(data.deadline as DeadlineName);
        return [];
      case 'run.completed':
        return this.completeResponse(at, data as unknown as Completion);
      case 'run.failed':
      case 'run.interrupted':
        return this.failResponse('failed', data.error as Failure);
      case 'run.timed_out':
        return this.failResponse('failed', this.timeout);
      case 'run.cancelled':
        return this.failResponse('cancelled', CANCELLED);
      default:
        return [];
    }
  }

  private moveTo({ provider, model }: Target): void {
    this.source = { ...this.source, request: { ...this.source.request, provider, model } };
  }

  /** The events that have the whole response. */
  private makeEvents(...types: string[]): ResponseEvent[] {
    return types.map((type) => this.event(`response.${type}`, { response: this.response() }));
  }

  /** A response that continues the run of the previous one. */
  private continueResponse(at: number): ResponseEvent[] {
    this.source = { ...this.source, created_at: at };
    return this.makeEvents('created', 'in_progress');
  }

  private listServerTools(): ResponseEvent[] {
    const toEvents = (item: Item) =>
      this.addWholeItem(item, { ...item, tools: [] }, 'mcp_list_tools');
    return listItems(this.source).flatMap(toEvents);
  }

  /** The events of an item that is whole at once. `of`: the name of its events. */
  private addWholeItem(item: Item, first: Item = item, of?: string): ResponseEvent[] {
    const output_index = this.output.push(() => item) - 1;
    const place = { item_id: item.id, output_index };
    return [
      this.event('response.output_item.added', { output_index, item: first }),
      ...(of === undefined
        ? []
        : ['in_progress', 'completed'].map((what) => this.event(`response.${of}.${what}`, place))),
      this.event('response.output_item.done', { output_index, item }),
    ];
  }

  /** The events of a call that svc carries out, after it has changed. */
  private updateCall(call: ToolCall): ResponseEvent[] {
    if (!isShown(call)) return [];
    const item = callItem(this.source, call);
    const known = this.places.get(call.call);
    const make = () => callItem(this.source, this.served.all[call.call - 1] ?? call);
    const output_index = known ?? this.output.push(make) - 1;
    this.places.set(call.call, output_index);
    const place = { item_id: item.id, output_index };
    const begun = { ...item, arguments: '', output: null, error: null, status: 'in_progress' };
    const { arguments: written } = call;
    const events =
      known !== undefined
        ? []
        : [
            this.event('response.output_item.added', { output_index, item: begun }),
            this.event('response.mcp_call.in_progress', place),
            ...(written === ''
              ? []
              : [this.event('response.mcp_call_arguments.delta', { ...place, delta: written })]),
            this.event('response.mcp_call_arguments.done', { ...place, arguments: written }),
          ];
    if (!hasEnded(call)) return events;
    return [
      ...events,
      this.event(`response.mcp_call.${endOf(call)}`, place),
      this.event('response.output_item.done', { output_index, item }),
    ];
  }

  /** The run does nothing but wait for these approvals. */
  private pauseForApprovals(at: number, asked: readonly ToolCall[]): ResponseEvent[] {
    const requests = asked.flatMap((call) => this.addWholeItem(approvalItem(this.source, call)));
    const usage = sumOf(this.usages.slice(this.used));
    const ended = { status: 'completed', finish_reason: 'tool_calls', completed_at: at } as const;
    this.state = { ...this.state, ...ended, usage };
    const completed = this.makeEvents('completed');
    if (this.before === 0) return [...requests, ...completed];
    this.said = this.conversation;
    this.answers = [];
    this.before -= 1;
    this.state = GOES_ON;
    this.number = 0;
    this.output = [];
    this.used = this.usages.length;
    return [];
  }

  private piece(piece: RunOutput): ResponseEvent[] {
    const before = this.allParts();
    // A piece without text that continues nothing has only tokens.
    if (piece.text === '' && !(piece.call ?? piece.opaque) && before.length === 0) return [];
    const index = partOf(before, piece);
    this.parts = partsAfter(this.parts, this.text, piece);
    if (piece.kind === undefined) this.text += piece.text;
    if (this.source.fields.compaction === true || piece.call?.server !== undefined) return [];
    const part = this.allParts()[index];
    if (part === undefined || isHidden(part)) return [];
    const isNew = !this.shown.has(index);
    const events = isNew ? [...this.close('completed'), ...this.begin(index, part)] : [];
    const shown = this.shown.get(index);
    if (shown === undefined) return events;
    shown.part = part;
    const logprobs = piece.logprobs ?? [];
    shown.logprobs.push(...logprobs);
    const delta = shown.reader === null ? piece.text : shown.reader.add(piece.text);
    if (delta !== '') events.push(this.delta(shown, delta, logprobs));
    return events;
  }

  private begin(index: number, part: OutputPart): ResponseEvent[] {
    const of = [this.source.run_id, part, this.earlier + index] as const;
    const before = itemsBefore(...of).flatMap((each) => this.addWholeItem(each));
    const isCustom = part.type === 'tool_call' && sentName(this.names, part.name).custom === true;
    const shown: Shown = {
      id: itemId(...of),
      output_index: this.output.length,
      part: withoutContent(part),
      logprobs: [],
      reader: isCustom ? new InputReader() : null,
      ended: null,
    };
    const make = (status: ItemStatus) =>
      itemOf(shown.id, shown.part, shown.ended ?? status, { ...shown, names: this.names });
    this.shown.set(index, shown);
    this.output.push(make);
    const { output_index } = shown;
    const item = make('in_progress');
    const added = this.event('response.output_item.added', { output_index, item });
    if (part.type === 'tool_call') return [...before, added];
    this.open = shown;
    return isThought(part) ? [added] : [added, this.onContent('added', shown)];
  }

  private delta(shown: Shown, delta: string, logprobs: readonly TokenLogprob[]): ResponseEvent {
    const { part } = shown;
    const place = { ...at(shown), ...textIndexOf(part), delta };
    if (part.type === 'tool_call') return this.event(`response.${callName(shown)}.delta`, place);
    return part.type === 'text'
      ? this.event('response.output_text.delta', { ...place, logprobs: logprobs.map(logprobOf) })
      : this.event(`response.${NAMES[part.type]}.delta`, place);
  }

  /** Ends the content of the open part. */
  private close(status: ItemStatus): ResponseEvent[] {
    const shown = this.open;
    if (shown === null || shown.part.type === 'tool_call') return [];
    this.open = null;
    const { part, logprobs } = shown;
    if (isThought(part)) return [this.itemDone(shown, status)];
    const place = { ...at(shown), ...textIndexOf(part) };
    const done =
      part.type === 'text'
        ? { ...place, text: part.text, logprobs: logprobs.map(logprobOf) }
        : { ...place, [part.type === 'refusal' ? 'refusal' : 'text']: part.text };
    return [
      this.event(`response.${NAMES[part.type]}.done`, done),
      this.onContent('done', shown),
      this.itemDone(shown, status),
    ];
  }

  private closeCalls(status: ItemStatus): ResponseEvent[] {
    return [...this.shown.values()].flatMap((shown) => {
      const { part, reader } = shown;
      if (part.type !== 'tool_call') return [];
      const { name } = sentName(this.names, part.name);
      const rest = reader?.end() ?? '';
      const whole =
        reader === null ? { name, arguments: part.arguments } : { input: inputOf(part.arguments) };
      return [
        ...(rest === '' ? [] : [this.delta(shown, rest, [])]),
        this.event(`response.${callName(shown)}.done`, { ...at(shown), ...whole }),
        this.itemDone(shown, status),
      ];
    });
  }

  /** The model has called tools of servers, and is called again later. */
  private endTurn(usage: Usage): ResponseEvent[] {
    const events = this.close('completed');
    this.usages.push(usage);
    this.earlier += this.allParts().length;
    this.shown.clear();
    this.parts = [];
    this.text = '';
    return events;
  }

  private completeResponse(at: number, end: Completion): ResponseEvent[] {
    const { finish_reason, usage } = end;
    const { status, error } = endingOf(end, this.source.request);
    const shown = status === 'completed' ? status : 'incomplete';
    const events =
      this.source.fields.compaction === true
        ? this.addSummary()
        : [...this.close(shown), ...this.closeCalls(shown)];
    const own = subtractUsage(usage, sumOf(this.usages.slice(0, this.used)));
    const completed_at = status === 'completed' ? at : null;
    this.state = { status, error, usage: own, finish_reason, completed_at };
    return [...events, ...this.makeEvents(status)];
  }

  private addSummary(): ResponseEvent[] {
    const fields = { output_index: 0, item: compactionItem(this.source.run_id, this.allParts()) };
    return ['added', 'done'].map((what) => this.event(`response.output_item.${what}`, fields));
  }

  /** OpenAI has no event for a cancelled response: its status says it. */
  private failResponse(status: 'failed' | 'cancelled', error: Failure | null): ResponseEvent[] {
    this.state = { ...this.state, status, error };
    return this.makeEvents('failed');
  }

  private itemDone(shown: Shown, status: ItemStatus): ResponseEvent {
    shown.ended = status;
    const item = this.output[shown.output_index]?.(status);
    return this.event('response.output_item.done', { output_index: shown.output_index, item });
  }

  private onContent(what: 'added' | 'done', shown: Shown): ResponseEvent {
    const { part: of, logprobs } = shown;
    const type = of.type === 'reasoning' ? 'reasoning_summary_part' : 'content_part';
    const part = contentOf(of, what === 'done' ? logprobs : []);
    return this.event(`response.${type}.${what}`, { ...at(shown), ...textIndexOf(of), part });
  }

  private event(type: string, fields: Item): ResponseEvent {
    this.number += 1;
    return { type, sequence_number: this.number - 1, ...fields };
  }

  /** `status`: of the items that have not ended. */
  private items(status: ItemStatus): Item[] {
    const { run_id, fields } = this.source;
    if (fields.compaction === true)
      return this.state.finish_reason === null ? [] : [compactionItem(run_id, this.allParts())];
    return this.output.map((make) => make(status));
  }

  private get names(): SentNames {
    return this.source.fields.names ?? {};
  }

  private allParts(): readonly OutputPart[] {
    if (this.parts.length > 0 || this.text === '') return this.parts;
    return [{ type: 'text', text: this.text }];
  }
}

function callName({ reader }: Shown): string {
  return reader === null ? 'function_call_arguments' : 'custom_tool_call_input';
}
