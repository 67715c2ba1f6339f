import type { HealthRecord, PublicReport } from '../../runtime/contract.ts';
import { publicHealth, publicReport } from '../../runtime/health/health.ts';
import { sendJson } from './reply.ts';
import type { Context } from './route.ts';

/**
 * The three health answers, in the form of the IETF health-check draft. They read only the
 * machine's state in memory. The status in the body always agrees with the status of the response.
 * States and counts are public.
 */

const TYPE = 'application/health+json';

/** A daemon that starts or stops is live, and passes. */
export function livez({ res, runtime }: Context): void {
  const { output: _, ...record } = publicHealth(runtime.health());
  const { live } = runtime.probe();
  const answer: HealthRecord = live
    ? { ...record, status: 'pass' }
    : { ...record, status: 'fail', output: record.reason ?? 'The daemon is not live.' };
  sendJson(res, live ? 200 : 503, answer, TYPE);
}

export function readyz({ res, runtime }: Context): void {
  sendHealth(res, publicHealth(runtime.health()));
}

export function runtimeHealth({ res, runtime, trusted }: Context): void {
  const report = runtime.report();
  sendHealth(res, trusted ? report : publicReport(report));
}

function sendHealth(res: Context['res'], record: HealthRecord | PublicReport): void {
  sendJson(res, record.status === 'fail' ? 503 : 200, record, TYPE);
}
