/**
 * Start-time fair queueing for one provider, with one unit of service per run. The runs of one
 * client are one round apart, so clients are served in turn, however many runs they have.
 *
 * 1. Within one client: first come, first served.
 * 2. A client with nothing queued joins the current round. It does not jump the queue, and does not
 *    wait behind the backlog of another client.
 * 3. A run that leaves before it is served costs its client no turn.
 */
export interface FairQueue {
  /** The current round. */
  round: number;
  /** The round of each client's next run; no entry means the current round. */
  next: ReadonlyMap<string, number>;
}

export const emptyQueue: FairQueue = { round: 0, next: new Map() };

/** The round of a new run. Runs are served by round, then in the order of their arrival. */
export function arrive(
  { round, next }: FairQueue,
  client: string,
): { queue: FairQueue; at: number } {
  const at = Math.max(round, next.get(client) ?? 0);
  return { queue: { round, next: new Map(next).set(client, at + 1) }, at };
}

/** Serves a run of this round. */
export function serve({ round, next }: FairQueue, at: number): FairQueue {
  if (at <= round) return { round, next };
  return { round: at, next: new Map([...next].filter(([, later]) => later > at)) };
}

/** Removes a run that was not served: the client's later runs move up one round. */
export function leave({ round, next }: FairQueue, client: string): FairQueue {
  const at = (next.get(client) ?? 0) - 1;
  const others = new Map(next);
  if (at > round) others.set(client, at);
  else others.delete(client);
  return { round, next: others };
}
