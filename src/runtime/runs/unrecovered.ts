import { Notifier } from '../../async/notifier.ts';

/**
 * Unfinished runs of earlier boots that a daemon recovers after it is ready. The kernel does not
 * have them yet. Nothing starts meanwhile, so that the queue keeps its order.
 */
export class Unrecovered {
  private readonly runs = new Set<string>();
  private readonly fewer = new Notifier();

  get size(): number {
    return this.runs.size;
  }

  has(run_id: string): boolean {
    return this.runs.has(run_id);
  }

  add(run_ids: readonly string[]): void {
    for (const run_id of run_ids) this.runs.add(run_id);
  }

  /** These runs are in the kernel now, or stay in the log. */
  delete(run_ids: readonly string[]): void {
    for (const run_id of run_ids) this.runs.delete(run_id);
    this.fewer.notify();
  }

  /** The daemon stops, and the next start recovers them. */
  clear(): void {
    this.delete([...this.runs]);
  }

  /** Resolves when this run is recovered, or all are. */
  async wait(run_id?: string): Promise<void> {
    while (run_id === undefined ? this.size > 0 : this.has(run_id)) await this.fewer.next();
  }
}
