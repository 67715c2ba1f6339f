import type { Socket } from 'node:net';
import { SvcError } from '../../../errors.ts';
import { connectTo, noAnswer } from './sources.ts';

/**
 * Calls of gRPC over one connection of HTTP/2, by hand: the library takes as long to load as three
 * commands.
 *
 * 1. It is only for small messages. The server keeps no headers for it, and it reads no header but
 *    `grpc-status`.
 * 2. Unread bytes are bounded by the window of HTTP/2, which grows only as bytes are read.
 * 3. Each call ends: by its status, by a reset, or with the connection.
 */
export class GrpcCalls {
  private readonly socket: Socket;
  private readonly scheme: number;
  private readonly open = new Map<number, Call>();
  private lastId = -1;
  private failure: SvcError | null = null;
  private unread: Buffer = Buffer.alloc(0);

  constructor(address: string) {
    const { socket, host, isSecure, opened } = connectTo(address, ['h2']);
    this.socket = socket;
    this.scheme = isSecure ? SCHEME_HTTPS : SCHEME_HTTP;
    socket.once(opened, () => socket.setNoDelay());
    socket.write(Buffer.concat([PREFACE, frame(SETTINGS, 0, 0, NO_KEPT_HEADERS)]));
    socket.on('data', (bytes: Buffer) => this.read(bytes));
    socket.on('error', (cause) => this.fail(noAnswer(host, cause)));
    socket.on('close', () => this.fail(new SvcError('connection_lost')));
  }

  /**
   * The messages of an answer. Throws daemon_not_running for a status other than success, for a
   * connection that broke, and for an answer of another protocol.
   */
  async *call(path: string, message: Buffer): AsyncGenerator<Buffer> {
    if (this.failure !== null) throw this.failure;
    this.lastId += 2;
    const id = this.lastId;
    const call: Call = { bytes: Buffer.alloc(0), end: null, wake: () => {} };
    this.open.set(id, call);
    const headers = frame(HEADERS, END_HEADERS, id, this.headersOf(path));
    this.socket.write(Buffer.concat([headers, frame(DATA, END_STREAM, id, frameMessage(message))]));
    try {
      for (;;) {
        const size = call.bytes.length < PREFIX ? 0 : PREFIX + call.bytes.readUInt32BE(1);
        if (size > MESSAGE_MAX) throw notGrpcError();
        if (size > 0 && call.bytes.length >= size) {
          const found = call.bytes.subarray(PREFIX, size);
          call.bytes = call.bytes.subarray(size);
          this.socket.write(Buffer.concat([allow(0, size), allow(id, size)]));
          yield found;
        } else if (call.end === null) {
          await new Promise<void>((resolve) => {
            call.wake = resolve;
          });
        } else if (call.end instanceof SvcError) throw call.end;
        else return;
      }
    } finally {
      this.open.delete(id);
    }
  }

  close(): void {
    this.fail(new SvcError('connection_lost', 'The connection was closed.'));
    // A quick command exits first, and needs no stream taken down.
    setImmediate(() => this.socket.destroy());
  }

  private headersOf(path: string): Buffer {
    return Buffer.concat([
      Buffer.from([METHOD_POST, this.scheme]),
      Buffer.from([PATH]),
      text(path),
      Buffer.from([AUTHORITY]),
      text('localhost'),
      Buffer.from([NEW_NAME]),
      text('te'),
      text('trailers'),
      Buffer.from(CONTENT_TYPE),
      text('application/grpc'),
    ]);
  }

  private read(bytes: Buffer): void {
    this.unread = this.unread.length === 0 ? bytes : Buffer.concat([this.unread, bytes]);
    while (this.unread.length >= HEAD && this.failure === null) {
      const length = this.unread.readUIntBE(0, 3);
      if (length > FRAME_MAX) this.fail(notGrpcError());
      if (length > FRAME_MAX || this.unread.length < HEAD + length) return;
      const { 3: type = 0, 4: flags = 0 } = this.unread;
      const id = this.unread.readUInt32BE(5);
      const payload = this.unread.subarray(HEAD, HEAD + length);
      this.unread = this.unread.subarray(HEAD + length);
      this.take(type, flags, id, payload);
    }
  }

  private take(type: number, flags: number, id: number, payload: Buffer): void {
    const call = this.open.get(id);
    if (type === SETTINGS || type === PING) {
      // A server closes a connection that does not answer.
      const answer = type === PING ? payload : Buffer.alloc(0);
      if ((flags & ACK) === 0) this.socket.write(frame(type, ACK, 0, answer));
    } else if (type === GO_AWAY && errorIn(payload, 4) !== 0) {
      this.fail(refusalError(`ends the connection with error ${errorIn(payload, 4)} of HTTP/2`));
    } else if (type === RESET) {
      end(call, refusalError(`ends the call with error ${errorIn(payload, 0)} of HTTP/2`));
    } else if (type === DATA && call !== undefined) {
      call.bytes = Buffer.concat([call.bytes, withoutPadding(flags, payload)]);
      call.wake();
    } else if (type === HEADERS && (flags & END_STREAM) !== 0) {
      const status = statusIn(payload);
      end(call, status === 0 ? 'done' : refusalError(`answers with status ${status}`));
    }
  }

  private fail(error: SvcError): void {
    this.failure ??= error;
    for (const call of this.open.values()) end(call, this.failure);
  }
}

interface Call {
  /** Of the answer, and not read. */
  bytes: Buffer;
  end: SvcError | 'done' | null;
  wake(): void;
}

function end(call: Call | undefined, how: SvcError | 'done'): void {
  if (call === undefined) return;
  call.end ??= how;
  call.wake();
}

function refusalError(what: string): SvcError {
  return new SvcError('daemon_not_running', `The health service ${what}.`);
}

function notGrpcError(): SvcError {
  return new SvcError('connection_lost', 'The program at this address does not speak gRPC.');
}

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
/** Types of frames, and their flags. */
const [DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW] = [0, 1, 3, 4, 6, 7, 8];
const [END_STREAM, ACK, END_HEADERS, PADDED] = [1, 1, 4, 8];
/** SETTINGS_HEADER_TABLE_SIZE is zero, so no header refers to one of an earlier answer. */
const NO_KEPT_HEADERS = Buffer.from([0, 1, 0, 0, 0, 0]);
/** A frame begins with so many bytes, and has at most so many more. */
const HEAD = 9;
const FRAME_MAX = 16_384;
/** A message begins with so many bytes: whether it is compressed, and its length. */
const PREFIX = 5;
const MESSAGE_MAX = 1024;
/** Places of the table of HPACK, each in the form in which it is sent. */
const [METHOD_POST, SCHEME_HTTP, SCHEME_HTTPS] = [0x83, 0x86, 0x87];
const [NEW_NAME, AUTHORITY, PATH, CONTENT_TYPE] = [0, 1, 4, [0x0f, 0x10]];
/** `grpc-status` with its length, in the code of Huffman and plain. */
const STATUS = [Buffer.from('889acac8b21234da8f', 'hex'), text('grpc-status')];
const UNKNOWN = 2;
const PROTOCOL_ERROR = 1;

function frame(type: number, flags: number, id: number, payload: Buffer): Buffer {
  const head = Buffer.from([0, 0, 0, type, flags, 0, 0, 0, 0]);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, payload]);
}

/** Lets the server send so many bytes more. */
function allow(id: number, bytes: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(bytes);
  return frame(WINDOW, 0, id, payload);
}

/** A text of HPACK with its length, below 127. */
function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([Buffer.from([bytes.length]), bytes]);
}

function frameMessage(message: Buffer): Buffer {
  const prefix = Buffer.alloc(PREFIX);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** The error of a frame that says one. */
function errorIn(payload: Buffer, at: number): number {
  return payload.length < at + 4 ? PROTOCOL_ERROR : payload.readUInt32BE(at);
}

function withoutPadding(flags: number, payload: Buffer): Buffer {
  if ((flags & PADDED) === 0) return payload;
  return payload.subarray(1, payload.length - (payload[0] ?? 0));
}

/** A status has one or two digits, which the code of Huffman would not shorten. */
function statusIn(headers: Buffer): number {
  for (const name of STATUS) {
    const at = headers.indexOf(name);
    if (at < 0) continue;
    const from = at + name.length;
    return Number(headers.toString('latin1', from + 1, from + 1 + (headers[from] ?? 0)));
  }
  return UNKNOWN;
}
