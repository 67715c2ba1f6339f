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

/** All HTTP routes. docs/http.md has this table. */
export const routes: readonly Route[] = [
  {
    method: 'GET',
    path: '/livez',
    access: 'public',
    summary: 'Whether the daemon is alive: 200 while starting, ready, running and stopping.',
    answer: livez,
  },
  {
    method: 'GET',
    path: '/readyz',
    access: 'public',
    summary: 'Whether it takes runs: 200 while ready and running, else 503 and the reason.',
    answer: readyz,
  },
  {
    method: 'GET',
    path: '/v1/runtime/health',
    access: 'summary',
    summary:
      'The report: state, since when, what would make it ready, counts. With the token also addresses, reasons, paths and times.',
    answer: runtimeHealth,
  },
  {
    method: 'POST',
    path: '/v1/runtime/events',
    access: 'token',
    summary: 'Proposes a lifecycle event, such as {"type":"stop_requested"}.',
    answer: postEvent,
  },
  {
    method: 'POST',
    path: '/v1/runs',
    access: 'token',
    summary: 'Starts a run: 202 with its record, or its events with Accept: text/event-stream.',
    answer: startRun,
  },
  {
    method: 'GET',
    path: '/v1/runs',
    access: 'token',
    summary: 'The latest runs, newest first; `next` leads to the next page.',
    answer: listRuns,
  },
  {
    method: 'GET',
    path: '/v1/runs/:id',
    access: 'token',
    summary: 'One run; with `?at=<seq>` as it was after that event.',
    answer: showRun,
  },
  {
    method: 'GET',
    path: '/v1/runs/:id/why',
    access: 'token',
    summary: 'Explains the state of a run: its events, and the same in sentences.',
    answer: whyRun,
  },
  {
    method: 'GET',
    path: '/v1/runs/:id/export',
    access: 'token',
    summary:
      'A run as a file that `svc runs replay` folds on any machine; `?redact=1` leaves out the texts.',
    answer: exportRun,
  },
  {
    method: 'GET',
    path: '/v1/runs/:id/events',
    access: 'token',
    summary: 'The events of a run as they happen; Last-Event-ID resumes.',
    answer: followRun,
  },
  {
    method: 'POST',
    path: '/v1/runs/:id/cancel',
    access: 'token',
    summary: 'Cancels a run; answers when the work has stopped.',
    answer: cancelRun,
  },
  {
    method: 'GET',
    path: '/v1/providers',
    access: 'token',
    summary: 'Providers, their state and why.',
    answer: listProviders,
  },
  {
    method: 'GET',
    path: '/v1/models',
    access: 'token',
    summary: 'Models of every reachable provider, as a list in the OpenAI form.',
    answer: listModels,
  },
  {
    method: 'GET',
    path: '/v1/machines',
    access: 'token',
    summary: 'The machines: states, transitions, diagram, and the states of the live ones.',
    answer: listMachines,
  },
  {
    method: 'GET',
    path: '/v1/machines/:name/diagram',
    access: 'token',
    summary: 'The diagram of a machine, as SVG.',
    answer: showDiagram,
  },
  {
    method: 'GET',
    path: '/v1/runtime/state',
    access: 'token',
    summary:
      'The whole state: daemon, machines, runs, queue, providers, engine; with `?at=<seq>` as it was after that event.',
    answer: showState,
  },
  {
    method: 'GET',
    path: '/v1/events',
    access: 'token',
    summary: 'WebSocket: the event log, from a position or as it grows.',
    answer: refusePlain,
  },
  {
    method: 'GET',
    path: '/v1/logs',
    access: 'token',
    summary: 'WebSocket: the last log lines, and new ones as they are written.',
    answer: refusePlain,
  },
  {
    method: 'POST',
    path: '/v1/session',
    access: 'public',
    summary: 'Signs a browser in with a ticket or the token: sets a cookie.',
    answer: openSession,
  },
  {
    method: 'GET',
    path: '/v1/session/proof',
    access: 'public',
    summary:
      'Proves to a page that this is the daemon that signed it in, before the page sends its cookie.',
    answer: proveSession,
  },
  {
    method: 'GET',
    path: '/v1/session',
    access: 'token',
    summary: '204 for a signed-in browser.',
    answer: showSession,
  },
  {
    method: 'DELETE',
    path: '/v1/session',
    access: 'public',
    summary: 'Signs a browser out, and ends what its session opened.',
    answer: closeSession,
  },
  {
    method: 'GET',
    path: '/openapi.json',
    access: 'public',
    summary: 'The description of these routes, in OpenAPI 3.1.',
    answer: (context) => sendOpenapi(context, routes),
  },
  {
    method: 'GET',
    path: '/',
    access: 'public',
    summary: 'The console: a page for all this. `svc console` opens it signed in.',
    answer: showConsole,
  },
  {
    method: 'GET',
    path: '/console/:file',
    access: 'public',
    summary: 'The files of the console.',
    answer: showConsoleFile,
  },
];

function refusePlain(): never {
  throw new SvcError('upgrade_required');
}
