import type * as v from 'valibot';
import { given, wrong } from '../../contract/check.ts';
import { conversationPage } from '../../contract/conversation-page.ts';
import { type ConversationListQuery, checkRunInput } from '../../contract/inputs.ts';
import {
  type RunInput,
  removedRun,
  run,
  runInput,
  runPage,
  searchPage,
} from '../../contract/run.ts';
import { spanOf } from '../../contract/span.ts';
import { hasCode } from '../../errors.ts';
import { cancelWhenGone } from '../cancel-when-gone.ts';
import {
  type AtQuery,
  atQuery,
  conversationListQuery,
  type FromQuery,
  fromQuery,
  type RunListQuery,
  runListQuery,
  runSearchQuery,
} from '../query.ts';
import { sendLarge } from './large.ts';
import { sendJson } from './reply.ts';
import { type Context, type Route, route } from './route.ts';
import { CLIENT, clientGone, clientOf, withKey } from './run-request.ts';
import { streamRun } from './sse.ts';

export const runRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/runs',
    access: 'token',
    summary: 'Starts a run: 202 with its record, or its events with Accept: text/event-stream.',
    headers: ['Idempotency-Key', 'X-Svc-Client'],
    body: runInput,
    asksModel: true,
    answers: { 202: run, 200: { type: 'text/event-stream' } },
    answer: startRun,
  }),
  route({
    method: 'GET',
    path: '/v1/runs',
    access: 'token',
    summary: 'The latest runs, newest first; `next` leads to the next page.',
    query: ({ page_runs }) => runListQuery(page_runs),
    answers: { 200: runPage },
    answer: listRuns,
  }),
  route({
    method: 'GET',
    path: '/v1/conversations',
    access: 'token',
    summary: 'The latest conversations, with their titles; `next` leads to the next page.',
    query: ({ page_runs }) => conversationListQuery(page_runs),
    answers: { 200: conversationPage },
    answer: listConversations,
  }),
  route({
    method: 'GET',
    path: '/v1/runs/search',
    access: 'token',
    summary: 'Finished runs with these words, newest first, each with a snippet.',
    query: runSearchQuery,
    answers: { 200: searchPage },
    answer: searchRuns,
  }),
  route({
    method: 'DELETE',
    path: '/v1/runs/:id',
    access: 'token',
    summary: 'Removes a finished run from the log.',
    answers: { 200: removedRun },
    answer: removeRun,
  }),
  route({
    method: 'GET',
    path: '/v1/runs/:id',
    access: 'token',
    summary: 'One run; with `?at=<seq>` as it was after that event.',
    query: atQuery,
    answers: { 200: run },
    answer: showRun,
  }),
  route({
    method: 'GET',
    path: '/v1/runs/:id/events',
    access: 'token',
    summary: 'The events of a run as they happen; Last-Event-ID resumes.',
    query: fromQuery,
    headers: ['Last-Event-ID'],
    answers: { 200: { type: 'text/event-stream' }, 204: null },
    answer: followRun,
  }),
  route({
    method: 'POST',
    path: '/v1/runs/:id/cancel',
    access: 'token',
    summary: 'Cancels a run; answers when the work has stopped.',
    answers: { 200: run },
    answer: cancelRun,
  }),
];

async function startRun(context: Context<unknown, RunInput>): Promise<void> {
  const { req, res, runtime, limits, log, body } = context;
  const asked = await body({ complete: (value) => withKey(value, req.headers['idempotency-key']) });
  const input = checkRunInput(given(asked), limits);
  const who = spanOf(req.headers.traceparent);
  const started = await runtime.runs.start(input, clientOf(req), who);
  if (input.cancel_on_disconnect === true)
    cancelWhenGone(runtime, started.id, clientGone(context), log);
  if (/\btext\/event-stream\b/i.test(req.headers.accept ?? ''))
    return streamRun(context, started.id, { from_seq: 0, asks: true });
  res.setHeader('X-Svc-Run-Id', started.id);
  res.setHeader('Location', `/v1/runs/${started.id}`);
  sendJson(res, 202, started);
}

async function listRuns(context: Context<RunListQuery>): Promise<void> {
  const { query, runtime } = context;
  if (query.before !== undefined) await checkRun(runtime, query.before);
  await sendLarge(context, () => runtime.runs.list(query));
}

async function listConversations(context: Context<ConversationListQuery>): Promise<void> {
  const { query, runtime, res } = context;
  if (query.before !== undefined) await checkRun(runtime, query.before);
  const page = await runtime.runs.list({ ...query, latest: true, texts: 'short' });
  sendJson(res, 200, await runtime.runs.made.page(page));
}

type SearchQuery = v.InferOutput<typeof runSearchQuery>;

async function searchRuns({ query, res, runtime }: Context<SearchQuery>): Promise<void> {
  sendJson(res, 200, await runtime.runs.search(query));
}

async function removeRun({ req, res, runtime }: Context): Promise<void> {
  const removed = runId(req);
  sendJson(res, 200, { removed, ...(await runtime.runs.remove(removed)) });
}

/** A page before an unknown run would be empty, and look like the end of the history. */
async function checkRun(runtime: Context['runtime'], before: string): Promise<void> {
  await runtime.runs.head(before).catch((error: unknown) => {
    // The last run of a page may be damaged.
    if (hasCode(error, 'store_corrupt')) return;
    throw hasCode(error, 'run_unknown')
      ? wrong('before', 'before must be the id of a run, such as the `next` of a page.')
      : error;
  });
}

async function showRun(context: Context<AtQuery>): Promise<void> {
  const { req, runtime } = context;
  const { at } = context.query;
  await sendLarge(context, () =>
    at === undefined ? runtime.runs.show(runId(req)) : runtime.history.runAt(runId(req), at),
  );
}

/** A finished run without new events gets 204, so that an event source stops asking. */
async function followRun(context: Context<FromQuery>): Promise<void> {
  const { req, res, runtime } = context;
  const from_seq = position(context);
  const head = await runtime.runs.head(runId(req));
  if (from_seq > head.seq + 1) checkPosition(req, from_seq, await runtime.runs.lastSeq());
  if (head.finished && from_seq > head.seq) {
    res.writeHead(204, { 'Cache-Control': 'no-store' }).end();
    return;
  }
  await streamRun(context, runId(req), { from_seq, asks: false });
}

async function cancelRun({ req, res, runtime }: Context): Promise<void> {
  sendJson(res, 200, await runtime.runs.cancel(runId(req), CLIENT));
}

export function runId(req: Context['req']): string {
  return req.params.id ?? '';
}

/** The first position that the client needs: the one after Last-Event-ID, or `from`. */
function position({ req, query: { from = 0 } }: Context<FromQuery>): number {
  const last = req.headers['last-event-id'];
  if (last === undefined || last === '') return from;
  if (typeof last !== 'string' || !/^\d{1,15}$/.test(last))
    throw wrong('Last-Event-ID', 'Last-Event-ID must be the id of an event of this stream.');
  return Number(last) + 1;
}

/**
 * A position after the end belongs to another log. Waiting for it would skip events of this run.
 */
function checkPosition(req: Context['req'], from_seq: number, last_seq: number): void {
  if (from_seq <= last_seq + 1) return;
  throw wrong(
    req.headers['last-event-id'] ? 'Last-Event-ID' : 'from',
    `The log has no such position yet: its last event is ${last_seq}.`,
  );
}
