import { type Clock, pause } from '../async/clock.ts';
import { hasCode, SvcError } from '../errors.ts';
import type { RunKey } from '../kernel/stream.ts';
import { newRunId } from '../runtime/runs/ids.ts';
import type { Fleet } from './port.ts';

/**
 * Fleet-wide reservations, for keys and turns that a single daemon separates in its memory.
 *
 * 1. A key has one run. It is reserved before its run is accepted, so two nodes never accept two.
 *    Afterwards the log itself has the key.
 * 2. A conversation has one turn that begins. It is reserved until its run is accepted. Afterwards
 *    the log has a run of it that has not ended.
 */
export class FleetKeys {
  private readonly fleet: Pick<Fleet, 'reserveKey' | 'freeKey'>;
  private readonly clock: Clock;
  private readonly wait_ms: number;

  constructor(fleet: FleetKeys['fleet'], clock: Clock, wait_ms: number) {
    this.fleet = fleet;
    this.clock = clock;
    this.wait_ms = wait_ms;
  }

  /**
   * The run of this key. `find` looks for it, and `start` accepts it with this id. Throws busy when
   * another node takes too long, and the errors of both.
   */
  async runOnce(
    key: string,
    find: () => Promise<string | null>,
    start: (run_id: RunKey) => Promise<string>,
  ): Promise<string> {
    for (let wait = 0; wait < WAITS; wait += 1) {
      const run_id = newRunId();
      if ((await this.fleet.reserveKey(key, run_id)) === run_id)
        return this.begin(key, run_id, find, start);
      const found = await find();
      if (found !== null) return found;
      await pause(this.clock, this.wait_ms / WAITS, new AbortController().signal);
    }
    throw new SvcError('busy', 'Another node accepts a run with this idempotency key.', {
      details: { retry_after_ms: this.wait_ms / WAITS },
    });
  }

  /**
   * Keeps the other nodes out of a conversation meanwhile. `run_id`: the turn, if it is one. Null:
   * another node is there.
   */
  async runAlone<T>(
    conversation: string,
    run_id: RunKey,
    work: () => Promise<T>,
  ): Promise<{ done: T } | null> {
    // The key of a request has no space.
    const key = `conversation ${conversation}`;
    if ((await this.fleet.reserveKey(key, run_id)) !== run_id) return null;
    return this.keepReserved(key, run_id, async () => ({ done: await work() }));
  }

  private begin(
    key: string,
    run_id: RunKey,
    find: () => Promise<string | null>,
    start: (run_id: RunKey) => Promise<string>,
  ): Promise<string> {
    // The run of an earlier reservation may be in the log by now.
    return this.keepReserved(key, run_id, async () => (await find()) ?? (await start(run_id)));
  }

  /** A reservation that stays ends with this boot, or when its run is accepted. */
  private async keepReserved<T>(key: string, run_id: RunKey, work: () => Promise<T>): Promise<T> {
    let isUnconfirmed = false;
    try {
      return await work();
    } catch (error) {
      isUnconfirmed = UNCONFIRMED.some((code) => hasCode(error, code));
      throw error;
    } finally {
      if (!isUnconfirmed) await this.free(key, run_id);
    }
  }

  /** Keeps trying in the background while the database is away. */
  private async free(key: string, run_id: RunKey): Promise<void> {
    const tried = await this.fleet.freeKey(key, run_id).catch((error: unknown) => error);
    if (!hasCode(tried, 'store_stalled')) return;
    this.clock.after(this.wait_ms / WAITS, () => void this.free(key, run_id));
  }
}

/** Looks while another node has the key. */
const WAITS = 50;
/** The run may be accepted yet. */
const UNCONFIRMED = ['store_stalled', 'run_unconfirmed'] as const;
