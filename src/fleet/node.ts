import { hostname } from 'node:os';
import { hasCode, SvcError } from '../errors.ts';
import { hostBootId } from '../home/host.ts';
import { type NodeFile, readNodeFile, writeNodeFile } from '../home/node-file.ts';
import type { Paths } from '../home/paths.ts';
import { ownerOf, readRuntimeFile } from '../home/runtime-file.ts';
import { SystemClock } from '../kernel/clock.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Log } from '../kernel/port.ts';
import type { Limits } from '../limits.ts';
import { newNodeId } from '../runtime/runs/ids.ts';
import type { FleetClock } from './clock.ts';
import { LeaseKeeper, type LeaseKeeperOptions } from './lease-keeper.ts';
import type { NodeFacts, SharedStore } from './port.ts';

export interface NodeOptions {
  store: SharedStore;
  paths: Paths;
  kernel: Kernel;
  time: FleetClock;
  log: Log;
  limits: Pick<Limits, 'lease_renew_ms'>;
  boot_id: string;
  version: string;
  load: LeaseKeeperOptions['load'];
  onLost(error: SvcError): void;
}

/** This daemon as a node of its fleet: its name in the home, and its lease. */
export class Node {
  readonly keeper: LeaseKeeper;
  private readonly options: NodeOptions;
  private readonly file: NodeFile;
  private readonly replaces: string | null;
  private onDrain = () => {};

  /** Throws home_unusable. */
  constructor(options: NodeOptions) {
    this.options = options;
    const { paths, boot_id, store } = options;
    this.file = readNodeFile(paths.node) ?? {
      node_id: newNodeId(),
      boot_id: null,
      host_boot_id: null,
    };
    // The runtime file is still that of the boot before.
    this.replaces = this.endedBoot();
    const { node_id } = this.file;
    this.keeper = new LeaseKeeper({
      ...options,
      clock: new SystemClock(),
      fleet: store.fleet,
      onDrain: () => this.onDrain(),
      node: { node_id, boot_id, host: hostname() },
    });
  }

  /** Joins the fleet. The file has the name before the fleet does, so that it is never lost. */
  async join(addresses: NodeFacts['addresses'], onDrain: () => void): Promise<string | null> {
    this.onDrain = onDrain;
    const { paths, boot_id, version, load } = this.options;
    await writeNodeFile(paths.node, this.file);
    const { capacity } = load();
    const joined = await this.keeper
      .join({ version, capacity, addresses }, this.replaces)
      .catch((error: unknown) => {
        throw hasCode(error, 'daemon_already_running') ? this.taken(error) : error;
      });
    await writeNodeFile(paths.node, { ...this.file, boot_id, host_boot_id: hostBootId() });
    return joined.previous_boot_id;
  }

  /** Another daemon renews the lease of this node. It is not of this home, whose owner we are. */
  private taken(cause: SvcError): SvcError {
    const { node_id } = this.file;
    return new SvcError('daemon_already_running', cause.message, {
      cause,
      details: { node_id },
      hint:
        'It runs in another home: one of the two is a copy. To join as a new node, delete ' +
        `${this.options.paths.node}, then run: svc start`,
    });
  }

  /**
   * The boot of this home that has surely ended: its process is gone, or is this one. A copy of the
   * home on another machine proves nothing of the original.
   */
  private endedBoot(): string | null {
    const { boot_id, host_boot_id } = this.file;
    if (host_boot_id === null || host_boot_id !== hostBootId()) return null;
    const found = readRuntimeFile(this.options.paths.runtime);
    if (found.kind !== 'present' || found.file.boot_id !== boot_id) return null;
    const owner = ownerOf(found.file);
    return owner === 'gone' || owner === 'other' || found.file.pid === process.pid ? boot_id : null;
  }
}
