import type { Dispatcher } from 'undici';

/**
 * The connections to one provider.
 *
 * 1. A connection carries one exchange at a time, so aborting an exchange closes exactly its
 *    connection.
 * 2. An aborted exchange ends when its connection is closed.
 * 3. Connections of complete exchanges are reused, up to a bound. undici closes idle ones.
 */
export class Connections {
  private readonly make: () => Promise<Dispatcher>;
  private readonly idleMax: number;
  private readonly idle: Dispatcher[] = [];
  private readonly busy = new Set<Dispatcher>();
  /** Those whose connection is open now. */
  private readonly open = new WeakSet<Dispatcher>();
  private closed = false;

  constructor(make: () => Promise<Dispatcher>, idleMax: number) {
    this.make = make;
    this.idleMax = idleMax;
  }

  async acquire(): Promise<Dispatcher> {
    const dispatcher = this.idle.pop() ?? this.watched(await this.make());
    this.busy.add(dispatcher);
    return dispatcher;
  }

  async release(dispatcher: Dispatcher, ended: 'complete' | 'broken'): Promise<void> {
    this.busy.delete(dispatcher);
    if (ended === 'complete' && !this.closed && this.idle.length < this.idleMax)
      this.idle.push(dispatcher);
    else await dispatcher.destroy();
  }

  isOpen(dispatcher: Dispatcher): boolean {
    return this.open.has(dispatcher);
  }

  /** Closes active connections too. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all(
      [...this.idle.splice(0), ...this.busy].map((dispatcher) => dispatcher.destroy()),
    );
  }

  private watched(dispatcher: Dispatcher): Dispatcher {
    return dispatcher
      .on('connect', () => this.open.add(dispatcher))
      .on('disconnect', () => this.open.delete(dispatcher));
  }
}
