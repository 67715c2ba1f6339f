import type * as v from 'valibot';
import type { WithoutNull } from '../contract/check.ts';
import type { RecordBytes } from '../runtime/runs/record-bytes.ts';
import { daemonOperations } from './daemon.ts';
import { mcpOperations } from './mcp.ts';
import { modelOperations } from './models.ts';
import type { Operation } from './row.ts';
import { runOperations } from './runs.ts';

/** The operations that any client can call. The local socket has all of them. */
export const operations = {
  ...runOperations,
  ...modelOperations,
  ...mcpOperations,
  ...daemonOperations,
};

type Operations = typeof operations;
export type OperationName = keyof Operations;
type TypesOf<O> =
  O extends Operation<infer P, infer R, infer E>
    ? { params: WithoutNull<v.InferOutput<P>>; result: Exclude<R, RecordBytes>; event: E }
    : never;
export type Params<N extends OperationName> = TypesOf<Operations[N]>['params'];
/** The result of each operation. A record of a run may come as bytes that clients share. */
export type Results = { [N in OperationName]: TypesOf<Operations[N]>['result'] };
/** The events of each streaming operation before its result. */
export type Events = {
  [N in OperationName as TypesOf<Operations[N]>['event'] extends never ? never : N]: TypesOf<
    Operations[N]
  >['event'];
};

/** The methods of the runtime whose rule is in a row. */
export type RuledMethod = {
  [N in OperationName]: Operations[N] extends { method?: infer M extends string } ? M : never;
}[OperationName];

/** The rows, for adapters that serve any of them. */
export const rows = Object.entries(operations) as [OperationName, Operation][];
