import { oneLine } from '../../logs/plain.ts';
import { takeFitting, terminalColumns } from '../../logs/width.ts';
import {
  beforeNotes,
  ERASE,
  isTerminal,
  note,
  paint,
  writeError,
} from '../terminal/print/output.ts';
import {
  type Fact,
  idle,
  LOST,
  type Progress,
  progressAfter,
  progressText,
  retryOf,
} from './progress.ts';

/** Shows the reason for the wait. */
export interface Shows {
  add(fact: Fact): void;
}

/** Time and the terminal. A test has its own. */
export interface Screen {
  /** Monotonic, in milliseconds. */
  now(): number;
  /** Calls it repeatedly, until the returned function is called. */
  every(ms: number, call: () => void): () => void;
  write(text: string): void;
  columns(): number;
  /** Moves the cursor to the beginning of a line, if it is behind text of the answer. */
  leaveText(): void;
}

const EVERY_MS = 250;

/**
 * The line of a terminal that names the reason for the wait.
 *
 * 1. It is the last line, and it is erased before anything else is written.
 * 2. It is rewritten only when its text changes.
 */
export class StatusLine implements Shows {
  private readonly screen: Screen;
  private progress: Progress = idle;
  private shown: string | null = null;
  private stop: (() => void) | null = null;

  constructor(screen: Screen) {
    this.screen = screen;
  }

  add(fact: Fact): void {
    this.progress = progressAfter(this.progress, fact, this.screen.now());
    this.draw();
    if (this.progress.wait === null) {
      this.stop?.();
      this.stop = null;
    } else this.stop ??= this.screen.every(EVERY_MS, () => this.draw());
  }

  /** Another text follows. The line returns with its next change. */
  erase(): void {
    if (this.shown !== null) this.screen.write(ERASE);
    this.shown = null;
  }

  private draw(): void {
    const text = progressText(this.progress, this.screen.now());
    if (text === null) {
      this.erase();
      return;
    }
    const cut = takeFitting(oneLine(text), this.screen.columns() - 1);
    if (cut === this.shown) return;
    if (this.shown === null) this.screen.leaveText();
    this.screen.write(`${ERASE}${paint('dim', cut, 2)}`);
    this.shown = cut;
  }
}

/** Without a terminal each failure is a line, and a lost daemon is reported once. */
class Notes implements Shows {
  private hasNotedLoss = false;

  add(fact: Fact): void {
    if (fact.type === 'failed') {
      const { why, when } = retryOf(fact, fact.wait_ms);
      note(oneLine(`${why}. ${when}.`));
    }
    if (fact.type !== 'lost' || this.hasNotedLoss) return;
    this.hasNotedLoss = true;
    note(LOST);
  }
}

/** Shows the wait on stderr, if it is read by a person. */
export function showWait(json: boolean, leaveText: () => void): Shows {
  if (json) return { add: () => {} };
  if (!isTerminal(2) || process.env.TERM === 'dumb') return new Notes();
  const line = new StatusLine({
    now: () => performance.now(),
    every: (ms, call) => {
      const timer = setInterval(call, ms).unref();
      return () => clearInterval(timer);
    },
    write: writeError,
    columns: () => terminalColumns(process.stderr),
    leaveText,
  });
  beforeNotes(() => {
    line.erase();
    leaveText();
  });
  return line;
}
