import type { ServerResponse } from 'node:http';
import { Counter, type Family, gauge } from '../../runtime/metrics/tally.ts';

/**
 * What the HTTP listener does, for monitoring. A request counts under the pattern of its route, so
 * the number of series is bounded.
 */
export class Traffic {
  private readonly requests = new Counter(
    'svc_http_requests_total',
    'HTTP requests with an answer, by route, method and class of status.',
  );
  private readonly refusals = new Counter(
    'svc_http_refusals_total',
    'HTTP requests and connections that were refused, by code.',
  );
  private open = 0;

  /** A request has begun. Returns what counts it when its answer has ended. */
  begin(route: string, method: string, res: ServerResponse): () => void {
    this.open += 1;
    return () => {
      this.open -= 1;
      this.requests.add({ route, method, status: `${Math.floor(res.statusCode / 100)}xx` });
    };
  }

  refused(code: string): void {
    this.refusals.add({ code });
  }

  families(connections: number, unsent_bytes: number): Family[] {
    return [
      this.requests.family(),
      this.refusals.family(),
      gauge('svc_http_requests_open', 'HTTP requests without a complete answer.', [
        [{}, this.open],
      ]),
      gauge('svc_http_connections', 'Open HTTP connections.', [[{}, connections]]),
      gauge('svc_unsent_bytes', 'Bytes that clients have not read yet.', [[{}, unsent_bytes]]),
    ];
  }
}
