/**
 * Moments in which nothing is computed. The binding keeps its context locked for as long as any run has a token to compute, and two busy
 * runs always have one: whoever must change the context would wait until they end. So runs stop for a moment when somebody asks.
 */
export class Interlude {
  private asking = 0;
  private over = Promise.withResolvers<void>();

  /** Does something that needs the context to itself. */
  async during(work: () => Promise<void>): Promise<void> {
    this.asking += 1;
    try {
      await work();
    } finally {
      this.asking -= 1;
      if (this.asking === 0) {
        this.over.resolve();
        this.over = Promise.withResolvers<void>();
      }
    }
  }

  /** For runs, between two tokens: what to wait for, null when nobody asks. */
  get wait(): Promise<void> | null {
    return this.asking > 0 ? this.over.promise : null;
  }
}
