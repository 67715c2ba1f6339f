import type { Test } from 'uvu';
import type { ClaimedRun, LookQuery, NodeFacts, SharedStore } from '../../../src/fleet/port.ts';
import type { Commit, RunRow } from '../../../src/kernel/store/port.ts';
import { accepted, event } from './samples.ts';

/** A log that several nodes write. */
export interface FleetSubject {
  /** Another access to the log. It is not open yet. */
  store(): SharedStore;
  /** Lets so much time pass on the clock of the database. */
  pass(ms: number): Promise<void>;
  remove(): Promise<void>;
}

/** The leases of a subject last so long. */
export const LEASE_MS = 10_000;

/** A test with the nodes of a new fleet. */
export function fleetTest(test: Test, make: () => Promise<FleetSubject>): FleetTest {
  return (name, work) =>
    test(name, async () => {
      const nodes = new Nodes(await make());
      try {
        await work(nodes);
      } finally {
        await nodes.close();
      }
    });
}

export type FleetTest = (name: string, work: (nodes: Nodes) => Promise<void>) => void;

export class Nodes {
  readonly subject: FleetSubject;
  private readonly stores: SharedStore[] = [];

  constructor(subject: FleetSubject) {
    this.subject = subject;
  }

  async open(): Promise<SharedStore> {
    const store = this.subject.store();
    this.stores.push(store);
    await store.open();
    return store;
  }

  /** An access that has joined, as the node `name`. */
  async join(name: string, changes: Partial<NodeFacts> = {}): Promise<SharedStore> {
    const store = await this.open();
    await store.fleet.join(facts(name, changes), null);
    return store;
  }

  pass(ms: number): Promise<void> {
    return this.subject.pass(ms);
  }

  async close(): Promise<void> {
    for (const store of this.stores) await store.close();
    await this.subject.remove();
  }
}

export function facts(name: string, changes: Partial<NodeFacts> = {}): NodeFacts {
  return {
    node_id: name,
    boot_id: `boot_${name}`,
    version: '1.0.0',
    host: 'here',
    capacity: 4,
    addresses: { http: null, grpc: null, socket: null },
    ...changes,
  };
}

export const LOAD = { active: 0, capacity: 4 };

/** The first events of these runs, by the boot of this node. */
export function accept(name: string, ...rows: RunRow[]): Commit {
  const { events, runs } = accepted(
    1,
    rows.map((row, index) => ({ ...row, seq: 1 + index })),
  );
  return { events: events.map((one) => ({ ...one, boot_id: `boot_${name}` })), runs };
}

/** A later event of a run, with its row. */
export function next(name: string, version: number, row: RunRow): Commit {
  return {
    events: [event(1, row.run_id, version, { boot_id: `boot_${name}` })],
    runs: [{ ...row, seq: 1 }],
  };
}

export const ALL = { providers: ['local', 'cloud'], models: [], files: [], limit: 100 };
/** A look of a node whose providers take each model. */
export const LOOK: LookQuery = { most: 9, left_ms: 60_000, lists: [], listed: [] };
export const NONE = { unlisted: [], left: [] };
export const ids = (runs: readonly ClaimedRun[]) => runs.map(({ run_id }) => run_id);
