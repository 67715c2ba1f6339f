import * as v from 'valibot';
import { withoutNull } from '../../contract/check.ts';
import type { RerankInput } from '../../contract/embed-input.ts';
import { rows } from '../../operations/operations.ts';
import { ACCESS, type HomeCall, type Operation } from '../../operations/row.ts';
import { consoleChanges } from './console-changes.ts';
import { report } from './health.ts';
import { sendLarge } from './large.ts';
import { sendJson } from './reply.ts';
import type { Context, Differences, Route } from './route.ts';
import { answerEndSignal, CLIENT, clientGoneSignal, clientOf } from './run-request.ts';
import { runDifferences } from './runs.ts';

/**
 * Operations that HTTP answers its own way: other headers or forms of an answer, or a narrower
 * request.
 */
const differences: Differences = {
  ...runDifferences,
  ...consoleChanges,
  report,
  rerank: {
    // Third-party programs send fields of their own service.
    unknownFields: 'may refuse',
    async answer(context: Context<unknown, RerankInput>) {
      const { req, res, runtime } = context;
      const asker = { client: clientOf(req) };
      const ranked = await runtime.embeddings
        .rerank(await context.body(), asker, answerEndSignal(context))
        .catch((error: unknown) => {
          if (!res.destroyed) throw error;
        });
      if (ranked !== undefined) await sendLarge(context, async () => ranked);
    },
  },
  'config.apply': {
    answer: ({ res, configuration }: Context) => sendJson(res, 200, configuration.apply()),
  },
};

/** The routes of the operations of the contract. */
export const operationRoutes: readonly Route[] = rows.flatMap(([name, row]) =>
  row.http === undefined ? [] : routesOf(row.http, row, differences[name]),
);

function routesOf(http: string, row: Operation, difference?: Difference): Route[] {
  const route = routeOf(http, row, difference);
  return [route, ...(row.also ?? []).map((path) => ({ ...route, path, summary: `As ${http}.` }))];
}

type Difference = Differences[keyof Differences];

function routeOf(http: string, row: Operation, { check, ...difference }: Difference = {}): Route {
  const [method, path = ''] = http.split(' ') as [Route['method'], string?];
  const { params, query, result, access = 'admin', summary = '' } = row;
  const fields = 'entries' in params ? Object.keys(params.entries as object) : [];
  const inPath = fields.filter((field) => path.includes(`:${field}`));
  const isSent = method === 'POST' && inPath.length < fields.length;
  return {
    method,
    path,
    access: 'token',
    scope: ACCESS[access],
    summary,
    ...(query === undefined ? {} : { query }),
    ...(isSent ? { body: inPath.length === 0 ? params : withoutPathParams(params, inPath) } : {}),
    answers: { 200: result ?? null },
    answer: async (context: Context) => {
      await check?.(context as Context<never>);
      await answer(context, row, isSent);
    },
    ...difference,
  } as Route;
}

/** The parameters that the body has: those that are not in the path. */
function withoutPathParams(
  params: Operation['params'],
  inPath: readonly string[],
): v.GenericSchema {
  return v.omit(params as v.ObjectSchema<v.ObjectEntries, undefined>, inPath as [string]);
}

/** Calls the operation with what the path, the query and the body say, and sends its result. */
async function answer(context: Context, row: Operation, isSent: boolean): Promise<void> {
  const { req, res, runtime } = context;
  const query = context.query as object;
  const body = isSent ? ((await context.body()) as object) : {};
  const call = {
    runtime,
    by: CLIENT,
    get signal() {
      return clientGoneSignal(context);
    },
  };
  const make = async () =>
    row.call?.(call as HomeCall, withoutNull({ ...req.params, ...query, ...body }));
  if (row.large) await sendLarge(context, make);
  else sendJson(res, 200, await make());
}
