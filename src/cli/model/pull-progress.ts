import { oneLine } from '../../logs/plain.ts';
import { terminalColumns } from '../../logs/width.ts';
import type { PullRecord } from '../../runtime/pulls/record.ts';
import { bytes, duration } from '../terminal/print/format.ts';
import { ERASE, note } from '../terminal/print/output.ts';

const STEP_PERCENT = 10;
/** A step of a file of unknown size. */
const STEP_BYTES = 256 * 1024 * 1024;
/** The rate is the average of this time. */
const RATE_MS = 5_000;

/**
 * Progress on stderr: on a terminal one line that is overwritten, elsewhere a line per 10%, or
 * none. Notes, such as the chosen file or the reason of a retry, have separate lines.
 */
export class PullProgress {
  private readonly mode: 'line' | 'steps' | 'none';
  private readonly noted = new Set<string>();
  private readonly marks: { at: number; bytes: number }[] = [];
  private open = false;

  constructor(mode: 'line' | 'steps' | 'none') {
    this.mode = mode;
  }

  show(record: PullRecord): void {
    if (this.mode === 'none') return;
    this.noteChanges(record);
    if (record.state === 'downloading') this.showAt(record, record.bytes, '');
    if (record.state === 'verifying') this.showAt(record, record.hashed_bytes, 'verifying ');
  }

  /** Ends the line that is overwritten. */
  end(): void {
    if (this.open) write('\n');
    this.open = false;
  }

  /** Removes it: there is nothing more to wait for. */
  erase(): void {
    if (this.open) write(ERASE);
    this.open = false;
  }

  private noteChanges(record: PullRecord): void {
    const {
      file,
      choices,
      existing,
      state,
      error,
      retry_at,
      sha256,
      verified,
      offset_bytes,
      attempt,
      fit,
    } = record;
    if (file !== null && choices.length > 0)
      this.noteOnce('choice', `Taking ${file}. The repository also has ${choices.join(', ')}.`);
    if (fit !== undefined) this.noteOnce('fit', fit.text);
    if (attempt === 1 && offset_bytes > 0 && !existing && state === 'downloading')
      this.noteOnce('resumed', `Resuming at ${bytes(offset_bytes)}.`);
    if (existing)
      this.noteOnce('existing', 'A model with this name exists; verifying that it is the same.');
    if (retry_at !== null && error !== null)
      this.noteOnce(
        `failed ${attempt}`,
        `${error.message} Trying again in ${duration(Date.parse(retry_at) - Date.now())}.`,
      );
    if (state === 'completed' && verified === false)
      this.noteOnce(
        'unverified',
        `The server publishes no hash for the file. Its sha256 is ${sha256}.`,
      );
  }

  private noteOnce(key: string, text: string): void {
    if (this.noted.has(key)) return;
    this.noted.add(key);
    this.erase();
    note(oneLine(text));
  }

  private showAt({ file, size_bytes }: PullRecord, count: number, what: string): void {
    if (this.mode === 'line') this.drawLine(file, size_bytes, count, what);
    else this.step(size_bytes, count, `${what}${file}`);
  }

  private drawLine(
    file: string | null,
    size_bytes: number | null,
    count: number,
    what: string,
  ): void {
    const share = size_bytes === null ? '' : `${percent(count, size_bytes)}%  `;
    const of = size_bytes === null ? '' : ` of ${bytes(size_bytes)}`;
    const progress = `${share}${bytes(count)}${of}${this.paceText(count, size_bytes)}`;
    const text = oneLine(`${what}${file}  ${progress}`).slice(0, columns() - 1);
    write(`${ERASE}${text}`);
    this.open = true;
  }

  private step(size: number | null, count: number, what: string): void {
    const step =
      size === null
        ? Math.floor(count / STEP_BYTES)
        : Math.floor(percent(count, size) / STEP_PERCENT) * STEP_PERCENT;
    if (step > 0)
      this.noteOnce(
        `${what} ${step}`,
        `${what}  ${size === null ? bytes(count) : `${step}% of ${bytes(size)}`}`,
      );
  }

  private paceText(count: number, size: number | null): string {
    const now = performance.now();
    if ((this.marks.at(-1)?.bytes ?? 0) > count) this.marks.length = 0;
    this.marks.push({ at: now, bytes: count });
    while (this.marks.length > 2 && (this.marks[0]?.at ?? now) < now - RATE_MS) this.marks.shift();
    const first = this.marks[0];
    if (first === undefined || now - first.at < 500 || count <= first.bytes) return '';
    const rate = (count - first.bytes) / ((now - first.at) / 1000);
    const left = size === null ? '' : `  ${duration(((size - count) / rate) * 1000)} left`;
    return `  ${bytes(rate)}/s${left}`;
  }
}

function percent(count: number, size: number): number {
  return size === 0 ? 100 : Math.min(100, Math.floor((count / size) * 100));
}

function columns(): number {
  return Math.max(20, terminalColumns(process.stderr));
}

/** Writes to the terminal without a line break. */
function write(text: string): void {
  process.stderr.write(text);
}
