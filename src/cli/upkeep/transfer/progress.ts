import { beforeNotes, ERASE, isTerminal, writeError } from '../../terminal/print/output.ts';

/** Between two changes of the line. */
const STEP_MS = 200;

/** One line on stderr at a terminal, which is overwritten and erased: how much of a log is done. */
export class EventProgress {
  private readonly isShown: boolean;
  private nextAt = 0;

  /** `isShown`: false where the line would mix with other output. */
  constructor(isShown: boolean) {
    this.isShown = isShown && isTerminal(2);
    if (this.isShown) beforeNotes(() => this.erase());
  }

  at(events: number, of: number): void {
    const now = performance.now();
    if (!this.isShown || now < this.nextAt) return;
    this.nextAt = now + STEP_MS;
    writeError(`${ERASE}${events} of ${of} events (${Math.floor((events / of) * 100)}%)`);
  }

  private erase(): void {
    if (this.nextAt > 0) writeError(ERASE);
    this.nextAt = 0;
  }
}
