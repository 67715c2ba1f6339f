import { SvcError } from '../errors.ts';
import { listModels, listProviders } from './catalog.ts';
import { livez, readyz, runtimeHealth } from './health.ts';
import { postEvent } from './lifecycle.ts';
import type { Route } from './route.ts';
import { cancelRun, followRun, listRuns, showRun, startRun } from './runs.ts';

/** Everything that is served over HTTP. The README's table is held to this one. */
export const routes: readonly Route[] = [
  { method: 'GET', path: '/livez', door: 'public', summary: 'Whether the daemon is alive: 200 while starting, ready, running and stopping.', answer: livez },
  { method: 'GET', path: '/readyz', door: 'public', summary: 'Whether it takes runs: 200 while ready and running, else 503 and the reason.', answer: readyz },
  {
    method: 'GET',
    path: '/v1/runtime/health',
    door: 'loopback',
    summary: 'The whole report: state, since when, what would make it ready, runs, providers, engine, log.',
    answer: runtimeHealth,
  },
  { method: 'POST', path: '/v1/runtime/events', door: 'token', summary: 'Proposes a lifecycle event, such as {"type":"stop_requested"}.', answer: postEvent },
  {
    method: 'POST',
    path: '/v1/runs',
    door: 'token',
    summary: 'Starts a run: 202 with its record, or its events with Accept: text/event-stream.',
    answer: startRun,
  },
  { method: 'GET', path: '/v1/runs', door: 'token', summary: 'The latest runs, newest first, paged.', answer: listRuns },
  { method: 'GET', path: '/v1/runs/:id', door: 'token', summary: 'One run.', answer: showRun },
  { method: 'GET', path: '/v1/runs/:id/events', door: 'token', summary: 'The events of a run as they come; Last-Event-ID resumes.', answer: followRun },
  { method: 'POST', path: '/v1/runs/:id/cancel', door: 'token', summary: 'Cancels a run; answers once the work has stopped.', answer: cancelRun },
  { method: 'GET', path: '/v1/providers', door: 'token', summary: 'Providers, their state and why.', answer: listProviders },
  { method: 'GET', path: '/v1/models', door: 'token', summary: 'Models of every reachable provider, as a list in the OpenAI form.', answer: listModels },
  { method: 'GET', path: '/v1/logs', door: 'token', summary: 'WebSocket: the last log lines, and new ones as they come.', answer: refusePlain },
];

function refusePlain(): never {
  throw new SvcError('upgrade_required');
}
