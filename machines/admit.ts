/**
 * Which queued run may start now: in the order of their turns, within the limits of each provider.
 * A local run whose model is not the loaded one waits until no other local run is active, and holds back those
 * behind it, so that two models cannot starve each other. So does an isolated one, which shares the engine with no other.
 */

export interface Waiting {
  run_id: string;
  provider: string;
  model: string;
  /** The engine died while it computed this run. */
  isolated?: boolean;
}

export type Active = Omit<Waiting, 'run_id'>;

export interface Places {
  /** Active runs, all providers together. */
  total: number;
  /** Active runs of one provider, where it has no number of its own. */
  perProvider: number;
  /** Active runs of a provider that is configured with a number of its own. */
  ofProvider?(provider: string): number | undefined;
  /** Active runs of the local engine, which answers them in one context. */
  local: number;
}

/** The runs to start now, in order. */
export function admit(
  queue: readonly Waiting[],
  active: readonly Active[],
  places: Places,
): string[] {
  const running: Active[] = [...active];
  const started: string[] = [];
  let localHeld = false;
  for (const run of queue) {
    if (running.length >= places.total) break;
    const peers = running.filter((other) => other.provider === run.provider);
    if (run.provider === 'local') {
      if (localHeld) continue;
      if (peers.length >= places.local || peers.some((other) => !mayShare(run, other))) {
        localHeld = true;
        continue;
      }
    } else if (peers.length >= (places.ofProvider?.(run.provider) ?? places.perProvider)) continue;
    running.push(run);
    started.push(run.run_id);
  }
  return started;
}

/** Whether the engine may compute both at one time. */
function mayShare(run: Active, other: Active): boolean {
  return run.model === other.model && run.isolated !== true && other.isolated !== true;
}
