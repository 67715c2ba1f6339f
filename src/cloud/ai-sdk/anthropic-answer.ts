import { REDACTED } from '../../contract/messages/parts.ts';
import { asRecord, isRecord } from '../../json.ts';
import { type Call, unassignedPieceError } from '../remote/calls.ts';
import {
  argumentsOf,
  EventAnswer,
  type Fields,
  isSet,
  listOf,
  restOf,
} from '../remote/event-answer.ts';
import { reasonOf, sum, usageOf } from '../remote/finish.ts';

/** A call that has begun. `before`: the arguments of its first event. */
interface Begun {
  call: Call | null;
  before: string;
  came: string;
}

/**
 * Reads the events of Anthropic's messages, or a whole message.
 *
 * 1. The content in the first event of a block belongs to the answer: text and thinking at once.
 *    The arguments of a call wait for the end of the block, because some servers send them twice.
 * 2. Other blocks are work of the server. They are left out with their deltas.
 */
export class AnthropicAnswer extends EventAnswer {
  /** By their index. Null: a block that is not a call. */
  private readonly blocks = new Map<unknown, Begun | null>();

  document(value: unknown): boolean {
    const { content, stop_reason, stop_sequence, usage } = asRecord(value);
    if (!Array.isArray(content)) return false;
    this.takeBlocks(content);
    this.read({ type: 'message_delta', delta: { stop_reason, stop_sequence }, usage });
    return true;
  }

  override end(): void {
    this.closeAll();
    super.end();
  }

  protected event({ type, index, message, content_block, delta, usage, ...rest }: Fields): void {
    if (type === 'message_start') {
      const { content, usage: counts } = asRecord(message);
      this.takeBlocks(listOf(content));
      this.count(counts);
    } else if (type === 'content_block_start') this.begin(index, asRecord(content_block));
    else if (type === 'content_block_delta') this.takeDelta(index, asRecord(delta));
    else if (type === 'content_block_stop') this.close(index);
    else if (type === 'message_delta') {
      this.closeAll();
      const { stop_reason: reason, stop_sequence: stop } = asRecord(delta);
      if (typeof reason === 'string' && reason !== '') this.reason = reason;
      if (typeof stop === 'string' && this.context.request.stop?.includes(stop)) this.stop = stop;
      this.count(usage);
    } else if (type === 'message_stop') this.markEnd();
    else if (!isSet(type)) this.foreignEvent({ ...rest, message, content_block, delta });
  }

  protected reasonOf(raw: string) {
    if (raw === 'refusal') return 'content_filter';
    return raw === 'pause_turn' ? 'stop' : reasonOf(raw);
  }

  protected readUsage() {
    const usage = asRecord(this.usage);
    const {
      input_tokens,
      cache_creation_input_tokens: written,
      cache_read_input_tokens: cached,
    } = usage;
    return usageOf({
      input: isSet(input_tokens) ? sum(input_tokens, written, cached) : undefined,
      output: usage.output_tokens,
      cached,
      written,
      reasoning: asRecord(usage.output_tokens_details).thinking_tokens,
    });
  }

  private count(usage: unknown): void {
    if (!isRecord(usage)) return;
    // A 0 replaces no number.
    const reported = Object.entries(usage).filter(([, value]) => isSet(value));
    const counted = reported.filter(([, value]) => value !== 0);
    const before = asRecord(this.usage);
    this.usage = { ...Object.fromEntries(reported), ...before, ...Object.fromEntries(counted) };
  }

  private takeBlocks(blocks: readonly unknown[]): void {
    for (const [index, block] of blocks.entries()) {
      this.begin(index, asRecord(block));
      this.close(index);
    }
  }

  private begin(index: unknown, block: Fields): void {
    const { type, id, name, input, text, thinking, signature, data } = block;
    this.close(index);
    this.text('text', text);
    this.text('reasoning', thinking);
    if (type === 'thinking') this.opaque('reasoning', 'signature', signature);
    if (type === 'redacted_thinking') this.opaque('reasoning', REDACTED, data);
    const call = { before: argumentsOf(input), came: '' };
    this.blocks.set(
      index,
      type === 'tool_use' ? { call: this.beginCall(id, name), ...call } : null,
    );
  }

  private takeDelta(index: unknown, { text, thinking, signature, partial_json }: Fields): void {
    this.text('text', text);
    this.text('reasoning', thinking);
    this.opaque('reasoning', 'signature', signature);
    const piece = argumentsOf(partial_json);
    if (piece === '') return;
    const begun = this.blocks.get(index);
    if (begun === undefined) throw unassignedPieceError();
    if (begun === null) return;
    this.callText(begun.call, piece);
    if (begun.before !== '') begun.came += piece;
  }

  private close(index: unknown): void {
    const begun = this.blocks.get(index);
    if (begun) this.callText(begun.call, restOf(begun.came, begun.before));
    this.blocks.delete(index);
  }

  private closeAll(): void {
    for (const index of [...this.blocks.keys()]) this.close(index);
  }
}
