import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/client';
import { createParser } from 'eventsource-parser';
import type { Limits } from '../limits.ts';
import { Excess, type MessageGate } from './message-gate.ts';

interface Options {
  gate: MessageGate;
  limits: Pick<Limits, 'mcp_message_bytes'>;
  /** Nothing more is needed of it. */
  isOver(): boolean;
  deliver(message: JSONRPCMessage): void;
  /** The request that this stream answers. Absent: none. */
  only: RequestId | undefined;
}

/** A stream of events, over all connections that it is read from. Each event passes the gate. */
export class EventStream {
  /** From here it is resumed. Null: it cannot be. */
  last_id: string | null = null;
  /** After which it may be opened again, as the server says. */
  retry_ms: number | null = null;
  /** How many came. */
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
        if (data !== '' && (event === undefined || event === 'message')) this.take(data);
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
      // The parser looks for the next CR once for each line, up to the end of its input.
      for (let at = 0; at < piece.length && !isOver(); at += FED_BYTES)
        parser.feed(Buffer.from(piece.subarray(at, at + FED_BYTES)).toString('latin1'));
      if (isOver()) return;
    }
  }

  private take(data: string): void {
    const { gate, deliver, only } = this.options;
    const messages = gate.read(Buffer.from(data, 'latin1'), only);
    if (messages === null) gate.countUnasked();
    for (const message of messages ?? []) deliver(message);
  }
}

const FED_BYTES = 4096;
/** A longer id cannot be used in a header. */
const ID_MAX = 1024;
const RETRY_MS = { least: 100, most: 86_400_000 };
