/**
 * The policy of the scheduler: which queued runs start now.
 *
 * 1. Runs start in the order of the queue, within the concurrency limits.
 * 2. A local run that needs another model waits until no local run is active. An isolated run does
 *    the same, because it shares the engine with no other run.
 * 3. Such a run blocks the local runs behind it, so two models cannot starve each other.
 */

export interface QueuedRun {
  run_id: string;
  provider: string;
  model: string;
  /** The engine died while it computed this run. */
  isolated?: boolean;
}

export type ActiveRun = Omit<QueuedRun, 'run_id'>;

/** How many runs may be active at one time. */
export interface Concurrency {
  /** All providers together. */
  total: number;
  /** One provider, unless it has its own limit. */
  perProvider: number;
  /** The configured limit of one provider. */
  ofProvider?(provider: string): number | undefined;
  /** The local engine, which answers all its runs in one context. */
  local: number;
}

/** The runs to start now, in order. */
export function runsToStart(
  queue: readonly QueuedRun[],
  active: readonly ActiveRun[],
  limits: Concurrency,
): string[] {
  const running: ActiveRun[] = [...active];
  const started: string[] = [];
  let isLocalBlocked = false;
  for (const run of queue) {
    if (running.length >= limits.total) break;
    const peers = running.filter((other) => other.provider === run.provider);
    if (run.provider === 'local') {
      if (isLocalBlocked) continue;
      if (peers.length >= limits.local || peers.some((other) => !canShare(run, other))) {
        isLocalBlocked = true;
        continue;
      }
    } else if (peers.length >= (limits.ofProvider?.(run.provider) ?? limits.perProvider)) continue;
    running.push(run);
    started.push(run.run_id);
  }
  return started;
}

/** Whether the engine may compute both runs at the same time. */
function canShare(run: ActiveRun, other: ActiveRun): boolean {
  return run.model === other.model && run.isolated !== true && other.isolated !== true;
}
