import { createLineFormat } from './format-line.ts';
import type { LogStream } from './log.ts';
import { terminalColumns } from './width.ts';

interface PrinterOptions {
  form: 'json' | 'pretty';
  /** Lines that wait while stdout is not read; more are left out. */
  linesMax: number;
  /** The line that counts the lines left out. */
  missedLine(missed: number): string;
}

/**
 * Prints log lines to stdout.
 *
 * 1. A reader that stops reading costs at most `linesMax` lines of memory.
 * 2. When it reads again, it gets the number of lines that it missed, in their place.
 */
export class Printer implements LogStream {
  private readonly options: PrinterOptions;
  private readonly format: (line: string) => string;
  private isOpen = true;
  private waiting = 0;
  private missed = 0;

  constructor(options: PrinterOptions) {
    this.options = options;
    this.format = options.form === 'json' ? (line) => `${line}\n` : createPersonFormat();
    process.stdout.on('error', () => {
      this.isOpen = false;
    });
  }

  write(line: string): void {
    if (!this.isOpen) return;
    // The callback of a line that went out at once comes later: such a line does not wait.
    const isFull = this.waiting >= this.options.linesMax && process.stdout.writableLength > 0;
    if (this.missed > 0 || isFull) this.missed += 1;
    else this.print(line);
  }

  close(): void {}

  private print(line: string): void {
    this.waiting += 1;
    process.stdout.write(this.format(line), () => this.noteTaken());
  }

  private noteTaken(): void {
    this.waiting -= 1;
    if (!this.isOpen || this.waiting > 0 || this.missed === 0) return;
    this.print(this.options.missedLine(this.missed));
    this.missed = 0;
  }
}

/** As `svc logs` shows the line. */
function createPersonFormat(): (line: string) => string {
  const { stdout } = process;
  const colour = stdout.isTTY === true && !process.env.NO_COLOR;
  const columns = stdout.isTTY === true ? () => terminalColumns(stdout) : null;
  const form = createLineFormat({ colour, columns });
  return (line) => `${form(line)}\n`;
}
