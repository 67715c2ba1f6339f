import type { Piece, TokenLogprob } from '../contract/messages/parts.ts';
import type { Output } from './protocol/from-engine.ts';

/**
 * After this much silence the next text is sent at once, so the first token never waits. Each
 * message costs the daemon a commit, and a reader needs no more than 30 of them a second.
 */
const GATHER_MS = 30;
/** More than these are sent sooner. */
export const GATHER_TOKENS = 32;

/**
 * Batches the output of one run, so that a fast model does not send one message for each token.
 *
 * 1. One message has pieces of one part. A token is sent with the part before its pieces, so that
 *    no text is recorded without its token.
 */
export class OutputBatcher {
  private readonly send: (output: Output) => void;
  private part: Omit<Piece, 'text'> = {};
  private text = '';
  private token_ids: number[] = [];
  private logprobs: TokenLogprob[] = [];
  private begins = false;
  private sentAt = Number.NEGATIVE_INFINITY;
  private timer: NodeJS.Timeout | null = null;

  constructor(send: (output: Output) => void) {
    this.send = send;
  }

  /** Adds a token, or an earlier token again (null), with the pieces that it completes. */
  push(pieces: readonly Piece[], token: number | null, logprob: TokenLogprob | null): void {
    if (token !== null) this.token_ids.push(token);
    if (logprob !== null) this.logprobs.push(logprob);
    for (const piece of pieces) this.add(piece);
    this.sendInTime();
  }

  flush(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    if (this.isEmpty && this.token_ids.length === 0) return;
    this.send({
      ...this.part,
      text: this.text,
      token_ids: this.token_ids,
      ...(this.logprobs.length === 0 ? {} : { logprobs: this.logprobs }),
    });
    this.text = '';
    this.token_ids = [];
    this.logprobs = [];
    this.begins = false;
    this.sentAt = performance.now();
  }

  /** A call begins without text. */
  private get isEmpty(): boolean {
    return this.text === '' && !this.begins;
  }

  private add({ text, ...part }: Piece): void {
    if (part.kind !== this.part.kind || part.call?.id !== this.part.call?.id) {
      this.flush();
      this.part = part;
      this.begins = part.call !== undefined;
    }
    this.text += text;
  }

  private sendInTime(): void {
    const quietMs = performance.now() - this.sentAt;
    if (this.token_ids.length >= GATHER_TOKENS || (!this.isEmpty && quietMs >= GATHER_MS))
      this.flush();
    else if (!this.isEmpty) this.timer ??= setTimeout(() => this.flush(), GATHER_MS - quietMs);
  }
}
