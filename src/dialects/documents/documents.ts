import { invalidRequest } from '../../contract/check.ts';
import { isBase64 } from '../../contract/options.ts';
import type { Context } from '../../transport/http/route.ts';
import { requestOver } from '../../transport/http/run-request.ts';
import { pdfText } from './pdf.ts';

/** A file inside a request: `data` is base64. */
export interface SentFile {
  readonly media_type: string;
  readonly data: string;
}

/**
 * The limits and the abort signal for reading a file. The signal is made late, because most
 * requests have no file.
 */
export type Reading = Pick<Context, 'limits'> & { signal(): AbortSignal };

export function readingOf(context: Pick<Context, 'res' | 'closing' | 'ended' | 'limits'>): Reading {
  return { limits: context.limits, signal: () => requestOver(context) };
}

/**
 * The text of a PDF or text file: models get text. `param` is its place in the request. Throws
 * invalid_request for a file without text, busy, and what ends the request.
 */
export async function textOfFile(
  { media_type, data }: SentFile,
  param: string,
  { limits, signal }: Reading,
): Promise<string> {
  const type = media_type.split(';')[0]?.trim().toLowerCase() ?? '';
  if (!isBase64(data)) throw invalidRequest(param, `${param} is not base64.`);
  const bytes = Buffer.from(data, 'base64');
  if (TEXT.test(type)) return decodeUtf8(bytes, param);
  if (type !== PDF)
    throw invalidRequest(
      param,
      `${param} is of the type ${JSON.stringify(type)}. PDF and text are read.`,
    );
  const { text, problem } = await pdfText(bytes, limits, signal());
  if (problem !== undefined) throw invalidRequest(param, `${param} ${problem}.`);
  if (text !== '') return text;
  throw invalidRequest(
    param,
    `${param} has no text, so it shows pictures only. Send them as images.`,
  );
}

/** The frame around the text of a document, so that a model sees where it begins and ends. */
export function documentFrame(title?: string | null, context?: string | null) {
  const name = title == null || title === '' ? '' : ` title=${JSON.stringify(title)}`;
  const about = context == null || context === '' ? '' : `${context}\n\n`;
  return { begin: `<document${name}>\n${about}`, end: '\n</document>' };
}

function decodeUtf8(bytes: Buffer, param: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw invalidRequest(param, `${param} is not UTF-8 text.`);
  }
}

const PDF = 'application/pdf';
const TEXT = /^text\/|^application\/([\w.-]+\+)?(json|xml|yaml|javascript)$/;
