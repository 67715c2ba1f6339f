import * as v from 'valibot';
import type { WithoutNull } from '../contract/check.ts';
import type { AppliedSettings } from '../contract/settings.ts';
import type { Limits } from '../limits.ts';
import type { NeededScope, Scope } from '../runtime/principal/principal.ts';
import type { Runtime } from './port.ts';

/**
 * An operation, declared once. The local socket, HTTP, gRPC, the OpenAPI document, `runtime.proto`,
 * the tables of the documentation and the rules of principals are made from its row.
 */
export interface Columns<P extends Fields = Fields> {
  /** What it does, for OpenAPI and the proto. */
  summary?: string;
  /** What the local socket answers. Absent: the summary says it. */
  answers?: string;
  /** Absent: there are none. A field that is null counts as not given. */
  params?: P;
  /** Its answer, for OpenAPI. */
  result?: v.GenericSchema;
  /** The operation sends events before its result. */
  streams?: true;
  /** The operation reads texts of runs, so its bytes count until the client has them. */
  large?: true;
  /** Who may ask for it. Absent: only the home. */
  access?: Access;
  /** The method of the runtime that `access` is the rule of. */
  method?: MethodName;
  /** Its route. The answer is 200 with the result unless `src/transport/http/` says otherwise. */
  http?: `${'GET' | 'POST' | 'DELETE'} /${string}`;
  /** More paths of the route, for third-party programs. */
  also?: readonly `/${string}`[];
  /** The parameters after the `?`, where texts represent other values. */
  query?: Query | ((limits: Limits) => Query);
  grpc?: Grpc;
  /** A tool of svc's own MCP server. Absent: the operation is not a tool. */
  tool?: Tool;
}

type Fields = v.GenericSchema<unknown, object>;
export type Query = Fields & { readonly entries: v.ObjectEntries };

export interface Tool {
  name: string;
  /** What it does, for a model. Absent: the summary says it. */
  says?: string;
  /** Fewer parameters, for a model. Absent: all of them. */
  params?: v.ObjectSchema<v.ObjectEntries, undefined>;
  /** Parameters that a model does not choose. */
  fixed?: Readonly<Record<string, unknown>>;
}

/** Its method in `runtime.proto`. */
export interface Grpc {
  rpc: string;
  /** The message of its answer. */
  answer: string;
  /** The fields of that message. Absent: it is in the proto. */
  fields?: Readonly<Record<string, ProtoField>>;
  /** The fields of its request. Absent: it is in the proto. */
  request?: Readonly<Record<string, ProtoField>>;
  /** What it does, in paragraphs, if the summary does not say it. */
  says?: readonly string[];
}

/** The number of a field that never changes; with its type, unless the parameters say it. */
export type ProtoField = number | { id: number; type?: string; says?: string };

/**
 * The rules for tokens. `own`: a token that sees only its own runs gets no others. The others name
 * the run, conversation or model that the request has first.
 */
export const ACCESS = {
  any: 'any',
  read: 'read',
  run: 'run',
  approve: 'approve',
  decides: 'approve',
  admin: 'admin',
  own: 'any',
  'sees run': 'any',
  'changes run': 'run',
  'sees conversation': 'any',
  'sees model': 'any',
  'asks model': 'run',
} as const satisfies Record<string, NeededScope>;
export type Access = keyof typeof ACCESS;

/** Such as `health`, or `runs.list`. */
export type MethodName<Part = Runtime, P extends string = ''> = {
  [M in keyof Part & string]: Part[M] extends (...values: never[]) => unknown
    ? `${P}${M}`
    : MethodName<Part[M], `${M}.`>;
}[keyof Part & string];

/** The context of a call of an operation. */
export interface Call {
  /** The runtime, as far as the client may see and change it. */
  runtime: Runtime;
  /** The kind of client, for the log. */
  by: string;
  /** Aborted when the client has gone. */
  signal: AbortSignal;
}

/** The local socket may also ask the daemon around the runtime. */
export interface HomeCall extends Call {
  home: Home;
}

/** What the daemon around the runtime does for its home. */
export interface Home {
  token(): string;
  /** The problem with the addresses of the daemon. Null: no problem. */
  warning(): string | null;
  /** Replaces the token and ends the connections of the old one. */
  changeToken(): Promise<string>;
  /** The tokens of programs. */
  tokens: {
    list(): NamedToken[];
    create(token: NewToken): Promise<NamedToken & { token: string }>;
    revoke(name: string): Promise<NamedToken>;
  };
  /** A ticket for one sign-in at the console. `over` is called when it expires. */
  ticket(over: () => void): string;
  /** Writes a page to disk that takes a browser to the address. */
  signInPage(url: string): Promise<{ path: string; remove(): void }>;
  /** The settings in force, and where each value comes from. */
  config(): unknown;
  /** Settings of the configuration file that are not in force. */
  configChanges(): { keys: string[]; problem: string | null };
  /** Reads the file again. Throws config_invalid. */
  applyConfig(): AppliedSettings;
}

/** A token of a program, without the token itself. */
export interface NamedToken {
  name: string;
  scope: Scope;
  /** Requests a minute. Null: no bound. */
  rate: number | null;
  /** Requests at one time. Null: no bound. */
  concurrent: number | null;
  created_at: string;
  last_used: string | null;
}

export interface NewToken extends Pick<NamedToken, 'name' | 'scope' | 'rate' | 'concurrent'> {
  /** The token ends with this process. Absent: it lasts. */
  process?: { pid: number; process_start: string | null } | undefined;
}

/** A row. The types are those of its result, and of what it sends before. */
export interface Operation<P extends Fields = Fields, R = unknown, E = unknown> extends Columns<P> {
  params: P;
  /** Absent: each transport has its way. */
  call?(call: HomeCall, params: WithoutNull<v.InferOutput<P>>): R | Promise<R>;
  readonly types?: { result: R; event: E };
}

const none = v.object({});
export type None = typeof none;

/** A row with the name of the method that has its rule. */
type Ruled<O, M> = O & { readonly method?: M };

/** An operation that any listener can have. */
export function operation<P extends Fields = None, R = unknown, const M extends MethodName = never>(
  row: Columns<P> & {
    access: Access;
    method?: M;
    call(call: Call, params: WithoutNull<v.InferOutput<P>>): R | Promise<R>;
  },
): Ruled<Operation<P, R, never>, M> {
  return { ...row, params: row.params ?? (none as never) };
}

/** An operation of the home alone. */
export function homeOperation<P extends Fields = None, R = unknown>(
  row: Omit<Columns<P>, 'method' | 'grpc'> & {
    call(call: HomeCall, params: WithoutNull<v.InferOutput<P>>): R | Promise<R>;
  },
): Ruled<Operation<P, R, never>, never> {
  return { ...row, params: row.params ?? (none as never) };
}

/** An operation that each transport implements in its own way: most of them stream. */
export function transportOperation<R, E = never>() {
  return <P extends Fields = None, const M extends MethodName = never>(
    row: Columns<P> & { access: Access; method?: M },
  ): Ruled<Operation<P, R, E>, M> => ({ ...row, params: row.params ?? (none as never) });
}
