import { asRecord } from '../json.ts';
import { oneLine } from '../logs/plain.ts';

/**
 * The messages of a server while it works: progress of a call, and lines of its log.
 *
 * A message names no call. While several calls work, it may be about a call of another program, so
 * no call gets it.
 */
export class Reports {
  private readonly calls = new Map<string, (text: string) => void>();

  /** A call begins, with this token for its progress. Returns what ends it. */
  begin(token: string, report: (text: string) => void): () => void {
    this.calls.set(token, report);
    return () => this.calls.delete(token);
  }

  /** The official client would drop progress that one read brings together with the result. */
  takeProgress(value: unknown): void {
    const { progressToken } = asRecord(value);
    tell(this.calls.get(String(progressToken)), progressText(value));
  }

  /** A message of the log of the server. */
  takeMessage(value: unknown): void {
    const [report, ...others] = this.calls.values();
    if (others.length === 0) tell(report, messageText(value));
  }
}

function tell(report: ((text: string) => void) | undefined, text: string): void {
  if (text !== '') report?.(text);
}

function progressText(value: unknown): string {
  const { progress, total, message } = asRecord(value);
  const most = Number.isFinite(total) ? ` of ${total}` : '';
  const count = Number.isFinite(progress) ? `${progress}${most}` : '';
  return [count, wordsOf(message)].filter(Boolean).join(': ');
}

/** Empty for a detail that only the author of the server wants. */
function messageText(value: unknown): string {
  const { level, data } = asRecord(value);
  if (level === 'debug') return '';
  const words = wordsOf(data);
  const isTrouble = typeof level === 'string' && level !== 'info' && level !== 'notice';
  return isTrouble && words !== '' ? `${wordsOf(level)}: ${words}` : words;
}

function wordsOf(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return oneLine(text.slice(0, WORDS_MAX).trim());
}

/** Of one report. A terminal shows one line. */
const WORDS_MAX = 300;
