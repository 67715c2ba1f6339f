import { type Exchange, Upstream } from '../helpers/upstream.ts';

/** How the upstream answers when it is asked for its models. */
export type Listing = 'list' | 'hold' | 401 | 429 | 500;

/** Ends a message about an answer without its form. It is a further turn of the same prompt. */
const AGAIN = 'Answer again, in the form that was asked for.';

/** One vector, and how many tokens its text had. */
const VECTORS = { data: [{ index: 0, embedding: [1] }], usage: { prompt_tokens: 9 } };

/**
 * An OpenAI-compatible server on loopback that does what the words of the prompt say. `say` sends a
 * piece of text. `hold` waits until the client leaves, or until `finish` is called. The others are
 * `finish`, `cut`, `error`, and a status such as `503`, with `after` for a long Retry-After. `drop`
 * closes the connection before the answer, and `quota` says that there is no credit. What finishes
 * has a text, since a complete answer without one is a failed attempt. `filter` ends without one.
 * The words after a `then` are for the next turn. One with `call=files__read` calls this tool,
 * and one with `{` has the arguments.
 */
export class ScriptedUpstream {
  listing: Listing = 'list';
  /** Answers that stay open. */
  readonly held = new Set<Exchange>();
  private readonly waiting: Exchange[] = [];
  private readonly heldTexts: Exchange[] = [];
  private readonly server: Upstream;

  private constructor(server: Upstream) {
    this.server = server;
    server.scenario = (exchange) => this.take(exchange);
  }

  static async start(): Promise<ScriptedUpstream> {
    return new ScriptedUpstream(await Upstream.start());
  }

  get base_url(): string {
    return this.server.base_url;
  }

  /** Whether a client waits for the list of models. */
  get isAsked(): boolean {
    return this.waiting.some(({ socket }) => !socket.destroyed);
  }

  answerLists(listing: Exclude<Listing, 'hold'>): void {
    this.listing = listing;
    for (const exchange of this.waiting.splice(0)) this.list(exchange);
  }

  /** Whether a client waits for vectors. */
  get isEmbedding(): boolean {
    return this.heldTexts.length > 0;
  }

  embedHeld(): void {
    for (const exchange of this.heldTexts.splice(0)) exchange.reply(200, VECTORS);
  }

  /** Completes every open answer, except those whose client leaves meanwhile. */
  async finish(): Promise<void> {
    for (const exchange of [...this.held]) {
      this.held.delete(exchange);
      await exchange
        .text('the end')
        .then(() => exchange.finish())
        .then(() => exchange.done())
        .catch(() => undefined);
    }
  }

  /** Sends one more piece in every open answer. */
  async say(): Promise<void> {
    for (const exchange of [...this.held]) await exchange.text('more ').catch(() => undefined);
  }

  stop(): Promise<void> {
    return this.server.stop();
  }

  private async take(exchange: Exchange): Promise<void> {
    if (exchange.received.path.endsWith('/models')) return this.list(exchange);
    if (exchange.received.path.endsWith('/embeddings')) return this.embed(exchange);
    const messages = exchange.json.messages as { role: string; content: string }[];
    const asked = messages.findLastIndex(
      ({ role, content }) => role === 'user' && !content.endsWith(AGAIN),
    );
    const turns = (messages[asked]?.content ?? '').split(' then ');
    const turn = messages.slice(asked).filter(({ role }) => role === 'assistant').length;
    await this.perform(exchange, (turns[turn] ?? 'finish').split(' ')).catch(() => undefined);
  }

  private async perform(exchange: Exchange, words: string[]): Promise<void> {
    const names = words.flatMap((word) => /^call=(.*)/.exec(word)?.slice(1) ?? []);
    const args = words.find((word) => word.startsWith('{')) ?? '{}';
    if (names.length > 0)
      return exchange.call(names.map((name) => [name, JSON.parse(args) as object]));
    for (const word of words) {
      if (/^\d+$/.test(word))
        return exchange.reply(
          Number(word),
          { error: { message: 'as told' } },
          words.includes('after') ? { 'retry-after': '25' } : {},
        );
      if (word === 'drop') return void exchange.socket.destroy();
      if (word === 'quota') return exchange.reply(429, { error: { code: 'insufficient_quota' } });
      exchange.open();
      if (word === 'say') await exchange.text('some text ');
      else if (word === 'error') await exchange.event({ error: { message: 'as told' } });
      else if (word === 'cut') exchange.socket.destroy();
      else if (word === 'finish') {
        await exchange.text('the end');
        await exchange.finish();
        await exchange.done();
      } else if (word === 'filter') {
        await exchange.finish('content_filter');
        await exchange.done();
      } else if (word === 'hold') {
        this.held.add(exchange);
        await exchange.closed;
        this.held.delete(exchange);
      }
    }
  }

  /** The text `hold` is answered by `embedHeld`. */
  private embed(exchange: Exchange): void {
    const [text] = exchange.json.input as string[];
    if (text === 'hold') this.heldTexts.push(exchange);
    else exchange.reply(200, VECTORS);
  }

  private list(exchange: Exchange): void {
    if (this.listing === 'hold') this.waiting.push(exchange);
    else if (this.listing === 'list')
      exchange.reply(200, { object: 'list', data: [{ id: 'm', object: 'model' }] });
    else exchange.reply(this.listing, { error: { message: 'as told' } });
  }
}
