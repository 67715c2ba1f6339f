import { SvcError } from '../../errors.ts';
import { listModels, listProviders } from './catalog.ts';
import { showConsole, showConsoleFile } from './console-files.ts';
import { livez, readyz, runtimeHealth } from './health.ts';
import { postEvent } from './lifecycle.ts';
import { listMachines, showDiagram } from './machines.ts';
import { sendOpenapi } from './openapi/openapi.ts';
import type { Route } from './route.ts';
import { exportRun, whyRun } from './run-history.ts';
import { cancelRun, followRun, listRuns, showRun, startRun } from './runs.ts';
import { closeSession, openSession, proveSession, showSession } from './session.ts';
import { showState } from './state.ts';

/** Everything that is served over HTTP. docs/http.md has this table. */
export const routes: readonly Route[] = [
  {
    method: 'GET',
    path: '/livez',
    door: 'public',
    summary: 'Whether the daemon is alive: 200 while starting, ready, running and stopping.',
    answer: livez,
  },
  {
    method: 'GET',
    path: '/readyz',
    door: 'public',
    summary: 'Whether it takes runs: 200 while ready and running, else 503 and the reason.',
    answer: readyz,
  },
  {
    method: 'GET',
    path: '/v1/runtime/health',
    door: 'summary',
    summary:
      'The report: state, since when, what would make it ready, counts; with the token also addresses, reasons, paths and times.',
    answer: runtimeHealth,
  },
  {
    method: 'POST',
    path: '/v1/runtime/events',
    door: 'token',
    summary: 'Proposes a lifecycle event, such as {"type":"stop_requested"}.',
    answer: postEvent,
  },
  {
    method: 'POST',
    path: '/v1/runs',
    door: 'token',
    summary: 'Starts a run: 202 with its record, or its events with Accept: text/event-stream.',
    answer: startRun,
  },
  {
    method: 'GET',
    path: '/v1/runs',
    door: 'token',
    summary: 'The latest runs, newest first; `next` leads to the page after.',
    answer: listRuns,
  },
  {
    method: 'GET',
    path: '/v1/runs/:id',
    door: 'token',
    summary: 'One run; with `?at=<seq>` as it was after that event.',
    answer: showRun,
  },
  {
    method: 'GET',
    path: '/v1/runs/:id/why',
    door: 'token',
    summary: 'How a run came to be where it is: its events, and the same in sentences.',
    answer: whyRun,
  },
  {
    method: 'GET',
    path: '/v1/runs/:id/export',
    door: 'token',
    summary:
      'A run as a file that `svc runs replay` folds on any machine; `?redact=1` without what was said.',
    answer: exportRun,
  },
  {
    method: 'GET',
    path: '/v1/runs/:id/events',
    door: 'token',
    summary: 'The events of a run as they come; Last-Event-ID resumes.',
    answer: followRun,
  },
  {
    method: 'POST',
    path: '/v1/runs/:id/cancel',
    door: 'token',
    summary: 'Cancels a run; answers once the work has stopped.',
    answer: cancelRun,
  },
  {
    method: 'GET',
    path: '/v1/providers',
    door: 'token',
    summary: 'Providers, their state and why.',
    answer: listProviders,
  },
  {
    method: 'GET',
    path: '/v1/models',
    door: 'token',
    summary: 'Models of every reachable provider, as a list in the OpenAI form.',
    answer: listModels,
  },
  {
    method: 'GET',
    path: '/v1/machines',
    door: 'token',
    summary: 'The machines: states, transitions, diagram, and where the living ones stand.',
    answer: listMachines,
  },
  {
    method: 'GET',
    path: '/v1/machines/:name/diagram',
    door: 'token',
    summary: 'The picture of a machine, as SVG.',
    answer: showDiagram,
  },
  {
    method: 'GET',
    path: '/v1/runtime/state',
    door: 'token',
    summary:
      'The whole picture: daemon, machines, runs, queue, providers, engine; with `?at=<seq>` as it was after that event.',
    answer: showState,
  },
  {
    method: 'GET',
    path: '/v1/events',
    door: 'token',
    summary: 'WebSocket: the event log, from a position on or as it grows.',
    answer: refusePlain,
  },
  {
    method: 'GET',
    path: '/v1/logs',
    door: 'token',
    summary: 'WebSocket: the last log lines, and new ones as they come.',
    answer: refusePlain,
  },
  {
    method: 'POST',
    path: '/v1/session',
    door: 'public',
    summary: 'Signs a browser in with a ticket or the token: sets a cookie.',
    answer: openSession,
  },
  {
    method: 'GET',
    path: '/v1/session/proof',
    door: 'public',
    summary:
      'Proves to a page that this is the daemon that signed it in, before the page sends its cookie.',
    answer: proveSession,
  },
  {
    method: 'GET',
    path: '/v1/session',
    door: 'token',
    summary: '204 for who is signed in.',
    answer: showSession,
  },
  {
    method: 'DELETE',
    path: '/v1/session',
    door: 'public',
    summary: 'Signs a browser out; what its session opened ends.',
    answer: closeSession,
  },
  {
    method: 'GET',
    path: '/openapi.json',
    door: 'public',
    summary: 'The description of all this, in OpenAPI 3.1.',
    answer: (context) => sendOpenapi(context, routes),
  },
  {
    method: 'GET',
    path: '/',
    door: 'public',
    summary: 'The console: a page that shows all this. `svc console` opens it signed in.',
    answer: showConsole,
  },
  {
    method: 'GET',
    path: '/console/:file',
    door: 'public',
    summary: 'What the page of the console is made of.',
    answer: showConsoleFile,
  },
];

function refusePlain(): never {
  throw new SvcError('upgrade_required');
}
