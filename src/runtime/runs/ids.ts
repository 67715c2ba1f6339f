import { randomFillSync } from 'node:crypto';
import { monotonicFactory } from 'ulid';
import type { RunKey } from '../../kernel/stream.ts';

/** An id needs 16 random bytes. One call of the system fetches those of many ids. */
const pool = new Uint8Array(1024);
let used = pool.length;

function random(): number {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += 1;
  return (pool[used - 1] ?? 0) / 256;
}

const next = monotonicFactory(random);

/** Ids sort by the time of their creation. */
export function newRunId(): RunKey {
  return `run_${next()}`;
}

export function newConversationId(): string {
  return `${MADE}${next()}`;
}

/** Whether it names a conversation that a program made. Others have the name of their first run. */
export function isMade(conversation: string): boolean {
  return conversation.startsWith(MADE) && /^[0-9A-Z]{26}$/.test(conversation.slice(MADE.length));
}
const MADE = 'conv_';

export function newPullId(): string {
  return `pull_${next()}`;
}

export function newBootId(): string {
  return `boot_${next()}`;
}

/** A home has one for ever. */
export function newNodeId(): string {
  return `node_${next()}`;
}

/** An id of a request, as an error quotes it. A long one is cut. */
export function shownId(id: string): string {
  return JSON.stringify(id.slice(0, SHOWN_MAX));
}

const SHOWN_MAX = 80;
