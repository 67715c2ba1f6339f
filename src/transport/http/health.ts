import type { HealthRecord, PublicReport } from '../../contract/contract.ts';
import { anyReport, health } from '../../contract/records.ts';
import { publicHealth, publicReport } from '../../observability/health/health.ts';
import { sendJson } from './reply.ts';
import { type Content, type Context, type Route, route } from './route.ts';

/**
 * The three health answers, in the form of the IETF health-check draft. They read only the
 * machine's state in memory. The status in the body always agrees with the status of the response.
 * States and counts are public.
 */

const TYPE = 'application/health+json';
const toBothStatuses = (schema: Required<Content>['schema']) => ({
  200: { type: TYPE, schema },
  503: { type: TYPE, schema },
});

export const healthRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/livez',
    access: 'probe',
    summary: 'Whether the daemon is alive: 200 while starting, ready, running and stopping.',
    answers: toBothStatuses(health),
    answer: livez,
  }),
  route({
    method: 'GET',
    path: '/readyz',
    access: 'probe',
    summary: 'Whether it takes runs: 200 while ready and running, else 503 and the reason.',
    answers: toBothStatuses(health),
    answer: readyz,
  }),
];

export const report: Partial<Route> = {
  access: 'summary',
  answers: toBothStatuses(anyReport),
  answer: runtimeHealth,
};

/** A daemon that starts or stops is live, and passes. */
function livez({ res, runtime }: Context): void {
  const { output: _, ...record } = publicHealth(runtime.health());
  const { live } = runtime.probe();
  const answer: HealthRecord = live
    ? { ...record, status: 'pass' }
    : { ...record, status: 'fail', output: record.reason ?? 'The daemon is not live.' };
  sendJson(res, live ? 200 : 503, answer, TYPE);
}

function readyz({ res, runtime }: Context): void {
  sendHealth(res, publicHealth(runtime.health()));
}

function runtimeHealth({ res, runtime, trusted }: Context): void {
  const report = runtime.report();
  sendHealth(res, trusted ? report : publicReport(report));
}

function sendHealth(res: Context['res'], record: HealthRecord | PublicReport): void {
  sendJson(res, record.status === 'fail' ? 503 : 200, record, TYPE);
}
