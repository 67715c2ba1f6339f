import { createHash, createHmac } from 'node:crypto';
import type { RunInput } from '../../contract/contract.ts';
import { SvcError } from '../../errors.ts';
import type { EventStore } from '../../kernel/store/port.ts';
import type { RunKey } from '../../kernel/stream.ts';
import type { Placement } from '../placement.ts';

/**
 * Idempotency keys: the same key and request give the same run, also after a restart. It owns the
 * keys whose run is not recorded yet.
 *
 * 1. A key belongs to its recorded run, as long as the log has that run. The log is the truth.
 * 2. Of concurrent requests with one key, one starts a run and the others wait for it. After a
 *    refusal, the next one tries. Other daemons of the log wait too.
 * 3. Each asker has its keys apart. Older versions had one space for all. A key of an older version
 *    still leads only its asker to its run.
 */
export class Keys {
  private readonly store: EventStore;
  private readonly digests: Digests;
  private readonly placement: Pick<Placement, 'findOrStartRun'>;
  private readonly starting = new Map<string, Promise<unknown>>();

  constructor(store: EventStore, digests: Digests, placement: Pick<Placement, 'findOrStartRun'>) {
    this.store = store;
    this.digests = digests;
    this.placement = placement;
  }

  /**
   * The id of the key's run. `start` starts the run of a new key, with the id if it gets one.
   * Throws idempotency_conflict, and the errors of `start`.
   */
  async runOfKey(
    asked_by: string | null,
    written: string,
    input: RunInput,
    start: Start,
  ): Promise<string> {
    const key = keyOf(asked_by, written);
    for (
      let earlier = this.starting.get(key);
      earlier !== undefined;
      earlier = this.starting.get(key)
    )
      await earlier.catch(() => {});
    const run = this.findOrStart({ key, written, asked_by }, input, start);
    this.starting.set(key, run);
    try {
      return await run;
    } finally {
      this.starting.delete(key);
    }
  }

  private async findOrStart(key: RequestKey, input: RunInput, start: Start): Promise<string> {
    const find = () => this.find(key, input);
    return (await find()) ?? this.placement.findOrStartRun(key.key, find, start);
  }

  private async find(
    { key, written, asked_by }: RequestKey,
    input: RunInput,
  ): Promise<string | null> {
    const { store, digests } = this;
    const known = await store.getRunByKey(key);
    const row = known ?? (key === written ? null : await store.getRunByKey(written));
    if (row === null) return null;
    const isOwn = row !== known || asked_by === null;
    if (isOwn && (await store.askerOf(row.run_id)) !== asked_by) {
      // In an old log, which has each key only once, a token used this key of the home.
      if (row === known) throw new SvcError('idempotency_conflict', TAKEN, { param: PARAM });
      return null;
    }
    if (row.request_digest !== null && !digests.matches(row.request_digest, input))
      throw new SvcError('idempotency_conflict', undefined, { param: PARAM });
    return row.run_id;
  }
}

/** A key, as its asker wrote it and as the log finds it. */
interface RequestKey {
  key: string;
  written: string;
  asked_by: string | null;
}

const PARAM = 'idempotency_key';
const TAKEN = 'A token used the idempotency key before tokens had their keys apart.';

/** The key in the log. One of the home has no space. */
export function keyOf(asked_by: string | null, written: string): string {
  return asked_by === null ? written : `token ${asked_by} ${written}`;
}

type Start = (run_id?: RunKey) => Promise<string>;

/** Compares requests. A digest reveals no prompt to a reader without the secret of this home. */
export class Digests {
  private readonly secret: string;
  /** Whether the log has the whole request. Then a digest needs no secret. */
  private readonly keepsContent: boolean;

  constructor(secret: string, keepsContent: boolean) {
    this.secret = secret;
    this.keepsContent = keepsContent;
  }

  /** The digest to record with the key of a request. Null: no other request has this key. */
  of(input: RunInput): string | null {
    if (input.idempotency_key == null || UNIQUE_KEY.test(input.idempotency_key)) return null;
    return this.keepsContent ? requestDigest(input) : this.seal(input);
  }

  /**
   * Whether a recorded digest is the one of this request. An earlier version or other settings may
   * have recorded it.
   */
  matches(recorded: string, input: RunInput): boolean {
    const { tools, ...rest } = input;
    // An older version had no list where all tools are of servers.
    return (tools?.length === 0 ? [input, rest] : [input]).some(
      (one) => recorded === (recorded.startsWith(SEALED) ? this.seal(one) : requestDigest(one)),
    );
  }

  private seal(input: RunInput): string {
    const sum = createHmac('sha256', this.secret).update(canonicalRequest(input));
    return `${SEALED}${sum.digest('hex')}`;
  }
}

/** SHA-256 of a request, in hex. */
export function requestDigest(input: RunInput): string {
  return createHash('sha256').update(canonicalRequest(input)).digest('hex');
}

/** The fields of a request in one order, without its client, its origin and its key. */
function canonicalRequest(input: RunInput): string {
  const { idempotency_key: _key, cancel_on_disconnect: _cancel, ...identity } = input;
  const { client: _client, origin: _origin, ...rest } = identity;
  const fields = Object.entries(rest).filter(([, value]) => value !== undefined && value !== null);
  return JSON.stringify(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
}

const SEALED = 'hmac-sha256:';
/** The form of the keys that `svc run` makes, one for each run. */
const UNIQUE_KEY = /^svc-run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
