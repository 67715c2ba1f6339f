import { SvcError } from '../../../src/errors.ts';
import type {
  JoinResult,
  NodeFacts,
  NodeLoad,
  NodeRow,
  NodeState,
  Renewal,
  TakenOver,
} from '../../../src/fleet/port.ts';

/**
 * The leases of a fleet in memory. It owns the rows of the nodes, and when each boot was last seen.
 *
 * 1. An epoch only rises: with each join, and when a node leaves or is taken over.
 * 2. A node is present while it has the epoch of its last join.
 */
export class MemoryLeases {
  readonly lease_ms: number;
  private readonly now: () => number;
  private readonly nodes = new Map<string, Node>();
  /** When each boot last joined, renewed or appended. */
  private readonly seen = new Map<string, number>();

  constructor(now: () => number, lease_ms: number) {
    this.now = now;
    this.lease_ms = lease_ms;
  }

  /** The lease, renewed if it is late. */
  hold(lease: Lease | null): Lease {
    const node = lease === null ? undefined : this.presentOf(lease);
    if (lease === null || node === undefined) throw new SvcError('lease_lost');
    if (node.until <= this.now()) this.extend(node);
    return lease;
  }

  isPresent(lease: Epoch): boolean {
    return this.presentOf(lease) !== undefined;
  }

  private presentOf({ node_id, epoch }: Epoch): Node | undefined {
    const node = this.nodes.get(node_id);
    return node?.epoch === epoch && node.gone === null ? node : undefined;
  }

  private extend(node: Node): void {
    const now = this.now();
    if (node.until <= now) node.late_at = now;
    node.until = now + this.lease_ms;
    this.sees(node.facts.boot_id);
  }

  join(facts: NodeFacts, replaces: string | null): { granted: Lease; joined: JoinResult } {
    const now = this.now();
    const before = this.nodes.get(facts.node_id);
    const isHeld = before !== undefined && before.gone === null && before.until > now;
    if (isHeld && before.facts.boot_id !== replaces)
      throw new SvcError(
        'daemon_already_running',
        `Another daemon is the node ${facts.node_id} of this fleet.`,
        { details: { retry_after_ms: before.until - now } },
      );
    const epoch = (before?.epoch ?? 0) + 1;
    const until = now + this.lease_ms;
    this.nodes.set(facts.node_id, {
      facts,
      epoch,
      until,
      since: now,
      late_at: null,
      draining: false,
      active: 0,
      gone: null,
    });
    this.sees(facts.boot_id);
    return {
      granted: { node_id: facts.node_id, boot_id: facts.boot_id, epoch },
      joined: { epoch, lease_ms: this.lease_ms, previous_boot_id: before?.facts.boot_id ?? null },
    };
  }

  renew(lease: Lease | null, { active, capacity, clock }: NodeLoad): Renewal {
    const node = lease === null ? undefined : this.presentOf(lease);
    if (node === undefined) return 'lost';
    this.extend(node);
    node.active = active;
    node.facts = { ...node.facts, capacity, clock };
    return node.draining ? 'drain' : 'held';
  }

  /** True if there was a lease to end. */
  leave(lease: Lease | null): boolean {
    const node = lease === null ? undefined : this.presentOf(lease);
    if (node !== undefined) end(node, 'left');
    return node !== undefined;
  }

  rows(): NodeRow[] {
    const now = this.now();
    return [...this.nodes.values()]
      .map((node) => ({
        ...node.facts,
        clock: node.facts.clock ?? null,
        state: stateOf(node, now),
        epoch: node.epoch,
        since: node.since,
        active: node.active,
        lease_ms_left: node.gone === null ? Math.max(0, node.until - now) : 0,
      }))
      .sort((a, b) => (a.node_id < b.node_id ? -1 : 1));
  }

  get isAnyLate(): boolean {
    return [...this.nodes.values()].some(({ gone, until }) => gone === null && until <= this.now());
  }

  drain(node_id: string): boolean {
    const node = this.nodes.get(node_id);
    if (node === undefined || node.gone !== null) return false;
    node.draining = true;
    return true;
  }

  /** Fences the nodes whose lease has ended. */
  takeOver({ node_id }: Lease): Omit<TakenOver, 'runs'>[] {
    const now = this.now();
    const { late_at = null } = this.nodes.get(node_id) ?? {};
    if (late_at !== null && now < late_at + this.lease_ms) return [];
    const dead = [...this.nodes.values()].filter(
      (node) => node.gone === null && node.until <= now && node.facts.node_id !== node_id,
    );
    return dead.map((node) => {
      const { node_id, boot_id } = node.facts;
      const { epoch } = node;
      end(node, 'lost');
      return { node_id, boot_id, epoch };
    });
  }

  sees(boot_id: string): void {
    this.seen.set(boot_id, this.now());
  }

  /** Milliseconds since this boot was last seen; null if it never was. */
  unseen(boot_id: string): number | null {
    const at = this.seen.get(boot_id);
    return at === undefined ? null : Math.max(0, this.now() - at);
  }
}

export interface Epoch {
  node_id: string;
  epoch: number;
}

export interface Lease extends Epoch {
  boot_id: string;
}

interface Node {
  facts: NodeFacts;
  epoch: number;
  until: number;
  since: number;
  /** When its lease was last found ended, and renewed. */
  late_at: number | null;
  draining: boolean;
  active: number;
  gone: 'left' | 'lost' | null;
}

/** Fences a node: its epoch is not the present one any more. */
function end(node: Node, how: 'left' | 'lost'): void {
  node.epoch += 1;
  node.gone = how;
  node.active = 0;
}

function stateOf({ gone, draining, until }: Node, now: number): NodeState {
  if (gone !== null) return gone;
  if (until <= now) return 'late';
  return draining ? 'draining' : 'active';
}
