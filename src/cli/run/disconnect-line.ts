import { isTerminal, note } from '../print/output.ts';

const TEXT = 'The daemon is gone; waiting for it to come back.';
const EVERY_MS = 1000;

/**
 * The message while the daemon is gone. A terminal shows one line that counts the seconds and is
 * erased later. Elsewhere it is printed once per command, however often the daemon goes.
 */
export class DisconnectLine {
  private readonly leaveLine: () => boolean;
  private timer: NodeJS.Timeout | null = null;
  private noted = false;

  /** `leaveLine` returns whether the cursor is behind text of the answer. */
  constructor(leaveLine: () => boolean) {
    this.leaveLine = leaveLine;
  }

  begin(): void {
    if (this.timer !== null) return;
    if (!isTerminal(2)) {
      if (!this.noted) note(TEXT);
      this.noted = true;
      return;
    }
    const since = performance.now();
    const show = () =>
      process.stderr.write(`\r\u001b[K${TEXT} ${Math.round((performance.now() - since) / 1000)} s`);
    if (isTerminal(1) && this.leaveLine()) process.stderr.write('\n');
    show();
    this.timer = setInterval(show, EVERY_MS);
  }

  end(): void {
    if (this.timer === null) return;
    clearInterval(this.timer);
    this.timer = null;
    process.stderr.write('\r\u001b[K');
  }
}
