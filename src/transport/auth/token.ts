import { replaceSecret } from '../../home/home.ts';

/**
 * The valid token.
 *
 * 1. A new token is on disk before it is valid, so that a restart never restores the old one.
 * 2. What the old token admitted ends with it: the signal of the old token is aborted.
 */
export class Token {
  private readonly file: string;
  private value: string;
  private end = new AbortController();

  constructor(file: string, value: string) {
    this.file = file;
    this.value = value;
  }

  get current(): string {
    return this.value;
  }

  /** Aborted when the present token is replaced. */
  get ended(): AbortSignal {
    return this.end.signal;
  }

  /** Throws home_unusable. The present token then stays valid. */
  async rotate(reason: Error): Promise<string> {
    this.value = await replaceSecret(this.file);
    const { end } = this;
    this.end = new AbortController();
    end.abort(reason);
    return this.value;
  }
}
