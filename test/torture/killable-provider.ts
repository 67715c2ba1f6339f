import { setTimeout as delay } from 'node:timers/promises';
import { type Exchange, Upstream } from '../helpers/upstream.ts';

/** An answer that an upstream began. */
export interface Given {
  provider: string;
  /** The whole text, also when only a part of it was sent. */
  text: string;
  /** All of it was sent. */
  isWhole: boolean;
}

/**
 * A provider that can be killed and comes back at the same port. It knows each answer that it
 * began, by prompt. No two answers have the same text.
 */
export class KillableProvider {
  readonly name: string;
  /** Answers by prompt, in the order of the requests. */
  readonly given = new Map<string, Given[]>();
  requests = 0;
  /** Requests that are being answered. */
  open = 0;
  private upstream: Upstream;

  private constructor(name: string, upstream: Upstream) {
    this.name = name;
    this.upstream = upstream;
    upstream.scenario = (exchange) => this.answer(exchange);
  }

  static async start(name: string): Promise<KillableProvider> {
    return new KillableProvider(name, await Upstream.start());
  }

  get base_url(): string {
    return this.upstream.base_url;
  }

  /** Closes the listener and destroys the connections. */
  async kill(): Promise<void> {
    const { port } = this.upstream;
    await this.upstream.stop();
    this.port = port;
  }

  async revive(): Promise<void> {
    this.upstream = await Upstream.start((exchange) => this.answer(exchange), this.port);
  }

  stop(): Promise<void> {
    return this.upstream.stop();
  }

  private port = 0;

  private async answer(exchange: Exchange): Promise<void> {
    if (exchange.received.path.endsWith('/models'))
      return exchange.reply(200, { data: [{ id: 'm' }] });
    const { messages } = exchange.json as { messages: { content: string }[] };
    const prompt = messages.at(-1)?.content ?? '';
    this.requests += 1;
    const given = { provider: this.name, text: '', isWhole: false };
    given.text = `${this.name} answers request ${this.requests}: ${prompt}`;
    this.given.set(prompt, [...(this.given.get(prompt) ?? []), given]);
    this.open += 1;
    try {
      await this.send(exchange, given.text, prompt.includes('slow'));
      given.isWhole = !exchange.socket.destroyed;
    } catch {
      // It was killed in the middle.
    } finally {
      this.open -= 1;
    }
  }

  /** The time to answer. The pieces of a slow answer come one by one. */
  private async send(exchange: Exchange, text: string, isSlow: boolean): Promise<void> {
    await delay(THINK_MS);
    if (!isSlow) return exchange.answer(text);
    exchange.open();
    for (const word of text.split(/(?<= )/)) {
      await exchange.text(word);
      await delay(PIECE_MS);
    }
    await exchange.finish();
    await exchange.usage(3, 5);
    await exchange.done();
  }
}

const THINK_MS = 5;
const PIECE_MS = 5;
