import { hash } from 'node:crypto';
import { extname } from 'node:path';
import { type Excess, ForeignWork, PROCESS_BYTES } from '../../async/foreign-work.ts';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';

export interface PdfFile {
  bytes: Uint8Array;
  /** Bounds of the text that is read. */
  pages: number;
  characters: number;
}

/** `problem`: why there is no text. It follows the name of the file. */
export type PdfText =
  | { readonly text: string; readonly problem?: never }
  | { readonly problem: string; readonly text?: never };

export type PdfLimits = Pick<
  Limits,
  'documents' | 'document_pages' | 'document_ms' | 'document_memory_bytes' | 'prompt_bytes'
>;

/**
 * Reads the text of PDF files, one after the other, each in another process. A file may be hostile,
 * so the process has bounds on time and memory. It ends when it exceeds one.
 *
 * A conversation sends its files with each turn, so the last texts are kept.
 */
class PdfReader {
  private readonly texts = new Map<string, string>();
  private kept = 0;
  private last: Promise<unknown> = Promise.resolve();
  private waiting = 0;

  /** Throws busy, descriptors_exhausted, and the reason of the signal. */
  async read(bytes: Buffer, limits: PdfLimits, signal: AbortSignal): Promise<PdfText> {
    const key = hash('sha256', bytes);
    const known = this.texts.get(key);
    if (known !== undefined) return { text: known };
    if (this.waiting >= limits.documents)
      throw new SvcError('busy', `${this.waiting} documents wait to be read.`, {
        hint: 'Try again later.',
      });
    this.waiting += 1;
    const read = this.last.then(async () => {
      signal.throwIfAborted();
      // The one before may have been the same file.
      const text = this.texts.get(key);
      if (text !== undefined) return { text };
      const found = await readAlone(bytes, limits, signal);
      if (found.text !== undefined) this.keep(key, found.text);
      return found;
    });
    this.last = read.catch(() => {});
    try {
      return await read;
    } finally {
      this.waiting -= 1;
    }
  }

  private keep(key: string, text: string): void {
    this.texts.set(key, text);
    this.kept += text.length;
    for (const [oldest, { length }] of this.texts) {
      if (this.kept <= KEPT_MAX) return;
      this.texts.delete(oldest);
      this.kept -= length;
    }
  }
}

const reader = new PdfReader();

export function pdfText(bytes: Buffer, limits: PdfLimits, signal: AbortSignal): Promise<PdfText> {
  return reader.read(bytes, limits, signal);
}

async function readAlone(bytes: Buffer, limits: PdfLimits, signal: AbortSignal): Promise<PdfText> {
  const { document_ms, document_memory_bytes, prompt_bytes } = limits;
  const work = new ForeignWork<PdfFile, PdfText>({
    entry: ENTRY,
    heap_bytes: document_memory_bytes,
    memory_bytes: PROCESS_BYTES + document_memory_bytes,
    places: 1,
    idle_ms: 0,
  });
  const file = { bytes, pages: limits.document_pages, characters: prompt_bytes };
  const { answer, excess } = await work.ask(file, { ms: document_ms, signal });
  return answer ?? { problem: EXCESS[excess](document_ms) };
}

const EXCESS: Record<Excess, (ms: number) => string> = {
  time: (ms) => `takes longer than ${ms} ms to read`,
  memory: () => 'needs too much memory to read',
  crash: () => 'was not read to its end',
};
const MIB = 1024 * 1024;
/** Characters of the kept texts. */
const KEPT_MAX = 8 * MIB;
/** In the same folder in the sources and in the build. */
const ENTRY = new URL(`./pdf-worker${extname(import.meta.url)}`, import.meta.url);
