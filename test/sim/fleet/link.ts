import type { FleetChange, SharedStore, TakenOver } from '../../../src/fleet/port.ts';

/**
 * The way of one node to the log. While it is cut, calls wait, and so do answers of calls that the
 * log has taken. The clock of the node stops meanwhile, as that of a paused process does.
 */
export class Link {
  private opened: Promise<void> = Promise.resolve();
  private open: (() => void) | null = null;

  get isCut(): boolean {
    return this.open !== null;
  }

  cut(): void {
    if (this.open !== null) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    [this.opened, this.open] = [promise, resolve];
  }

  heal(): void {
    this.open?.();
    this.open = null;
  }

  async call<T>(work: () => Promise<T>): Promise<T> {
    await this.reach();
    const answer = await work();
    await this.reach();
    return answer;
  }

  private async reach(): Promise<void> {
    while (this.open !== null) await this.opened;
  }
}

/** The store as a node behind this link sees it. `onTaken` hears of take-overs at once. */
export function linked(
  store: SharedStore,
  link: Link,
  onTaken: (nodes: readonly TakenOver[]) => void,
): SharedStore {
  const through = <T extends object>(methods: T): T =>
    Object.fromEntries(
      Object.entries(methods).map(([name, method]) => [
        name,
        typeof method === 'function'
          ? (...args: unknown[]) => link.call(() => method.apply(methods, args))
          : method,
      ]),
    ) as T;
  const { fleet } = store;
  const takeOver = async () => {
    const taken = await fleet.takeOver();
    onTaken(taken);
    return taken;
  };
  return {
    ...through(store),
    fleet: {
      ...through({ ...fleet, takeOver }),
      onChange: (listener: (change: FleetChange) => void, signal: AbortSignal) =>
        fleet.onChange((change) => {
          if (!link.isCut) listener(change);
        }, signal),
    },
  };
}
