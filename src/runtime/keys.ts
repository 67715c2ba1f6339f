import { createHash } from 'node:crypto';
import { SvcError } from '../errors.ts';
import type { EventStore } from '../store/store.ts';
import type { RunInput } from './runtime.ts';

/**
 * Idempotency keys: the same key and request give the same run, also after a restart and when they are sent at the same time.
 *
 * 1. A key belongs to the run that was recorded with it, as long as the log has that run. The log is the truth; here are only
 *    the keys whose run is not recorded yet.
 * 2. Of several requests with one key that come together, one starts a run and the others wait for it. When it is refused,
 *    the next one tries.
 */
export class Keys {
  private readonly store: EventStore;
  private readonly starting = new Map<string, Promise<unknown>>();

  constructor(store: EventStore) {
    this.store = store;
  }

  /** The id of the run of the key, started by `start` unless there is one. Throws idempotency_conflict, and what `start` throws. */
  async once(key: string, digest: string, start: () => Promise<string>): Promise<string> {
    for (let earlier = this.starting.get(key); earlier !== undefined; earlier = this.starting.get(key)) await earlier.catch(() => {});
    const mine = this.findOrStart(key, digest, start);
    this.starting.set(key, mine);
    try {
      return await mine;
    } finally {
      this.starting.delete(key);
    }
  }

  private async findOrStart(key: string, digest: string, start: () => Promise<string>): Promise<string> {
    const found = await this.store.getRunByKey(key);
    if (found === null) return start();
    if (found.request_digest !== null && found.request_digest !== digest) throw new SvcError('idempotency_conflict', undefined, { param: 'idempotency_key' });
    return found.run_id;
  }
}

/** SHA-256, in hex, of what was asked: the same for the same fields in any order. Who asks, and under which key, is not part of it. */
export function requestDigest(input: RunInput): string {
  const { idempotency_key: _key, client: _client, cancel_on_disconnect: _cancel, ...asked } = input;
  const fields = Object.entries(asked).filter(([, value]) => value !== undefined && value !== null);
  return createHash('sha256')
    .update(JSON.stringify(fields.sort(([a], [b]) => (a < b ? -1 : 1))))
    .digest('hex');
}
