import type { ErrorBody } from '../../errors.ts';

export type {
  Events,
  OperationName as Method,
  Params,
  Results,
} from '../../operations/operations.ts';

/**
 * The protocol of the local socket: one JSON object a line, each way. The file mode of the socket
 * is the authentication. Its methods are the operations of the contract.
 *
 * A request is `{id, method, params}`. Its answer is any number of `{id, event}` lines, then one of
 * `{id, result}` or `{id, error}`. Several requests may be open on one connection. `{id, cancel:
 * true}` cancels one. A connection that closes cancels all of its requests. Runs continue, and can
 * be attached again.
 *
 * A connection that begins with a capital letter speaks HTTP. It has every route of the HTTP
 * listener, without a token.
 */

export type Response =
  | { id: number; event: unknown }
  | { id: number; result: unknown }
  | { id: number; error: ErrorBody };
