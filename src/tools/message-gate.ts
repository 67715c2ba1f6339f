import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/client';
import { Allowance } from '../async/allowance.ts';
import { asRecord, excessOf, isRecord } from '../json.ts';
import { jsonBudgets, type Limits } from '../limits.ts';

/** A tool server exceeds a bound. The message says which. */
export class Excess extends Error {}

export type GateLimits = Pick<
  Limits,
  'mcp_message_bytes' | 'mcp_stream_bytes' | 'mcp_requests' | 'mcp_notices'
>;

/** What an answer is to. */
interface Asked {
  id: RequestId;
  method: string;
}

/**
 * All messages of one tool server pass here, over each transport. No other part of svc sees them
 * earlier, nor does the official client.
 *
 * 1. A message has bounds of bytes, values and levels, which are judged before it is parsed.
 * 2. Unrequested messages have bounds in number and rate, and in bytes between two answers.
 * 3. An answer is one to a request of svc that still waits. Any other is left out, and counts as
 *    unrequested.
 * 4. A message that passes has the form that the official client takes. A field that is null is
 *    absent. The content of a result stays unchanged.
 */
export class MessageGate {
  private readonly limits: GateLimits;
  private readonly now: () => number;
  private readonly asked = new Map<string, Asked>();
  private readonly requests = new Allowance();
  private readonly notices = new Allowance();
  private bytes = 0;

  constructor(limits: GateLimits, now: () => number = () => performance.now()) {
    this.limits = limits;
    this.now = now;
  }

  /** Notes a message of svc. */
  note(message: JSONRPCMessage): void {
    if (!('method' in message)) return;
    const { method, params } = message;
    if ('id' in message) this.asked.set(String(message.id), { id: message.id, method });
    // No one waits for an answer that comes later.
    else if (method === 'notifications/cancelled') this.drop(asRecord(params).requestId);
  }

  /** The answer to a request is not waited for any more. */
  drop(id: unknown): void {
    this.asked.delete(String(id));
  }

  /** Whether a request of svc waits for its answer. */
  isOpen(id: RequestId): boolean {
    return this.asked.has(String(id));
  }

  /** Counts bytes as they come. `waiting`: those of a message that has not ended. Throws Excess. */
  count(bytes: number, waiting = 0): void {
    const { mcp_message_bytes, mcp_stream_bytes } = this.limits;
    this.bytes += bytes;
    if (waiting > mcp_message_bytes)
      throw new Excess(`a message has more than ${mcp_message_bytes} bytes`);
    if (this.bytes > mcp_stream_bytes)
      throw new Excess(`it sends without an end: more than ${mcp_stream_bytes} bytes, no answer`);
  }

  /** Counts something that the server sent unasked. Throws Excess. */
  countUnasked(): void {
    const { mcp_notices } = this.limits;
    if (this.notices.take(this.now(), NOTICE_MS, mcp_notices * NOTICE_MS) > 0)
      throw new Excess(`it sent more than ${mcp_notices} messages at once that no one asked for`);
  }

  /**
   * The messages in a text of JSON. Null: it is not JSON. `only`: the request that nothing but this
   * text answers, so an error without an id is meant for it. Throws Excess.
   */
  read(json: Uint8Array, only?: RequestId): JSONRPCMessage[] | null {
    const value = this.parse(json);
    if (value === undefined) return null;
    // A list is a batch, as version 2025-03-26 has it.
    return (Array.isArray(value) ? value : [value]).flatMap((one) => this.take(one, only) ?? []);
  }

  /** Undefined: it is not JSON. */
  private parse(json: Uint8Array): unknown {
    const { mcp_message_bytes: most } = this.limits;
    if (json.length > most) throw new Excess(`a message has more than ${most} bytes`);
    const excess = excessOf(json, jsonBudgets.tool_message);
    if (excess !== null) throw new Excess(`a message has ${excess.message}`);
    try {
      // Without a byte order mark, and with U+FFFD where it is not UTF-8.
      return JSON.parse(new TextDecoder().decode(json));
    } catch {
      return undefined;
    }
  }

  private take(value: unknown, only: RequestId | undefined): JSONRPCMessage | null {
    const message = asRecord(value);
    const { id, method } = message;
    if (typeof method !== 'string') return this.answer(message, only);
    const params = isRecord(message.params) ? { params: withoutNulls(message.params) } : {};
    if (isId(id)) {
      this.countRequest();
      return { jsonrpc: '2.0', id, method, ...params };
    }
    this.countUnasked();
    return { jsonrpc: '2.0', method, ...params };
  }

  private answer(message: Record<string, unknown>, only?: RequestId): JSONRPCMessage | null {
    const { id, error } = message;
    const isError = isRecord(error);
    const of = id == null && isError ? only : id;
    const asked = isId(of) ? this.asked.get(String(of)) : undefined;
    if (asked === undefined || !(isError || 'result' in message)) {
      this.countUnasked();
      return null;
    }
    this.asked.delete(String(of));
    this.bytes = 0;
    const head = { jsonrpc: '2.0', id: asked.id } as const;
    if (isError) return { ...head, error: errorOf(error) };
    const result = resultOf(message.result);
    return { ...head, result: asked.method === 'initialize' ? introduction(result) : result };
  }

  private countRequest(): void {
    const { mcp_requests } = this.limits;
    if (this.requests.take(this.now(), REQUEST_MS, mcp_requests * REQUEST_MS) > 0)
      throw new Excess(`it asked svc for more than ${mcp_requests} things at once`);
  }
}

/** After which one more may come. */
const NOTICE_MS = 1;
const REQUEST_MS = 250;

function isId(value: unknown): value is RequestId {
  return typeof value === 'string' || Number.isSafeInteger(value);
}

function withoutNulls(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/** The reserved field is left out: the client would refuse the result for its content. */
function resultOf(value: unknown): Record<string, unknown> {
  if (!isRecord(value) || Array.isArray(value)) return { content: value };
  const { _meta, ...result } = value;
  return result;
}

function errorOf({ code, message }: Record<string, unknown>): { code: number; message: string } {
  return {
    code: Number.isSafeInteger(code) ? (code as number) : INTERNAL_ERROR,
    message: typeof message === 'string' ? message : 'The server gives no reason.',
  };
}

const INTERNAL_ERROR = -32_603;

/** How a server introduces itself, as far as svc reads it. */
function introduction(result: Record<string, unknown>): Record<string, unknown> {
  const { protocolVersion, capabilities, serverInfo } = result;
  const { tools } = asRecord(capabilities);
  const { name, version } = asRecord(serverInfo);
  return {
    protocolVersion,
    capabilities: tools === undefined || tools === false ? {} : { tools: {} },
    serverInfo: { name: textOr(name), version: textOr(version) },
  };
}

function textOr(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
