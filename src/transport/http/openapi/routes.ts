import type * as v from 'valibot';
import { limitSpecs } from '../../../limits.ts';
import {
  atQuery,
  eventQuery,
  exportQuery,
  fromQuery,
  logQuery,
  proofQuery,
  runListQuery,
} from '../../query.ts';
import { ref, type Schema } from './schemas.ts';

/** What each route takes and answers, beside the table of routes. A test compares both tables. */
export interface Described {
  query?: { readonly entries: v.ObjectEntries };
  headers?: readonly string[];
  body?: Schema;
  /** By status: JSON of this schema, content of this type, or nothing. Errors are the same everywhere. */
  answers: Readonly<Record<string, Answer>>;
}

export type Answer = { json: Schema; type?: string } | { type: string } | null;

const HEALTH = 'application/health+json';
const json = (name: Parameters<typeof ref>[0]): Answer => ({ json: ref(name) });
const health = (name: 'Health' | 'Report'): Described => ({
  answers: { 200: { json: ref(name), type: HEALTH }, 503: { json: ref(name), type: HEALTH } },
});
const page = (type: string): Described => ({
  headers: ['If-None-Match'],
  answers: { 200: { type }, 304: null },
});
const socket = (query: Required<Described>['query']): Described => ({
  query,
  answers: { 101: null, 426: json('Error') },
});

export const described: Readonly<Record<string, Described>> = {
  'GET /livez': health('Health'),
  'GET /readyz': health('Health'),
  'GET /v1/runtime/health': health('Report'),
  'GET /v1/runtime/state': { query: atQuery, answers: { 200: json('StateSnapshot') } },
  'POST /v1/runtime/events': { body: ref('LifecycleInput'), answers: { 200: json('Position') } },
  'POST /v1/runs': {
    headers: ['Idempotency-Key', 'X-Svc-Client'],
    body: ref('RunInput'),
    answers: { 202: json('Run'), 200: { type: 'text/event-stream' } },
  },
  'GET /v1/runs': {
    query: runListQuery(limitSpecs.page_runs.max),
    answers: { 200: json('RunPage') },
  },
  'GET /v1/runs/:id': { query: atQuery, answers: { 200: json('Run') } },
  'GET /v1/runs/:id/events': {
    query: fromQuery,
    headers: ['Last-Event-ID'],
    answers: { 200: { type: 'text/event-stream' }, 204: null },
  },
  'GET /v1/runs/:id/why': { answers: { 200: json('Why') } },
  'GET /v1/runs/:id/export': {
    query: exportQuery,
    answers: { 200: { type: 'application/json' } },
  },
  'POST /v1/runs/:id/cancel': { answers: { 200: json('Run') } },
  'GET /v1/providers': { answers: { 200: json('Providers') } },
  'GET /v1/models': { answers: { 200: json('Models') } },
  'GET /v1/machines': { answers: { 200: json('Machines') } },
  'GET /v1/machines/:name/diagram': page('image/svg+xml'),
  'GET /v1/events': socket(eventQuery),
  'GET /v1/logs': socket(logQuery(limitSpecs.log_tail_lines.max)),
  'POST /v1/session': { body: ref('SessionInput'), answers: { 200: json('Session') } },
  'GET /v1/session/proof': { query: proofQuery, answers: { 200: json('Proof') } },
  'GET /v1/session': { answers: { 204: null } },
  'DELETE /v1/session': { answers: { 204: null } },
  'GET /': page('text/html'),
  'GET /console/:file': page('*/*'),
  'GET /openapi.json': { answers: { 200: { type: 'application/json' } } },
};
