import { plain } from '../../logs/plain.ts';
import { isTerminal } from '../print/output.ts';
import type { StdoutStream } from '../print/stdout-stream.ts';

/**
 * Streams the answer to stdout. Line breaks at the end wait until more text follows, so the output
 * ends with exactly one. On a terminal, control characters are escaped. An empty answer prints
 * nothing.
 */
export class AnswerPrinter {
  private readonly stdout: StdoutStream;
  private readonly clean: (text: string) => string;
  private breaks = '';
  private begun = false;
  private midLine = false;

  constructor(stdout: StdoutStream) {
    this.stdout = stdout;
    this.clean = isTerminal(1) ? plain : (text) => text;
  }

  /** Whether the cursor is behind text of the answer. The caller then moves it to a new line. */
  leaveLine(): boolean {
    const was = this.midLine;
    this.midLine = false;
    return was;
  }

  async append(text: string): Promise<void> {
    const whole = this.breaks + text;
    const body = whole.replace(/\n+$/, '');
    this.breaks = whole.slice(body.length);
    if (body === '') return;
    this.begun = true;
    this.midLine = true;
    await this.stdout.write(this.clean(body));
  }

  /** Prints the rest of the answer and the final line break. */
  async end(rest: string, complete: boolean): Promise<void> {
    await this.append(rest);
    if (this.begun || complete) await this.stdout.write('\n');
    await this.stdout.flush();
  }
}
