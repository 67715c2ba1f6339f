import { monotonicFactory } from 'ulid';

const next = monotonicFactory();

/** Ids sort by the time they were made. */
export function newRunId(): string {
  return `run_${next()}`;
}

export function newPullId(): string {
  return `pull_${next()}`;
}

export function newBootId(): string {
  return `boot_${next()}`;
}
