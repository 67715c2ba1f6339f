import { plain } from '../../logs/plain.ts';
import { LineBreaks } from '../print/line-breaks.ts';
import { isTerminal, paint, writeError } from '../print/output.ts';

/**
 * What the model writes before its answer, dim on stderr. Only a terminal shows it: elsewhere it
 * would be mixed with messages. The record of the run keeps it.
 *
 * 1. Line breaks at the end wait in `breaks` until more text follows.
 * 2. `midLine` is true from a text until its line is left. What follows begins on a new line.
 * 3. `begun` is true from the first text until the answer follows.
 */
export class Thoughts {
  private readonly isShown: boolean;
  private readonly breaks = new LineBreaks();
  private begun = false;
  private midLine = false;

  constructor(wanted: boolean) {
    this.isShown = wanted && isTerminal(2);
  }

  append(text: string): void {
    if (!this.isShown) return;
    const body = this.breaks.follow(text);
    if (body === '') return;
    this.begun = true;
    this.midLine = true;
    writeError(paint('dim', plain(body), 2));
  }

  /** The answer follows, after an empty line if the same terminal shows it. */
  end(): void {
    if (!this.begun) return;
    this.leaveLine();
    if (isTerminal(1)) writeError('\n');
    this.begun = false;
    this.breaks.drop();
  }

  leaveLine(): void {
    if (this.midLine) writeError('\n');
    this.midLine = false;
  }
}
