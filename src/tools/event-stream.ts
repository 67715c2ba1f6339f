import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/client';
import { createParser } from 'eventsource-parser';
import type { Limits } from '../limits.ts';
import { Excess, type MessageGate } from './message-gate.ts';

interface Options {
  gate: MessageGate;
  limits: Pick<Limits, 'mcp_message_bytes'>;
  /** Whether no further event is needed. */
  isOver(): boolean;
  deliver(message: JSONRPCMessage): void;
  /** The request that this stream answers. Undefined: it answers no particular request. */
  request_id: RequestId | undefined;
}

/** A stream of server-sent events. It may span several connections. Each event passes the gate. */
export class EventStream {
  /** The event after which another connection resumes. Null: the stream cannot be resumed. */
  last_id: string | null = null;
  /** The wait before another connection, as the server asked for it. Null: it did not. */
  retry_ms: number | null = null;
  /** The number of received events. */
  events = 0;
  private readonly options: Options;

  constructor(options: Options) {
    this.options = options;
  }

  /** Reads a connection to its end, or until the stream is over. Throws Excess. */
  async read({ body }: Response): Promise<void> {
    const { gate, limits, isOver } = this.options;
    const { mcp_message_bytes: most } = limits;
    const parser = createParser({
      maxBufferSize: most,
      onEvent: ({ id, event, data }) => {
        this.events += 1;
        if (id !== undefined && id.length <= ID_MAX) this.last_id = id === '' ? null : id;
        if (data !== '' && (event === undefined || event === 'message')) this.deliver(data);
      },
      onRetry: (ms) => {
        this.retry_ms = Math.min(RETRY_MS.most, Math.max(RETRY_MS.least, ms));
      },
      onError: ({ type }) => {
        if (type === 'max-buffer-size-exceeded')
          throw new Excess(`a message has more than ${most} bytes`);
      },
    });
    for await (const piece of body ?? []) {
      gate.count(piece.length);
      // For each line the parser searches all of its input for a CR. So it gets little at a time.
      for (let at = 0; at < piece.length && !isOver(); at += FED_BYTES)
        parser.feed(Buffer.from(piece.subarray(at, at + FED_BYTES)).toString('latin1'));
      if (isOver()) return;
    }
  }

  private deliver(data: string): void {
    const { gate, deliver, request_id } = this.options;
    const messages = gate.read(Buffer.from(data, 'latin1'), request_id);
    if (messages === null) gate.countUnasked();
    for (const message of messages ?? []) deliver(message);
  }
}

const FED_BYTES = 4096;
/** A longer id cannot be used in a header. */
const ID_MAX = 1024;
const RETRY_MS = { least: 100, most: 86_400_000 };
