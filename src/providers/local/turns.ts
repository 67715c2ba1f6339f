/** A queue: one turn at a time, in order. */
export class Turns {
  private last: Promise<void> = Promise.resolve();
  private present = 0;

  /** Turns that wait or run. */
  get wanted(): number {
    return this.present;
  }

  /**
   * Waits for all earlier turns. Returns a function that ends this turn. Throws the signal's
   * reason and skips the turn.
   */
  async take(signal: AbortSignal): Promise<() => void> {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.present += 1;
    const end = () => {
      this.present -= 1;
      resolve();
    };
    const earlier = this.last;
    this.last = earlier.then(() => ended);
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const abort = () => reject(signal.reason);
    try {
      signal.throwIfAborted();
      signal.addEventListener('abort', abort, { once: true });
      await Promise.race([earlier, aborted]);
      return end;
    } catch (reason) {
      end();
      throw reason;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }
}
