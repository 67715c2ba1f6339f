import { open } from 'node:fs/promises';
import { basename, isAbsolute } from 'node:path';
import { whyUnusable } from '../../causes.ts';
import type { MediaPart } from '../../contract/messages/parts.ts';
import { fileTypeOf, mediaKind } from '../../contract/options.ts';
import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { warn } from '../terminal/print/output.ts';

/**
 * The files of a request.
 *
 * 1. Their content decides their kind, not their name: UTF-8 text, an image or a sound.
 * 2. Together they have at most so many bytes; a binary file counts as it is sent.
 */

type Content = { type: 'text'; text: string } | MediaPart;
export interface Attachment {
  /** As the user wrote it, in one line. Of a whole path the model learns only its last name. */
  name: string;
  content: Content;
}

/** Throws usage, prompt_too_large. */
export async function readAttachments(
  paths: readonly string[],
  bytes_max: number,
): Promise<Attachment[]> {
  const files: Attachment[] = [];
  let left = bytes_max;
  for (const path of paths) {
    const name = oneLine(path);
    const bytes = await readBounded(path, 'file', left);
    const content = bytes === null ? null : contentOf(name, bytes);
    if (content !== null)
      left -= content.type === 'text' ? sizeOf(content.text) : sizeOf(content.data);
    if (content === null || left < 0) throw tooLargeError(name, bytes_max);
    if (bytes?.length === 0) warn(`The file ${name} is empty.`);
    files.push({ name: isAbsolute(path) ? oneLine(basename(path)) : name, content });
  }
  return files;
}

/**
 * A JSON schema: the text itself if it begins as an object does, else that of a file. Throws usage,
 * prompt_too_large.
 */
export async function readSchema(
  text: string,
  bytes_max: number,
): Promise<Record<string, unknown>> {
  const isText = text.trimStart().startsWith('{');
  const name = isText ? 'The text of --schema' : `The file ${oneLine(text)}`;
  const bytes = isText ? text : await readBounded(text, 'schema', bytes_max);
  if (bytes === null) throw tooLargeError(oneLine(text), bytes_max);
  let schema: unknown;
  try {
    schema = JSON.parse(isText ? text : new TextDecoder().decode(bytes as Buffer));
  } catch (cause) {
    throw usageError('schema', `${name} is not JSON.`, {
      cause,
      hint: 'A schema is a JSON object such as {"type": "object", "properties": {}}.',
    });
  }
  if (typeof schema === 'object' && schema !== null && !Array.isArray(schema))
    return schema as Record<string, unknown>;
  throw usageError('schema', `${name} has no JSON object, so it is not a schema.`);
}

/**
 * The request with these files. They come after the prompt, each under its name. With more than
 * text it is a conversation of one message.
 */
export function withFiles(
  { prompt, system, ...options }: Record<string, unknown> & { prompt: string; system?: string },
  files: readonly Attachment[],
): Record<string, unknown> {
  const parts: Content[] = [];
  const say = (text: string) => {
    const last = parts.at(-1);
    if (last?.type === 'text') parts[parts.length - 1] = { ...last, text: last.text + text };
    else parts.push({ type: 'text', text });
  };
  if (prompt !== '') say(prompt);
  for (const { name, content } of files) {
    say(`${parts.length === 0 ? '' : '\n\n'}File ${name}:\n`);
    if (content.type === 'text') say(content.text.replace(/\r?\n$/, ''));
    else parts.push(content);
  }
  const systemPart = system === undefined ? {} : { system };
  const [only] = parts;
  if (parts.length === 1 && only?.type === 'text')
    return { ...options, ...systemPart, prompt: only.text };
  const before = system === undefined ? [] : [{ role: 'system', content: system }];
  return { ...options, messages: [...before, { role: 'user', content: parts }] };
}

/** Null: the file is longer. Reads no further than the bound, also of a pipe. */
async function readBounded(path: string, flag: string, bytes_max: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    const file = await open(path);
    const piece = Buffer.allocUnsafe(READ_BYTES);
    try {
      for (;;) {
        const { bytesRead } = await file.read(piece);
        if (bytesRead === 0) return Buffer.concat(chunks);
        // A pipe gives a few bytes at a time, so they are copied.
        chunks.push(Buffer.from(piece.subarray(0, bytesRead)));
        length += bytesRead;
        if (length > bytes_max) return null;
      }
    } finally {
      await file.close();
    }
  } catch (cause) {
    const why = whyUnusable(cause);
    throw usageError(flag, `The file ${oneLine(path)} cannot be used: ${why}.`, { cause });
  }
}

const READ_BYTES = 65_536;

/** Throws usage for a file that no run takes. */
function contentOf(name: string, bytes: Buffer): Content {
  const media_type = fileTypeOf(bytes);
  if (media_type !== null)
    return { type: mediaKind(media_type), media_type, data: bytes.toString('base64') };
  const text = bytes.includes(0) ? null : textOf(bytes);
  if (text !== null) return { type: 'text', text };
  const head = bytes.subarray(0, 4).toString('hex');
  const [, kind, hint] = OTHERS.find(([start]) => head.startsWith(start)) ?? [];
  const what = kind === undefined ? 'is binary' : `is ${kind}`;
  throw usageError(
    'file',
    `The file ${name} ${what}, but only text (UTF-8), images, WAV and MP3 can be added.`,
    { hint: hint ?? 'Images are PNG, JPEG, GIF or WebP.' },
  );
}

/** Kinds of files that users have, by their first bytes. */
const OTHERS: readonly (readonly [start: string, kind: string, hint: string])[] = [
  ['25504446', 'a PDF', 'Extract its text first, for example with pdftotext.'],
  ['504b0304', 'an archive or a document of an office program', 'Save its text as a file first.'],
  ['fffe', 'UTF-16 text', 'Convert it first: iconv -f UTF-16 -t UTF-8'],
  ['feff', 'UTF-16 text', 'Convert it first: iconv -f UTF-16 -t UTF-8'],
];

function textOf(bytes: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function sizeOf(text: string): number {
  return Buffer.byteLength(text);
}

function tooLargeError(name: string, bytes_max: number): SvcError {
  return new SvcError(
    'prompt_too_large',
    `With the file ${name} the prompt has more than ${bytes_max} bytes.`,
    { param: 'file' },
  );
}

function usageError(
  param: string,
  message: string,
  options: { cause?: unknown; hint?: string } = {},
): SvcError {
  return new SvcError('usage', message, { param, ...options });
}
