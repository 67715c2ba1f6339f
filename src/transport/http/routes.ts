import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { machines } from '../../../machines/all.ts';
import { errorAnswer } from '../../contract/records.ts';
import { settingsRecord } from '../../contract/settings.ts';
import { SvcError } from '../../errors.ts';
import { packageRoot } from '../../home/paths.ts';
import type { Limits } from '../../limits.ts';
import { eventQuery, logQuery } from '../../operations/query.ts';
import { consoleRoutes } from './console-files.ts';
import { healthRoutes } from './health.ts';
import { operationRoutes } from './operations.ts';
import { sendBytes, sendJson } from './reply.ts';
import { type Context, type Route, route } from './route.ts';
import { exportRoute } from './runs.ts';
import { sessionRoutes } from './session-routes.ts';
import {
  STATIC_HEADERS,
  type StaticFile,
  sendFile,
  staticAnswers,
  staticFile,
} from './static-file.ts';

const machineRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/machines/:name/diagram',
    access: 'token',
    summary: 'The diagram of a machine, as SVG.',
    headers: STATIC_HEADERS,
    answers: staticAnswers('image/svg+xml'),
    answer: showDiagram,
  }),
];

/** The diagram of a machine, made from the machine at build time. */
function showDiagram({ req, res }: Context): void {
  const { name = '' } = req.params;
  const known = machines.map(({ id }) => id);
  if (!known.includes(name)) {
    throw new SvcError(
      'route_unknown',
      `There is no machine ${JSON.stringify(name.slice(0, 80))}; there are ${known.join(', ')}.`,
    );
  }
  sendFile(req, res, diagram(name), POLICY);
}

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
const read = new Map<string, StaticFile>();

function diagram(name: string): StaticFile {
  const file =
    read.get(name) ??
    staticFile(
      'image/svg+xml; charset=utf-8',
      readFileSync(join(packageRoot(), 'machines', 'diagrams', `${name}.svg`)),
    );
  read.set(name, file);
  return file;
}

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** The targets of WebSockets. Another request to these targets is refused. */
const refusePlain = () => {
  throw new SvcError('upgrade_required');
};
const opened = { 101: null, 426: errorAnswer } as const;

/** The document of each listener. It is made once, since it does not change. */
const documents = new WeakMap<Limits, Buffer>();

/** The routes of svc's own API. The operations of the contract come with their rows. */
export const httpRoutes: readonly Route[] = [
  ...operationRoutes,
  exportRoute,
  route({
    method: 'GET',
    path: '/v1/settings',
    access: 'token',
    scope: 'admin',
    summary: 'Every setting: its value, where it comes from, and what it means. No secrets.',
    answers: { 200: settingsRecord },
    answer: ({ res, configuration }: Context) => sendJson(res, 200, configuration.settings()),
  }),
  route({
    method: 'GET',
    path: '/v1/events',
    access: 'token',
    scope: 'read',
    summary: 'WebSocket: the event log, from a position or as it grows.',
    query: eventQuery,
    answers: opened,
    answer: refusePlain,
  }),
  route({
    method: 'GET',
    path: '/v1/logs',
    access: 'token',
    scope: 'read',
    summary: 'WebSocket: the last log lines, and new ones as they are written.',
    query: ({ log_tail_lines }) => logQuery(log_tail_lines),
    answers: opened,
    answer: refusePlain,
  }),
  ...healthRoutes,
  /** The figures have names of providers and models, and no text of a run. */
  route({
    method: 'GET',
    path: '/metrics',
    access: 'monitor',
    scope: 'read',
    summary:
      'Figures for Prometheus. With metrics_public, clients of this machine need no token for it.',
    answers: { 200: { type: METRICS_TYPE } },
    answer: async ({ res, runtime, traffic }: Context) =>
      sendBytes(res, 200, Buffer.from(await runtime.metrics(traffic())), METRICS_TYPE),
  }),
  ...machineRoutes,
  ...sessionRoutes,
  route({
    method: 'GET',
    path: '/openapi.json',
    access: 'public',
    summary: 'The description of these routes, in OpenAPI 3.1.',
    answers: { 200: { type: 'application/json' } },
    answer: sendOpenapi,
  }),
  ...consoleRoutes,
];

async function sendOpenapi({ res, runtime, routes, limits }: Context): Promise<void> {
  // Loaded here: no daemon needs the converter to start.
  const { openapi } = await import('./openapi/document.ts');
  const body =
    documents.get(limits) ??
    Buffer.from(`${JSON.stringify(openapi(routes, limits, runtime.health().version))}\n`);
  documents.set(limits, body);
  sendBytes(res, 200, body);
}
