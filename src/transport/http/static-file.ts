import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

/** A file in memory with its headers. */
export interface StaticFile {
  type: string;
  etag: string;
  content: Buffer;
}

/** What a route of such files describes. */
export const STATIC_HEADERS = ['If-None-Match'];
export const staticAnswers = (type: string) => ({ 200: { type }, 304: null });

export function staticFile(type: string, content: Buffer): StaticFile {
  return {
    type,
    content,
    etag: `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`,
  };
}

/** Sends the file, or 304 to a client that has it. `policy` restricts the content in a browser. */
export function sendFile(
  req: IncomingMessage,
  res: ServerResponse,
  { type, etag, content }: StaticFile,
  policy: string,
): void {
  const headers = {
    ETag: etag,
    'Cache-Control': 'no-cache',
    'Content-Security-Policy': policy,
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
  };
  const known = (req.headers['if-none-match'] ?? '')
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''));
  if (known.includes(etag)) res.writeHead(304, headers).end();
  else
    res
      .writeHead(200, { ...headers, 'Content-Type': type, 'Content-Length': content.length })
      .end(content);
}
