import type { Socket } from 'node:net';
import { SvcError } from '../../../errors.ts';
import { connect as connectDaemon } from '../../../transport/control/client.ts';
import { sleep } from '../../terminal/interrupt.ts';

// Not imported: see src/home/paths.ts.
const { connect } = process.getBuiltinModule('node:net');

/** The health of the daemon; null for fields that the transport does not have. */
export interface Answer extends Report {
  live: boolean;
  ready: boolean;
}

interface Report {
  status: 'pass' | 'warn' | 'fail';
  state: string | null;
  state_path: string | null;
  since: string | null;
  reason: string | null;
  output?: string | null;
  version: string | null;
}

export interface Source {
  /** Throws if the daemon cannot be reached. */
  ask(address: string): Promise<Answer>;
  /** Yields now and at each change, until the connection ends or the signal aborts. */
  watch(address: string, signal: AbortSignal): AsyncIterable<Answer>;
}

/** Longest wait for an answer, which the daemon has in memory. */
export const ANSWER_MS = 3_000;
const BYTES_MAX = 4 * 1024 * 1024;
const POLL_MS = 500;
const OK = 200;

export const http: Source = {
  /** A ready daemon is live, so `/livez` is queried only if it is not ready. */
  async ask(address) {
    const ready = await get(address, '/readyz');
    const live = ready.status === OK ? ready : await get(address, '/livez');
    return answer(live.status === OK, ready.status === OK, reportIn(ready.body));
  },

  /** Polls: HTTP has no notification of changes. */
  async *watch(address, signal) {
    let last = '';
    while (!signal.aborted) {
      const now = await http.ask(address);
      const text = JSON.stringify(now);
      if (text !== last) yield now;
      last = text;
      await sleep(POLL_MS, signal);
    }
  },
};

export const socket: Source = {
  async ask(address) {
    const client = await connectDaemon(address, { timeout_ms: ANSWER_MS });
    try {
      const report = await client.call('health', {}, { timeout_ms: ANSWER_MS });
      return answer(report.live, report.ready, report);
    } finally {
      client.close();
    }
  },

  async *watch(address, signal) {
    const client = await connectDaemon(address, { timeout_ms: ANSWER_MS });
    try {
      for await (const report of client.stream('health.watch', {}, { signal }))
        yield answer(report.live, report.ready, report);
    } finally {
      client.close();
    }
  },
};

function answer(live: boolean, ready: boolean, report: Report): Answer {
  const { status, state, state_path, since, reason, output = null, version } = report;
  return { live, ready, status, state, state_path, since, reason, output, version };
}

/** Accepts only a health record: another program may use the port now. */
function reportIn(body: string): Report {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    value = null;
  }
  if (typeof value === 'object' && value !== null && 'state_path' in value && 'status' in value)
    return value as Report;
  throw new SvcError('daemon_not_running', 'The process on this address is not an svc daemon.');
}

/**
 * One GET over a new connection, by hand: importing node:http takes longer than the whole command.
 * To a request of HTTP/1.0 a server sends no chunks. Throws timed_out, daemon_not_running, and
 * connection_lost for a truncated or foreign answer.
 */
async function get(base_url: string, path: string): Promise<{ status: number; body: string }> {
  const { socket, host, opened } = connectTo(base_url);
  socket.setTimeout(ANSWER_MS, () =>
    socket.destroy(new SvcError('timed_out', `There was no answer within ${ANSWER_MS / 1000} s.`)),
  );
  socket.once(opened, () =>
    socket.write(
      `GET ${path} HTTP/1.0\r\nHost: ${host}\r\nAccept: application/health+json\r\n\r\n`,
    ),
  );
  let text = '';
  try {
    for await (const chunk of socket.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk;
      if (text.length > BYTES_MAX)
        throw new SvcError('connection_lost', 'The answer is longer than any of svc.');
    }
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw noAnswer(host, cause);
  }
  return parse(text);
}

/** Nothing is at the address, or the connection broke. */
export function noAnswer(host: string, cause: unknown): SvcError {
  const { code } = cause as NodeJS.ErrnoException;
  return new SvcError('daemon_not_running', `Nothing answers at ${host} (${code}).`, { cause });
}

/**
 * Connects to an address with or without a scheme. `opened` is the event after which it can be
 * written. The address is that of the daemon of this home, and the request has no secret. A
 * certificate of an unknown authority, or of another name, is therefore accepted.
 */
export function connectTo(
  address: string,
  ALPNProtocols?: string[],
): { socket: Socket; host: string; isSecure: boolean; opened: string } {
  const { protocol, hostname, port, host } = new URL(
    address.includes('://') ? address : `http://${address}`,
  );
  const isSecure = protocol === 'https:' || protocol === 'grpcs:';
  const at = {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port || (isSecure ? 443 : 80)),
  };
  if (!isSecure) return { socket: connect(at), host, isSecure, opened: 'connect' };
  const tls = process.getBuiltinModule('node:tls');
  const socket = tls.connect({
    ...at,
    rejectUnauthorized: false,
    ...(ALPNProtocols === undefined ? {} : { ALPNProtocols }),
  });
  return { socket, host, isSecure, opened: 'secureConnect' };
}

function parse(answer: string): { status: number; body: string } {
  const end = answer.indexOf('\r\n\r\n');
  const [, status] = /^HTTP\/1\.[01] (\d{3})/.exec(answer.slice(0, Math.max(end, 0))) ?? [];
  if (status === undefined)
    throw new SvcError('connection_lost', 'The program at this address does not speak HTTP.');
  const [, length] = /\r\ncontent-length: *(\d+)/i.exec(answer.slice(0, end)) ?? [];
  const body = answer.slice(end + 4);
  if (Buffer.byteLength(body) < Number(length ?? 0))
    throw new SvcError('connection_lost', 'The answer was cut off.');
  return { status: Number(status), body };
}
