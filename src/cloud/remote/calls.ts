import type { CallName, Opaque } from '../../contract/messages/parts.ts';
import { JsonMeter } from '../../json.ts';
import { jsonBudgets } from '../../limits.ts';
import { garbledError, tooMuch } from './failure.ts';
import type { Pieces } from './pieces.ts';

/** A tool call of the answer. */
export interface Call extends CallName {
  /** Its arguments have no text yet. */
  isBlank: boolean;
  /** Measures them: programs behind svc parse them as a whole. */
  readonly json: JsonMeter;
}

/**
 * The tool calls of one answer.
 *
 * 1. Every call has its own id. A server's id is kept, unless it is missing, taken or unusable.
 *    Then run and number of the call make an id that is always the same.
 * 2. A call without arguments has the arguments `{}`.
 */
export class ToolCalls {
  private readonly run_id: string;
  private readonly pieces: Pieces;
  private readonly calls: Call[] = [];
  private readonly ids = new Set<string>();

  constructor(run_id: string, pieces: Pieces) {
    this.run_id = run_id;
    this.pieces = pieces;
  }

  get count(): number {
    return this.calls.length;
  }

  /**
   * `id`: as the server sends it, or empty. `opaque`: data that the server must get back with it.
   */
  begin(id: string, name: string, opaque?: Opaque): Call {
    const call = {
      ...this.named(this.pieces.removeKey(id), this.pieces.removeKey(name)),
      isBlank: true,
      json: new JsonMeter(jsonBudgets.foreign),
    };
    this.calls.push(call);
    this.pieces.begin({ id: call.id, name: call.name }, opaque);
    return call;
  }

  /** Adds data that the server must get back with the call. Throws stream_oversized. */
  addOpaque({ id, name }: Call, opaque: Opaque): void {
    this.pieces.addOpaque('tool_call', opaque, { id, name });
  }

  /** Adds a piece of the arguments. Throws stream_oversized. */
  add(call: Call, text: string): void {
    const excess = call.json.take(Buffer.from(text));
    if (excess !== null) throw tooMuch('the arguments of a call', excess);
    call.isBlank &&= text.trim() === '';
    this.pieces.add('tool_call', text, { id: call.id, name: call.name });
  }

  end(): void {
    for (const call of this.calls) if (call.isBlank) this.add(call, '{}');
  }

  private named(sent: string, name: string): CallName {
    let id = sent;
    const stem = `call_${this.run_id.replace(/^run_/, '')}_`;
    let number = this.calls.length;
    while (!ID.test(id) || this.ids.has(id)) {
      number += 1;
      id = stem + number;
    }
    this.ids.add(id);
    return { id, name: name.toWellFormed() };
  }
}

/** Ids that can be sent back in a message. */
const ID = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

export function unassignedPieceError() {
  return garbledError('The provider sent a piece of a tool call that belongs to no call.');
}
