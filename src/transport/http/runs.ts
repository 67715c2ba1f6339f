import { hasCode } from '../../errors.ts';
import { wrong } from '../../runtime/contract/check.ts';
import { parseRunInput } from '../../runtime/contract/inputs.ts';
import { cancelWhenGone } from '../cancel-when-gone.ts';
import { atQuery, fromQuery, readQuery, runListQuery } from '../query.ts';
import { readJson } from './body.ts';
import { sendLarge } from './large.ts';
import { sendJson } from './reply.ts';
import type { Context } from './route.ts';
import { CLIENT, clientGone, clientOf, withKey } from './run-request.ts';
import { streamRun } from './sse.ts';

export async function startRun(context: Context): Promise<void> {
  const { req, res, runtime, limits, ended, log } = context;
  const input = parseRunInput(
    withKey(await readJson(req, res, limits.body_bytes, { ended }), req.headers['idempotency-key']),
    limits,
  );
  const run = await runtime.startRun(input, clientOf(req));
  if (input.cancel_on_disconnect === true)
    cancelWhenGone(runtime, run.id, clientGone(context), log);
  if (/\btext\/event-stream\b/i.test(req.headers.accept ?? ''))
    return streamRun(context, run.id, 0);
  res.setHeader('X-Svc-Run-Id', run.id);
  res.setHeader('Location', `/v1/runs/${run.id}`);
  sendJson(res, 202, run);
}

export async function listRuns(context: Context): Promise<void> {
  const { req, runtime, limits } = context;
  const query = readQuery(req.originalUrl, runListQuery(limits.page_runs));
  if (query.before !== undefined) await checkRun(runtime, query.before);
  await sendLarge(context, () => runtime.listRuns(query));
}

/** A page before an unknown run would be empty, and look like the end of the history. */
async function checkRun(runtime: Context['runtime'], before: string): Promise<void> {
  await runtime.headOfRun(before).catch((error: unknown) => {
    // The last run of a page may be damaged.
    if (hasCode(error, 'store_corrupt')) return;
    throw hasCode(error, 'run_unknown')
      ? wrong('before', 'before must be the id of a run, such as the `next` of a page.')
      : error;
  });
}

export async function showRun(context: Context): Promise<void> {
  const { req, runtime } = context;
  const { at } = readQuery(req.originalUrl, atQuery);
  await sendLarge(context, () =>
    at === undefined ? runtime.showRun(runId(req)) : runtime.runAt(runId(req), at),
  );
}

/** A finished run without new events gets 204, so that an event source stops asking. */
export async function followRun(context: Context): Promise<void> {
  const { req, res, runtime } = context;
  const from_seq = position(req);
  const run = await runtime.headOfRun(runId(req));
  // The status reads the files of the log, so streams avoid it.
  if (from_seq > run.seq + 1) checkPosition(req, from_seq, runtime.status().seq);
  if (run.finished && from_seq > run.seq) {
    res.writeHead(204, { 'Cache-Control': 'no-store' }).end();
    return;
  }
  await streamRun(context, runId(req), from_seq);
}

export async function cancelRun({ req, res, runtime }: Context): Promise<void> {
  sendJson(res, 200, await runtime.cancelRun(runId(req), CLIENT));
}

export function runId(req: Context['req']): string {
  return req.params.id ?? '';
}

/** The first position that the client needs: the one after Last-Event-ID, or `from`. */
function position(req: Context['req']): number {
  const { from = 0 } = readQuery(req.originalUrl, fromQuery);
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
