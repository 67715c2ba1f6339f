/** After this much silence the next text is sent at once, so the first token never waits. */
const GATHER_MS = 12;
const GATHER_TOKENS = 16;

/** Batches the output of one run, so that a fast model does not send one message for each token. */
export class OutputBatcher {
  private readonly send: (text: string, token_ids: number[]) => void;
  private text = '';
  private token_ids: number[] = [];
  private sentAt = Number.NEGATIVE_INFINITY;
  private timer: NodeJS.Timeout | null = null;

  constructor(send: (text: string, token_ids: number[]) => void) {
    this.send = send;
  }

  push(text: string, token_ids: readonly number[]): void {
    this.text += text;
    this.token_ids.push(...token_ids);
    const quietMs = performance.now() - this.sentAt;
    if (this.token_ids.length >= GATHER_TOKENS || (this.text !== '' && quietMs >= GATHER_MS))
      this.flush();
    else if (this.text !== '') this.timer ??= setTimeout(() => this.flush(), GATHER_MS - quietMs);
  }

  flush(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    if (this.text === '' && this.token_ids.length === 0) return;
    this.send(this.text, this.token_ids);
    this.text = '';
    this.token_ids = [];
    this.sentAt = performance.now();
  }
}
