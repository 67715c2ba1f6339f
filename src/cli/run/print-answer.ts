import { plain } from '../../logs/plain.ts';
import { isTerminal } from '../print/output.ts';
import type { StdoutStream } from '../print/stdout-stream.ts';

/**
 * The answer on stdout, as it comes. Line breaks at its end are held back until more text follows, so that it ends with
 * exactly one; on a terminal, what would move the cursor is made visible. Nothing is printed of an answer that has no text.
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

  /** Whether the cursor is behind text of the answer; it counts as moved to a line of its own from then on. */
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

  /** Prints what of the answer has not been printed on the way, and the end of its last line. */
  async end(rest: string, complete: boolean): Promise<void> {
    await this.append(rest);
    if (this.begun || complete) await this.stdout.write('\n');
    await this.stdout.flush();
  }
}
