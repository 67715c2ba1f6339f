import type { ToolCall } from '../../../machines/tool-call.ts';
import type { RunRecord } from '../../contract/contract.ts';
import { argumentsObject, JsonMeter, parseForeignJson } from '../../json.ts';
import { jsonBudgets } from '../../limits.ts';
import type { AnswerEnd } from '../pieces.ts';
import type { PlacedPiece } from '../steady.ts';
import {
  callBlocks,
  emptyMessage,
  redactedBlock,
  signatureOf,
  stopFieldsOf,
  usageOf,
} from './answer.ts';

/**
 * The events of a streamed message, in order: the message, its blocks one after the other, the
 * reason why it ended. Only one block is open at a time.
 *
 * A model may write several tool calls at once. Then the later ones wait until the arguments of the
 * first are complete.
 */
export class MessageEvents {
  private readonly run: Pick<RunRecord, 'id'>;
  private readonly model: string;
  private readonly thoughts: boolean;
  /** Blocks that are not sent in full, in order. The first one is open if `index` counts it. */
  private readonly waiting: Block[] = [];
  private isOpen = false;
  private index = -1;
  private calls = false;
  private refused = false;
  /** The calls that svc carries out and that are sent. */
  private readonly served = new Set<number>();

  constructor(run: Pick<RunRecord, 'id'>, options: { model: string; thoughts: boolean }) {
    this.run = run;
    this.model = options.model;
    this.thoughts = options.thoughts;
  }

  start(input_tokens: number): string {
    return event('message_start', { message: emptyMessage(this.run, this.model, input_tokens) });
  }

  piece(piece: PlacedPiece): string {
    const { kind = 'text' } = piece;
    this.calls ||= kind === 'tool_call';
    this.refused ||= kind === 'refusal';
    if (kind === 'reasoning' && !this.thoughts) return '';
    let block = this.waiting.find(({ part }) => part === piece.part);
    if (block === undefined && kind === 'text' && piece.text === '' && piece.opaque) return '';
    if (block === undefined) {
      const { call, opaque } = piece;
      if (kind === 'tool_call' && opaque !== undefined) {
        const part = -1 - piece.part;
        this.waiting.push({
          part,
          kind: 'reasoning',
          call,
          opaque,
          unsent: '',
          ...createArgumentState(),
        });
      }
      block = { part: piece.part, kind, call: piece.call, unsent: '', ...createArgumentState() };
      this.waiting.push(block);
    }
    block.unsent += piece.text;
    block.opaque ??= piece.opaque;
    if (kind === 'tool_call') {
      block.whole += piece.text;
      block.json.take(Buffer.from(piece.text));
    }
    return this.flush((first) => first.kind !== 'tool_call' || isComplete(first));
  }

  /** The blocks of a call that svc carries out. What comes after it begins a new block. */
  call(run: Pick<RunRecord, 'id' | 'tools'>, call: ToolCall): string {
    const before = this.flush(() => true) + this.close();
    const blocks = callBlocks(run, call, this.served).map(({ input, ...block }) => {
      this.index += 1;
      const { index } = this;
      const begin = input === undefined ? block : { ...block, input: {} };
      const delta = { type: 'input_json_delta', partial_json: JSON.stringify(input) };
      return (
        event('content_block_start', { index, content_block: begin }) +
        (input === undefined ? '' : event('content_block_delta', { index, delta })) +
        event('content_block_stop', { index })
      );
    });
    return before + blocks.join('');
  }

  end(end: AnswerEnd): string {
    const rest = this.flush(() => true) + this.close();
    const { calls, refused } = this;
    const delta = { container: null, ...stopFieldsOf({ ...end, calls, refused }) };
    return (
      rest +
      event('message_delta', { delta, usage: usageOf(end.usage) }) +
      event('message_stop', {})
    );
  }

  /** Sends what may be sent. `isOver` says whether a block before another one is complete. */
  private flush(isOver: (block: Block) => boolean): string {
    let events = '';
    for (;;) {
      const [first] = this.waiting;
      if (first === undefined) return events;
      if (!this.isOpen) events += this.open(first);
      events += this.delta(first);
      if (this.waiting.length === 1 || !isOver(first)) return events;
      events += this.close();
    }
  }

  private open(block: Block): string {
    const { kind, call, opaque, unsent: text } = block;
    this.isOpen = true;
    this.index += 1;
    const redacted =
      kind === 'reasoning' && opaque ? redactedBlock({ text, opaque }, call?.id) : null;
    block.isRedacted = redacted !== null;
    return event('content_block_start', {
      index: this.index,
      content_block:
        kind === 'tool_call'
          ? { type: 'tool_use', ...call, input: {}, caller: { type: 'direct' } }
          : kind === 'reasoning'
            ? (redacted ?? { type: 'thinking', thinking: '', signature: '' })
            : { type: 'text', text: '' },
    });
  }

  private delta(block: Block): string {
    const { kind, unsent } = block;
    if (unsent === '' || !isSendable(block)) return '';
    block.unsent = '';
    if (kind === 'tool_call')
      return this.change({ type: 'input_json_delta', partial_json: unsent });
    return this.change(
      kind === 'reasoning'
        ? { type: 'thinking_delta', thinking: unsent }
        : { type: 'text_delta', text: unsent },
    );
  }

  private close(): string {
    const block = this.isOpen ? this.waiting.shift() : undefined;
    if (block === undefined) return '';
    this.isOpen = false;
    if (block.unsent !== '') {
      block.whole = JSON.stringify(argumentsObject(block.whole));
      block.unsent = block.whole;
    }
    const rest = this.delta(block);
    const signed =
      block.kind === 'reasoning' && !block.isRedacted
        ? this.change({ type: 'signature_delta', signature: signatureOf(this.run, block.opaque) })
        : '';
    return rest + signed + event('content_block_stop', { index: this.index });
  }

  private change(delta: object): string {
    return event('content_block_delta', { index: this.index, delta });
  }
}

interface Block {
  part: number;
  kind: string;
  call: PlacedPiece['call'];
  opaque?: PlacedPiece['opaque'];
  isRedacted?: boolean;
  unsent: string;
  /** All arguments of a call so far. */
  whole: string;
  /** Length of the arguments when they were last found incomplete. */
  looked: number;
  json: JsonMeter;
  isBroken: boolean;
}

/** One event. Its type is both the name of the event and a field of it. */
export function event(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

function createArgumentState(): Pick<Block, 'whole' | 'json' | 'looked' | 'isBroken'> {
  return { whole: '', json: new JsonMeter(jsonBudgets.foreign), looked: 0, isBroken: false };
}

/**
 * Arguments that do not begin as an object wait for their end: clients read each piece of them. An
 * object that breaks later stays as written: made readable, it would be another call.
 */
function isSendable({ kind, whole }: Block): boolean {
  return kind !== 'tool_call' || /^\s*\{\s*["}]/.test(whole);
}

/**
 * Whether the arguments of a call are whole. They are read when all that they open is closed. What
 * follows an object that cannot be read does not make it whole.
 */
function isComplete(block: Block): boolean {
  const { whole, json, looked, isBroken } = block;
  if (isBroken || !json.isClosed || looked === whole.length) return false;
  if (parseForeignJson(whole) !== undefined) return true;
  block.looked = whole.length;
  block.isBroken = json.values > 1;
  return false;
}
