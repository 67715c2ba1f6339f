import { ITEM } from '../../contract/messages/parts.ts';
import { asRecord } from '../../json.ts';
import type { Call } from '../remote/calls.ts';
import {
  argumentsOf,
  EventAnswer,
  type Fields,
  isSet,
  listOf,
  restOf,
  unreadableError,
} from '../remote/event-answer.ts';
import { reasonOf, usageOf } from '../remote/finish.ts';

/** One item of the answer, with what has come of it. */
interface Item {
  text: string;
  refusal: string;
  reasoning: string;
  /** Undefined: it is not a call. Null: its arguments are the text of the answer. */
  call?: Call | null;
  arguments: string;
  /** Arguments of its first event. Some servers send them again. */
  before: string;
  /** Whether the whole item is kept, to be sent back. */
  isKept: boolean;
}

type TextKind = 'text' | 'refusal' | 'reasoning';

/**
 * Reads the events of OpenAI's Responses API, or a whole response. Each item comes up to three
 * times: in pieces, whole when it is done, and in the whole response. Missing content is taken from
 * the next form of the item.
 */
export class ResponsesAnswer extends EventAnswer {
  private readonly items = new Map<unknown, Item>();
  /** Numbers of items, by their ids. */
  private readonly numbers = new Map<unknown, unknown>();

  document(value: unknown): boolean {
    const { output, status } = asRecord(value);
    if (!Array.isArray(output)) return false;
    this.read({ type: `response.${status ?? 'completed'}`, response: value });
    return true;
  }

  protected event(event: Fields): void {
    const { type, delta, text, item, response } = event;
    switch (type) {
      case 'response.output_item.added':
      case 'response.output_item.done':
        this.takeItem(this.itemOf(event), asRecord(item), type === 'response.output_item.done');
        break;
      case 'response.output_text.delta':
        this.tell(this.itemOf(event), 'text', delta);
        break;
      case 'response.output_text.done':
        if (this.itemOf(event).text === '') this.tell(this.itemOf(event), 'text', text);
        break;
      case 'response.refusal.delta':
        this.tell(this.itemOf(event), 'refusal', delta);
        break;
      case 'response.reasoning_text.delta':
      case 'response.reasoning_summary_text.delta':
        this.tell(this.itemOf(event), 'reasoning', delta);
        break;
      case 'response.function_call_arguments.delta':
        this.addArguments(this.itemOf(event), argumentsOf(delta));
        break;
      case 'response.completed':
      case 'response.incomplete':
        this.complete(asRecord(response), type);
        break;
      case 'response.failed':
      case 'response.cancelled':
        throw this.reportedFailure(asRecord(response).error ?? { message: type });
      case 'error':
        throw this.reportedFailure(event);
      default:
        if (!isSet(type)) this.foreignEvent(event);
    }
  }

  protected reasonOf(raw: string) {
    return raw === 'max_output_tokens' ? 'length' : reasonOf(raw);
  }

  protected readUsage() {
    const usage = asRecord(this.usage);
    return usageOf({
      input: usage.input_tokens,
      output: usage.output_tokens,
      cached: asRecord(usage.input_tokens_details).cached_tokens,
      reasoning: asRecord(usage.output_tokens_details).reasoning_tokens,
    });
  }

  private complete(response: Fields, type: string): void {
    const { output, usage, error, incomplete_details } = response;
    if (isSet(error)) throw this.reportedFailure(error);
    for (const [index, item] of listOf(output).entries())
      this.takeItem(this.itemOf({ output_index: index }), asRecord(item), true);
    for (const item of this.items.values())
      this.addArguments(item, restOf(item.arguments, item.before));
    if (isSet(usage)) this.usage = usage;
    const { reason } = asRecord(incomplete_details);
    this.reason =
      typeof reason === 'string' ? reason : type === 'response.completed' ? 'stop' : type;
    this.markEnd();
  }

  /** Some servers leave out the number, and others change the id. */
  private itemOf({ output_index, item_id, item }: Fields): Item {
    const id = item_id ?? asRecord(item).id;
    const key = output_index ?? this.numbers.get(id) ?? id;
    if (isSet(id)) this.numbers.set(id, key);
    const known = this.items.get(key);
    if (known !== undefined) return known;
    const made = { text: '', refusal: '', reasoning: '', arguments: '', before: '', isKept: false };
    this.items.set(key, made);
    return made;
  }

  private takeItem(item: Item, value: Fields, isDone: boolean): void {
    const { type, call_id, name, content, summary } = value;
    const parts = listOf(content).map(asRecord);
    if (type === 'function_call') {
      if (item.call === undefined) item.call = this.beginCall(call_id, name);
      const all = argumentsOf(value.arguments);
      if (!isDone) item.before = all;
      else if (all !== '') this.addArguments(item, restOf(item.arguments, all));
    } else if (type === 'message') {
      const refusals = parts.map(({ refusal }) => (typeof refusal === 'string' ? refusal : ''));
      this.tell(item, 'text', restOf(item.text, textsOf(parts)));
      this.tell(item, 'refusal', restOf(item.refusal, refusals.join('')));
    } else if (type === 'reasoning') {
      if (item.reasoning === '')
        this.tell(item, 'reasoning', textsOf(parts) || textsOf(listOf(summary).map(asRecord)));
      if (isDone && !item.isKept) this.keep(item, value);
    }
  }

  /** Reasoning that only the server can read is sent back unchanged. */
  private keep(item: Item, { status: _, ...value }: Fields): void {
    if (typeof value.encrypted_content !== 'string' || value.encrypted_content === '') return;
    item.isKept = true;
    this.opaque('reasoning', ITEM, JSON.stringify(value));
  }

  private tell(item: Item, kind: TextKind, text: unknown): void {
    if (typeof text !== 'string') throw unreadableError();
    this.text(kind, text);
    item[kind] += text;
  }

  private addArguments(item: Item, text: string): void {
    if (text === '') return;
    if (item.call === undefined) throw unreadableError();
    this.callText(item.call, text);
    item.arguments += text;
  }
}

function textsOf(parts: readonly Fields[]): string {
  return parts.map(({ text }) => (typeof text === 'string' ? text : '')).join('');
}
