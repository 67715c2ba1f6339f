import { sendBytes } from './reply.ts';
import { type Context, type Route, route } from './route.ts';

const TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** The figures for monitoring. They have names of providers and models, and no text of a run. */
export const metricsRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/metrics',
    access: 'monitor',
    summary:
      'Figures for Prometheus. With metrics_public, clients of this machine need no token for it.',
    answers: { 200: { type: TYPE } },
    answer: sendMetrics,
  }),
];

async function sendMetrics({ res, runtime, traffic }: Context): Promise<void> {
  sendBytes(res, 200, Buffer.from(await runtime.metrics(traffic())), TYPE);
}
