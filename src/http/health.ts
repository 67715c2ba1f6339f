import type { HealthRecord } from '../runtime/runtime.ts';
import { sendJson } from './reply.ts';
import type { Context } from './route.ts';

/**
 * The three health answers, in the form of the IETF health-check draft. They read the machine's state in memory and nothing
 * else. The status of the body and that of the response never contradict each other.
 */

const TYPE = 'application/health+json';

/** Live is all that is asked here: a daemon that is starting or stopping passes. */
export function livez({ res, runtime }: Context): void {
  const { output: _, ...record } = runtime.health();
  const { live } = runtime.probe();
  const answer: HealthRecord = live ? { ...record, status: 'pass' } : { ...record, status: 'fail', output: record.reason ?? 'The daemon is not live.' };
  sendJson(res, live ? 200 : 503, answer, TYPE);
}

export function readyz({ res, runtime }: Context): void {
  sendHealth(res, runtime.health());
}

export function runtimeHealth({ res, runtime }: Context): void {
  sendHealth(res, runtime.report());
}

function sendHealth(res: Context['res'], record: HealthRecord): void {
  sendJson(res, record.status === 'fail' ? 503 : 200, record, TYPE);
}
