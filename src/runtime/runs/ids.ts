import { monotonicFactory } from 'ulid';
import type { RunKey } from '../../kernel/stream.ts';

const next = monotonicFactory();

/** Ids sort by the time of their creation. */
export function newRunId(): RunKey {
  return `run_${next()}`;
}

export function newPullId(): string {
  return `pull_${next()}`;
}

export function newBootId(): string {
  return `boot_${next()}`;
}

/** An id of a request, as an error quotes it. A long one is cut. */
export function shownId(id: string): string {
  return JSON.stringify(id.slice(0, SHOWN_MAX));
}

const SHOWN_MAX = 80;
