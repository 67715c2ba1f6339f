import { hasCode, SvcError } from '../../errors.ts';
import { type Clock, pause } from '../../kernel/clock.ts';
import type { RunKey } from '../../kernel/stream.ts';
import type { Fleet } from '../../store/fleet.ts';
import { newRunId } from '../runs/ids.ts';

/**
 * One run for a key in the whole fleet. A key is reserved before its run is accepted, so two nodes
 * never accept two. Afterwards the log itself has the key.
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
  async once(
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

  private async begin(
    key: string,
    run_id: RunKey,
    find: () => Promise<string | null>,
    start: (run_id: RunKey) => Promise<string>,
  ): Promise<string> {
    let isUnconfirmed = false;
    try {
      // The run of an earlier reservation may be in the log by now.
      return (await find()) ?? (await start(run_id));
    } catch (error) {
      isUnconfirmed = UNCONFIRMED.some((code) => hasCode(error, code));
      throw error;
    } finally {
      // A reservation that stays ends with this boot, or with the run.
      if (!isUnconfirmed) await this.fleet.freeKey(key, run_id).catch(() => {});
    }
  }
}

/** Looks while another node has the key. */
const WAITS = 50;
/** The run may be accepted yet. */
const UNCONFIRMED = ['store_stalled', 'run_unconfirmed'] as const;
