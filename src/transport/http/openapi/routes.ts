import { runMachine } from '../../../../machines/run.ts';
import { oneOf, ref, type Schema, text, whole } from './schemas.ts';

/** What each route takes and gives, beside what the table of routes says. A test holds both tables to each other. */
export interface Described {
  query?: Readonly<Record<string, Schema>>;
  headers?: Readonly<Record<string, Schema>>;
  body?: Schema;
  /** By status: JSON of this schema, content of this type, or nothing. Errors are the same everywhere. */
  answers: Readonly<Record<string, Answer>>;
}

export type Answer = { json: Schema; type?: string } | { type: string } | null;

const HEALTH = 'application/health+json';
const json = (name: Parameters<typeof ref>[0]): Answer => ({ json: ref(name) });
const at = { at: whole };
const health = (name: 'Health' | 'Report'): Described => ({
  answers: { 200: { json: ref(name), type: HEALTH }, 503: { json: ref(name), type: HEALTH } },
});
const page = (type: string): Described => ({
  headers: { 'If-None-Match': text },
  answers: { 200: { type }, 304: null },
});
const socket = (query: Described['query'] = {}): Described => ({
  query,
  answers: { 101: null, 426: json('Error') },
});
const truth = oneOf('0', '1', 'false', 'true');

export const described: Readonly<Record<string, Described>> = {
  'GET /livez': health('Health'),
  'GET /readyz': health('Health'),
  'GET /v1/runtime/health': health('Report'),
  'GET /v1/runtime/state': { query: at, answers: { 200: json('Picture') } },
  'POST /v1/runtime/events': { body: ref('LifecycleInput'), answers: { 200: json('Position') } },
  'POST /v1/runs': {
    headers: { 'Idempotency-Key': text, 'X-Svc-Client': text },
    body: ref('RunInput'),
    answers: { 202: json('Run'), 200: { type: 'text/event-stream' } },
  },
  'GET /v1/runs': {
    query: {
      limit: whole,
      before: text,
      state: oneOf(...Object.keys(runMachine.states)),
      provider: text,
      texts: oneOf('whole', 'short'),
    },
    answers: { 200: json('RunPage') },
  },
  'GET /v1/runs/:id': { query: at, answers: { 200: json('Run') } },
  'GET /v1/runs/:id/events': {
    query: { from: whole },
    headers: { 'Last-Event-ID': text },
    answers: { 200: { type: 'text/event-stream' }, 204: null },
  },
  'GET /v1/runs/:id/why': { answers: { 200: json('Why') } },
  'GET /v1/runs/:id/export': {
    query: { redact: truth },
    answers: { 200: { type: 'application/json' } },
  },
  'POST /v1/runs/:id/cancel': { answers: { 200: json('Run') } },
  'GET /v1/providers': { answers: { 200: json('Providers') } },
  'GET /v1/models': { answers: { 200: json('Models') } },
  'GET /v1/machines': { answers: { 200: json('Machines') } },
  'GET /v1/machines/:name/diagram': page('image/svg+xml'),
  'GET /v1/events': socket({ from: whole, follow: truth, stream: text, type: text }),
  'GET /v1/logs': socket({ tail: whole, follow: truth, level: text, run: text, since: text }),
  'POST /v1/session': { body: ref('SessionInput'), answers: { 200: json('Session') } },
  'GET /v1/session/proof': { query: { by: text, nonce: text }, answers: { 200: json('Proof') } },
  'GET /v1/session': { answers: { 204: null } },
  'DELETE /v1/session': { answers: { 204: null } },
  'GET /': page('text/html'),
  'GET /console/:file': page('*/*'),
  'GET /openapi.json': { answers: { 200: { type: 'application/json' } } },
};
