/**
 * Whose turn it is at one provider: start-time fair queueing, with one unit of service a run. Each client's runs stand one round apart, so that
 * a client with a hundred runs and one with a single run are served in turn; and no client waits for more than one run of each other.
 *
 * 1. Within one client, first come first served.
 * 2. A client that comes anew stands in the present round, neither before those who wait nor behind the long row of another.
 * 3. A run that leaves without having been served costs its client no turn.
 */
export interface Turns {
  /** The round that is being served. */
  round: number;
  /** The round of each client's next run; clients whose next run would be in the present round are left out. */
  next: ReadonlyMap<string, number>;
}

export const noTurns: Turns = { round: 0, next: new Map() };

/** The round of a run that has just come; runs are served by round, then in the order in which they came. */
export function arrive({ round, next }: Turns, client: string): { turns: Turns; at: number } {
  const at = Math.max(round, next.get(client) ?? 0);
  return { turns: { round, next: new Map(next).set(client, at + 1) }, at };
}

/** A run of this round is served. */
export function serve({ round, next }: Turns, at: number): Turns {
  if (at <= round) return { round, next };
  return { round: at, next: new Map([...next].filter(([, later]) => later > at)) };
}

/** A run of this client leaves without having been served: what the client has behind it comes one round earlier. */
export function leave({ round, next }: Turns, client: string): Turns {
  const at = (next.get(client) ?? 0) - 1;
  const others = new Map(next);
  if (at > round) others.set(client, at);
  else others.delete(client);
  return { round, next: others };
}
