import { SvcError } from '../../errors.ts';

/** How far a run has been followed. */
export interface Cursor {
  /** Null until the daemon has accepted the run. */
  id: string | null;
  /** Position of the first event that was not consumed. */
  next_seq: number;
  /** The provider that is asked at present, if it is known. */
  provider?: string;
}

/** Lost connections in a row without a new event. */
const RECONNECTS_MAX = 5;

/**
 * Counts how often the daemon was lost, and says when to give up.
 *
 * 1. A connection that brings no event counts; after `RECONNECTS_MAX` in a row the error is thrown.
 * 2. Even with progress, the losses end after the patience. A connection that lasts as long as the
 *    patience starts it again.
 */
export class Losses {
  private readonly patience: () => Promise<number>;
  private count = 0;
  private withoutProgress = 0;
  private firstAt: number | null = null;
  private connectedAt: number | null = null;

  constructor(patience: () => Promise<number>) {
    this.patience = patience;
  }

  connected(): void {
    this.connectedAt = elapsedMs();
  }

  /** Throws the final error when there were too many losses. */
  async add(error: SvcError, cursor: Cursor, progress: boolean): Promise<void> {
    const now = elapsedMs();
    const patienceMs = await this.patience();
    if (this.connectedAt !== null && now - this.connectedAt >= patienceMs) {
      this.firstAt = null;
      this.count = 0;
    }
    this.connectedAt = null;
    this.firstAt ??= now;
    this.count += 1;
    this.withoutProgress = progress ? 0 : this.withoutProgress + 1;
    if (this.withoutProgress > RECONNECTS_MAX) throw noProgress(error, cursor);
    if (now - this.firstAt < patienceMs) return;
    throw new SvcError(
      'run_interrupted',
      `The daemon was lost ${this.count} times in ${Math.round((now - this.firstAt) / 1000)} s.`,
      { hint: `See why with: svc doctor. Then ${again(cursor)}` },
    );
  }
}

/** Without the global `performance`, which is slow to load. */
function elapsedMs(): number {
  return process.uptime() * 1000;
}

function noProgress(error: SvcError, cursor: Cursor): unknown {
  if (error.code === 'connection_lost' || cursor.id === null) return withHint(error, cursor);
  return new SvcError('run_interrupted', `The daemon did not come back. ${error.message}`, {
    cause: error,
    hint: `See why with: svc doctor. Then ${again(cursor)}`,
  });
}

/** Adds how to follow the run later, if it has an id. */
export function withHint(error: unknown, { id }: Cursor): unknown {
  if (id === null || !(error instanceof SvcError)) return error;
  const hints: Record<string, string> = {
    descriptors_exhausted: `The run continues: svc runs attach ${id}`,
    connection_lost: `Run: svc start, then svc runs attach ${id}`,
  };
  const hint = hints[error.code];
  return hint === undefined
    ? error
    : new SvcError(error.code, error.message, { cause: error.cause, hint });
}

/** What to do once the daemon runs again. */
export function again({ id }: Cursor): string {
  return id === null ? 'run the command again' : `run: svc runs attach ${id}`;
}
