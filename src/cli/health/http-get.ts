import type { Socket } from 'node:net';
import { SvcError } from '../../errors.ts';

// Not imported: see src/home/paths.ts.
const { connect } = process.getBuiltinModule('node:net');

export interface Response {
  status: number;
  body: string;
}

const BYTES_MAX = 4 * 1024 * 1024;

/**
 * One GET over a new connection, by hand: importing node:http takes longer than the whole command.
 * Throws timed_out, daemon_not_running, and connection_lost for a truncated or foreign answer.
 */
export function httpGet(base_url: string, path: string, timeout_ms: number): Promise<Response> {
  const { protocol, hostname, port, host } = new URL(
    base_url.includes('://') ? base_url : `http://${base_url}`,
  );
  const isSecure = protocol === 'https:';
  const at = {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port || (isSecure ? 443 : 80)),
  };
  const socket = isSecure ? connectSecurely(at) : connect(at);
  const chunks: Buffer[] = [];
  return new Promise<Response>((resolve, reject) => {
    socket.setTimeout(timeout_ms, () =>
      reject(new SvcError('timed_out', `There was no answer within ${timeout_ms / 1000} s.`)),
    );
    socket.on('error', (cause: NodeJS.ErrnoException) =>
      reject(
        new SvcError('daemon_not_running', `Nothing answers at ${host} (${cause.code}).`, {
          cause,
        }),
      ),
    );
    socket.on(isSecure ? 'secureConnect' : 'connect', () =>
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAccept: ` +
          `application/health+json\r\nConnection: close\r\n\r\n`,
      ),
    );
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > BYTES_MAX)
        reject(new SvcError('connection_lost', 'The answer is longer than any of svc.'));
    });
    socket.on('end', () => {
      try {
        resolve(parse(Buffer.concat(chunks)));
      } catch (error) {
        reject(error);
      }
    });
  }).finally(() => {
    // The command exits first, and needs no stream taken down.
    setImmediate(() => socket.destroy());
  });
}

/**
 * The address is that of the daemon of this home, and the request has no secret. So a certificate
 * of an unknown authority, or of another name, is as good as none.
 */
function connectSecurely(at: { host: string; port: number }): Socket {
  const { connect } = process.getBuiltinModule('node:tls');
  return connect({ ...at, rejectUnauthorized: false });
}

function parse(answer: Buffer): Response {
  const end = answer.indexOf('\r\n\r\n');
  const [line = '', ...headers] = answer
    .subarray(0, Math.max(end, 0))
    .toString('latin1')
    .split('\r\n');
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(line)?.[1];
  if (status === undefined)
    throw new SvcError('connection_lost', 'What answers there does not speak HTTP.');
  const header = (name: string) =>
    headers
      .find((text) => text.toLowerCase().startsWith(`${name}:`))
      ?.slice(name.length + 1)
      .trim();
  const rest = answer.subarray(end + 4);
  const length = Number(header('content-length') ?? rest.length);
  const body =
    header('transfer-encoding')?.toLowerCase() === 'chunked'
      ? unchunk(rest)
      : rest.subarray(0, length);
  if (rest.length < length) throw new SvcError('connection_lost', 'The answer was cut off.');
  return { status: Number(status), body: body.toString('utf8') };
}

function unchunk(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at);
    const size = Number.parseInt(bytes.subarray(at, end).toString('latin1'), 16);
    if (end < 0 || Number.isNaN(size) || end + 2 + size > bytes.length)
      throw new SvcError('connection_lost', 'The answer was cut off.');
    if (size === 0) return Buffer.concat(parts);
    parts.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}
