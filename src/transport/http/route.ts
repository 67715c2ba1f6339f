import type { ServerResponse } from 'node:http';
import type { Request } from 'polka';
import type * as v from 'valibot';
import type { Configuration } from '../../contract/settings.ts';
import type { Limits } from '../../limits.ts';
import type { Family } from '../../observability/metrics/tally.ts';
import type { OperationName } from '../../operations/operations.ts';
import type { Runtime } from '../../operations/port.ts';
import type { Log } from '../../ports/log.ts';
import type { NeededScope } from '../../runtime/principal/principal.ts';
import type { AccessLevel } from '../auth/access.ts';
import type { Sessions } from '../auth/session.ts';
import type { Envelope } from '../http-error.ts';
import type { UnsentBytes } from '../stream/unsent-bytes.ts';
import type { BodyOptions } from './body.ts';

/**
 * One route. Its schemas check the requests, and the OpenAPI document is made from them. Schemas
 * that `named` has named are components of the document.
 */
export interface Row<Q extends QuerySchema, B extends v.GenericSchema> {
  /** A GET route answers HEAD too. */
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  /** Who may send the request. */
  access: AccessLevel;
  /** What a token needs. Absent: any scope for GET, `run` for the others. */
  scope?: NeededScope;
  summary: string;
  /** The parameters after the `?`. Without a schema, none of them is read or refused. */
  query?: Q | ((limits: Limits) => Q);
  /** Request headers that change the answer. */
  headers?: readonly string[];
  body?: B;
  /** The type of the body. Absent: JSON. */
  bodyType?: 'multipart/form-data';
  /** The body asks a model: its messages, parts and tools are counted before they are checked. */
  asksModel?: true;
  /**
   * Fields that the schema of the body does not have. `ignore` leaves them out, and says so: for
   * third-party programs. `may refuse`: the setting `strict_requests` refuses them. Absent: they
   * are refused, since they are most often typing mistakes.
   */
  unknownFields?: 'ignore' | 'may refuse';
  /** An empty text in the body counts as not given, as null does. */
  blanks?: true;
  /** What each status has. Errors have the form of `errors`, so they need no row. */
  answers: Readonly<Record<number, Answer | readonly Answer[]>>;
  /** The form of its errors. Absent: svc's own, which OpenAI clients understand. */
  errors?: Envelope;
  /** Another header with the id of the request, which clients of its API read. */
  requestId?: string;
  /** The schema of that form. */
  errorSchema?: v.GenericSchema;
  answer: (context: Context<v.InferOutput<Q>, v.InferOutput<B>>) => void | Promise<void>;
}

type QuerySchema = v.GenericSchema<unknown, object> & { readonly entries: v.ObjectEntries };

export type Route = Row<QuerySchema, v.GenericSchema> & {
  answer: (context: Context<never, never>) => void | Promise<void>;
};

/** The differences from the routes that operations get. `check`: before the operation is called. */
export type Differences = Partial<
  Record<
    OperationName,
    Partial<Omit<Route, 'answer'>> & {
      answer?(context: Context<never, never>): void | Promise<void>;
      check?(context: Context<never>): Promise<void>;
    }
  >
>;

/** JSON of this schema, other content, or nothing. */
export type Answer = v.GenericSchema | Content | null;
export interface Content {
  type: string;
  /** Of one event, if the content is a stream of them. */
  schema?: v.GenericSchema;
}

/** Checks that a route's handler takes what its schemas let through. */
export function route<Q extends QuerySchema, B extends v.GenericSchema>(row: Row<Q, B>): Route {
  return row as unknown as Route;
}

/** The scope that a token needs for the route. */
export function scopeOf({ scope, method }: Pick<Route, 'scope' | 'method'>): NeededScope {
  return scope ?? (method === 'GET' ? 'any' : 'run');
}

/** The context of a handler. */
export interface Context<Q = unknown, B = unknown> {
  req: Request;
  res: ServerResponse;
  /** What the client may see and change of it. */
  runtime: Runtime;
  sessions: Sessions;
  configuration: Configuration;
  limits: Limits;
  log: Log;
  unsent: UnsentBytes;
  /** What the listener does, for monitoring. */
  traffic(): Family[];
  /** All that the listener serves. */
  routes: readonly Route[];
  /** The parameters, checked with the schema of the route. */
  query: Q;
  /** Reads the body, and checks it with the schema of the route. */
  body(options?: ReadOptions): Promise<B>;
  /** True for a client that may see what needs the token. */
  trusted: boolean;
  /**
   * Aborted, with the reason, when the session or token of the request becomes invalid. Its streams
   * end.
   */
  ended: AbortSignal;
  /** Aborted when the listener closes. Streams send a last event and end. */
  closing: AbortSignal;
}

export interface ReadOptions extends Pick<BodyOptions, 'within_ms' | 'values'> {
  /** Most bytes of the body. The default is `body_bytes` of the limits. */
  bytes?: number;
  /** Adds to the body what the headers say, before the check. */
  complete?(value: unknown): unknown;
}
