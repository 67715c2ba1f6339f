/** One after the other, in the order of asking. */
export class Turns {
  private last: Promise<void> = Promise.resolve();
  private present = 0;

  /** Turns that are asked for or taken, and have not ended. */
  get wanted(): number {
    return this.present;
  }

  /** Resolves with the way to end this turn, once all earlier ones have ended. Throws the signal's reason; such a turn is skipped. */
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
