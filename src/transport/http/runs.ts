import type * as v from 'valibot';
import { anySignal } from '../../async/signals.ts';
import { invalidRequest, withoutNull } from '../../contract/check.ts';
import { checkRunInput, spanOf } from '../../contract/inputs.ts';
import { type RunInput, run, runInput } from '../../contract/run.ts';
import { asSvcError, hasCode } from '../../errors.ts';
import { exportQuery, type FromQuery } from '../../operations/query.ts';
import { cancelWhenGone } from '../cancel-when-gone.ts';
import { cutReasonOf } from '../stream/live.ts';
import { PIECE_BYTES } from '../stream/unsent-bytes.ts';
import { pieceWriter } from '../stream/write-pieces.ts';
import { sendJson } from './reply.ts';
import { type Context, type Differences, route } from './route.ts';
import { clientGoneSignal, clientOf, withKey } from './run-request.ts';
import { streamEvents, streamRun } from './sse.ts';

/** Operations on runs that HTTP answers its own way. */
export const runDifferences: Differences = {
  'run.start': {
    headers: ['Idempotency-Key', 'X-Svc-Client'],
    body: runInput,
    asksModel: true,
    answers: { 202: run, 200: { type: 'text/event-stream' } },
    answer: startRun,
  },
  'run.follow': {
    headers: ['Last-Event-ID'],
    answers: { 200: { type: 'text/event-stream' }, 204: null },
    answer: followRun,
  },
  'approval.watch': {
    answers: { 200: { type: 'text/event-stream' } },
    answer: (context) =>
      streamEvents(context, null, async ({ signal, write }) => {
        for await (const changes of context.runtime.approvals.watch(signal))
          await write(`event: approvals\ndata: ${JSON.stringify(changes)}\n\n`);
        throw cutReasonOf(context, 'The daemon stops. Ask again after its next start.');
      }),
  },
  'run.list': { check: checkBefore },
  'conversation.list': { check: checkBefore },
};

export const exportRoute = route({
  method: 'GET',
  path: '/v1/runs/:id/export',
  access: 'token',
  summary:
    'A run as a file that `svc runs replay` folds on any machine; ' +
    '`?redact=1` leaves out the texts.',
  query: exportQuery,
  answers: { 200: { type: 'application/json' } },
  answer: exportRun,
});

async function startRun(context: Context<unknown, RunInput>): Promise<void> {
  const { req, res, runtime, limits, log, body } = context;
  const request = await body({
    complete: (value) => withKey(value, req.headers['idempotency-key']),
  });
  const input = checkRunInput(withoutNull(request), limits);
  const who = spanOf(req.headers.traceparent);
  const started = await runtime.runs.start(input, clientOf(req), who);
  if (input.cancel_on_disconnect === true)
    cancelWhenGone(runtime, started.id, clientGoneSignal(context), log);
  if (/\btext\/event-stream\b/i.test(req.headers.accept ?? ''))
    return streamRun(context, started.id, { from_seq: 0, asks: true });
  res.setHeader('X-Svc-Run-Id', started.id);
  res.setHeader('Location', `/v1/runs/${started.id}`);
  sendJson(res, 202, started);
}

/** A page before an unknown run would be empty, and look like the end of the history. */
async function checkBefore({
  query: { before },
  runtime,
}: Context<{ before?: string }>): Promise<void> {
  if (before === undefined) return;
  await runtime.runs.head(before).catch((error: unknown) => {
    // The last run of a page may be damaged.
    if (hasCode(error, 'store_corrupt')) return;
    throw hasCode(error, 'run_unknown')
      ? invalidRequest('before', 'before must be the id of a run, such as the `next` of a page.')
      : error;
  });
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

function runId(req: Context['req']): string {
  return req.params.id ?? '';
}

/** The first position that the client needs: the one after Last-Event-ID, or `from`. */
function position({ req, query: { from = 0 } }: Context<FromQuery>): number {
  const last = req.headers['last-event-id'];
  if (last === undefined || last === '') return from;
  if (typeof last !== 'string' || !/^\d{1,15}$/.test(last))
    throw invalidRequest(
      'Last-Event-ID',
      'Last-Event-ID must be the id of an event of this stream.',
    );
  return Number(last) + 1;
}

/**
 * A position after the end belongs to another log. Waiting for it would skip events of this run.
 */
function checkPosition(req: Context['req'], from_seq: number, last_seq: number): void {
  if (from_seq <= last_seq + 1) return;
  throw invalidRequest(
    req.headers['last-event-id'] ? 'Last-Event-ID' : 'from',
    `The log has no such position yet: its last event is ${last_seq}.`,
  );
}

/**
 * Sends the file while it is read, and counts its bytes. A file that cannot be read in full ends
 * without its last bytes, so that no reader accepts it.
 */
async function exportRun({
  req,
  query,
  res,
  runtime,
  limits,
  log,
  closing,
  unsent,
}: Context<v.InferOutput<typeof exportQuery>>): Promise<void> {
  unsent.admit();
  const { redact = false } = query;
  const id = runId(req);
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  const signal = anySignal([gone.signal, closing]);
  const cut = () => res.destroy();
  const outflow = unsent.enter(cut);
  closing.addEventListener('abort', cut);
  const write = pieceWriter(res, outflow);
  let text = '';
  const flush = async () => {
    const bytes = Buffer.from(text);
    text = '';
    // The page of events behind the piece is in memory while the write waits.
    outflow.setOwnBytes(bytes.length + limits.store_page_bytes);
    await write(bytes);
  };
  try {
    for await (const piece of runtime.history.exportRun(id, { redact })) {
      if (signal.aborted) break;
      if (!res.headersSent) begin(res, id);
      text += piece;
      if (text.length >= PIECE_BYTES) await flush();
    }
    await flush();
  } catch (thrown) {
    if (!res.headersSent) throw thrown;
    log.error({ err: asSvcError(thrown), run_id: id }, 'a run could not be exported in full');
    res.destroy();
  } finally {
    closing.removeEventListener('abort', cut);
    outflow.leave();
  }
  if (signal.aborted) res.destroy();
  else res.end();
}

function begin(res: Context['res'], id: string): void {
  res.writeHead(200, {
    'Content-Type': 'application/json',
    'Content-Disposition': `attachment; filename="${id.replace(/[^\w-]/g, '')}.json"`,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  });
}
