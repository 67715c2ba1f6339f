/**
 * Pauses generation so that one caller can change the shared context. node-llama-cpp locks the
 * context while any run has a token to compute, and two busy runs always have one.
 */
export class ContextPause {
  private callers = 0;
  private ended = Promise.withResolvers<void>();

  /** Does work that needs the context to itself. */
  async run(work: () => Promise<void>): Promise<void> {
    this.callers += 1;
    try {
      await work();
    } finally {
      this.callers -= 1;
      if (this.callers === 0) {
        this.ended.resolve();
        this.ended = Promise.withResolvers<void>();
      }
    }
  }

  /** The promise that a run awaits between two tokens. Null: there is no pause. */
  get wait(): Promise<void> | null {
    return this.callers > 0 ? this.ended.promise : null;
  }
}
