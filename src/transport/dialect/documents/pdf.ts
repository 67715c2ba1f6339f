import { hash } from 'node:crypto';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { SvcError } from '../../../errors.ts';
import type { Limits } from '../../../limits.ts';
import { onAbort } from '../../stream/on-abort.ts';

export interface PdfBounds {
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
 * Reads the text of PDF files, one after the other, each in another thread. A file may be hostile,
 * so the thread has bounds on time and memory. It ends when it exceeds one.
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
  const { promise, resolve, reject } = Promise.withResolvers<PdfText>();
  const bounds: PdfBounds = { pages: limits.document_pages, characters: prompt_bytes };
  const worker = new Worker(ENTRY, {
    name: 'svc-document',
    workerData: { bytes: new Uint8Array(bytes), ...bounds },
    resourceLimits: { maxOldGenerationSizeMb: Math.ceil(document_memory_bytes / MIB) },
    // The library writes warnings.
    stdout: true,
    stderr: true,
  });
  const end = (problem: string) => resolve({ problem });
  const before = process.memoryUsage.rss();
  const timer = setTimeout(() => end(`takes longer than ${document_ms} ms to read`), document_ms);
  // The bound of the heap does not count buffers, and a small file can unpack to a large one.
  const watch = setInterval(() => {
    if (process.memoryUsage.rss() - before > document_memory_bytes) end(TOO_LARGE);
  }, WATCH_MS);
  const endWait = onAbort(signal, () => reject(signal.reason));
  worker.on('message', resolve);
  worker.on('error', (error: NodeJS.ErrnoException) =>
    error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? end(TOO_LARGE) : reject(error),
  );
  worker.on('exit', () => end('was not read to its end'));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    clearInterval(watch);
    endWait();
    await worker.terminate();
  }
}

const TOO_LARGE = 'needs too much memory to read';
const MIB = 1024 * 1024;
const WATCH_MS = 20;
/** Characters of the kept texts. */
const KEPT_MAX = 8 * MIB;
/** In the same folder in the sources and in the build. */
const ENTRY = new URL(`./pdf-worker${extname(import.meta.url)}`, import.meta.url);
