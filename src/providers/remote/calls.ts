import type { CallName } from '../../../machines/messages.ts';
import type { OutputPart } from '../port.ts';
import { truncated } from './failure.ts';

type Output = Extract<OutputPart, { type: 'output' }>;

/**
 * The tool calls of one answer.
 *
 * 1. Every call has its own id. A server's id is kept, unless it is missing, taken or unusable.
 *    Then run and number of the call make an id that is always the same.
 * 2. Every character of the arguments belongs to a call. The SDK drops what it cannot assign.
 * 3. A call without arguments has the arguments `{}`.
 */
export class ToolCalls {
  private readonly run_id: string;
  /** By the id that the SDK uses. */
  private readonly calls = new Map<string, CallName & { length: number; blank: boolean }>();
  private readonly ids = new Set<string>();
  /** Ids that the server has sent. */
  private readonly sent = new Set<string>();
  private expected = 0;

  constructor(run_id: string) {
    this.run_id = run_id;
  }

  get count(): number {
    return this.calls.size;
  }

  has(sdkId: string): boolean {
    return this.calls.has(sdkId);
  }

  /** Takes what the server sent, before the SDK assigns it. */
  expect(ids: readonly string[], argumentLength: number): void {
    for (const id of ids) if (ID.test(id)) this.sent.add(id);
    this.expected += argumentLength;
  }

  begin(sdkId: string, name: string): Output {
    const id = this.newId(sdkId);
    this.ids.add(id);
    const call = { id, name: name.toWellFormed() };
    this.calls.set(sdkId, { ...call, length: 0, blank: true });
    return { type: 'output', kind: 'tool_call', text: '', token_ids: [], call };
  }

  /** The call that a piece of arguments belongs to. */
  take(sdkId: string, delta: string): CallName {
    const call = this.calls.get(sdkId);
    if (call === undefined) throw unassigned();
    call.length += delta.length;
    call.blank &&= delta.trim() === '';
    return { id: call.id, name: call.name };
  }

  /** Throws stream_truncated if a piece belongs to no call. */
  *end(): Generator<Output> {
    const taken = [...this.calls.values()].reduce((sum, { length }) => sum + length, 0);
    if (taken !== this.expected) throw unassigned();
    for (const { id, name, blank } of this.calls.values())
      if (blank)
        yield { type: 'output', kind: 'tool_call', text: '{}', token_ids: [], call: { id, name } };
  }

  private newId(sdkId: string): string {
    if (this.sent.has(sdkId) && !this.ids.has(sdkId)) return sdkId;
    const stem = `call_${this.run_id.replace(/^run_/, '')}_`;
    let number = this.calls.size + 1;
    while (this.ids.has(stem + number) || this.sent.has(stem + number)) number += 1;
    return stem + number;
  }
}

/** Ids that can be sent back in a message. */
const ID = /^[^\p{Cc}\p{Cs}]{1,256}$/u;

function unassigned() {
  return truncated('The provider sent a piece of a tool call that belongs to no call.');
}
