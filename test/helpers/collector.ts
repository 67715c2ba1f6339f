import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Attribute {
  key: string;
  value: Record<string, unknown>;
}

export interface CollectedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  status: { code: number };
  events: { name: string }[];
  attributes: Record<string, unknown>;
}

/** An OTLP collector on this machine. `answer` decides what it says to each batch. */
export class Collector {
  readonly spans: CollectedSpan[] = [];
  readonly resources: Record<string, unknown>[] = [];
  readonly bodies: string[] = [];
  requests = 0;
  private readonly server: Server;

  private constructor(answer: (res: ServerResponse) => void) {
    this.server = createServer(async (req, res) => {
      this.requests += 1;
      let body = '';
      for await (const part of req) body += part;
      this.bodies.push(body);
      if (req.url === '/v1/traces') this.read(body);
      answer(res);
    });
  }

  static async start(
    answer: (res: ServerResponse) => void = (res) => res.end('{}'),
  ): Promise<Collector> {
    const collector = new Collector(answer);
    await new Promise<void>((resolve) => collector.server.listen(0, '127.0.0.1', resolve));
    return collector;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): Promise<void> {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }

  private read(body: string): void {
    for (const { resource, scopeSpans } of JSON.parse(body).resourceSpans) {
      this.resources.push(plain(resource.attributes));
      for (const { spans } of scopeSpans)
        for (const span of spans) this.spans.push({ ...span, attributes: plain(span.attributes) });
    }
  }
}

function plain(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => {
      const [inner] = Object.values(value);
      const list = (inner as { values?: Record<string, unknown>[] } | null)?.values;
      return [key, list === undefined ? inner : list.flatMap((each) => Object.values(each))];
    }),
  );
}
