import { createHash, createHmac } from 'node:crypto';
import { SvcError } from '../../errors.ts';
import type { EventStore } from '../../store/port.ts';
import type { RunInput } from '../contract.ts';

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
  private readonly digests: Digests;
  private readonly starting = new Map<string, Promise<unknown>>();

  constructor(store: EventStore, digests: Digests) {
    this.store = store;
    this.digests = digests;
  }

  /** The id of the run of the key, started by `start` unless there is one. Throws idempotency_conflict, and what `start` throws. */
  async once(key: string, input: RunInput, start: () => Promise<string>): Promise<string> {
    for (
      let earlier = this.starting.get(key);
      earlier !== undefined;
      earlier = this.starting.get(key)
    )
      await earlier.catch(() => {});
    const mine = this.findOrStart(key, input, start);
    this.starting.set(key, mine);
    try {
      return await mine;
    } finally {
      this.starting.delete(key);
    }
  }

  private async findOrStart(
    key: string,
    input: RunInput,
    start: () => Promise<string>,
  ): Promise<string> {
    const found = await this.store.getRunByKey(key);
    if (found === null) return start();
    if (found.request_digest !== null && !this.digests.matches(found.request_digest, input))
      throw new SvcError('idempotency_conflict', undefined, { param: 'idempotency_key' });
    return found.run_id;
  }
}

/** Tells a request from another, and says nothing of a prompt to a reader without the secret of this home. */
export class Digests {
  private readonly secret: string;
  /** Whether the log holds all that was asked; then a digest tells nothing that the log does not. */
  private readonly isKept: boolean;

  constructor(secret: string, isKept: boolean) {
    this.secret = secret;
    this.isKept = isKept;
  }

  /** What is recorded with the key of a request; null where the key is unlike any other, so that there is nothing to tell apart. */
  of(input: RunInput): string | null {
    if (input.idempotency_key == null || MADE_KEY.test(input.idempotency_key)) return null;
    return this.isKept ? requestDigest(input) : this.sealed(input);
  }

  /** Whether a digest, also one of an earlier version or of other settings, is that of this request. */
  matches(recorded: string, input: RunInput): boolean {
    return recorded === (recorded.startsWith(SEALED) ? this.sealed(input) : requestDigest(input));
  }

  private sealed(input: RunInput): string {
    return `${SEALED}${createHmac('sha256', this.secret).update(asked(input)).digest('hex')}`;
  }
}

/** SHA-256, in hex, of what was asked. */
export function requestDigest(input: RunInput): string {
  return createHash('sha256').update(asked(input)).digest('hex');
}

/** What was asked: the same for the same fields in any order. Who asks, and under which key, is not part of it. */
function asked(input: RunInput): string {
  const { idempotency_key: _key, client: _client, cancel_on_disconnect: _cancel, ...rest } = input;
  const fields = Object.entries(rest).filter(([, value]) => value !== undefined && value !== null);
  return JSON.stringify(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
}

const SEALED = 'hmac-sha256:';
/** The form of the keys that `svc run` makes for itself, one for each run. */
const MADE_KEY = /^svc-run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
