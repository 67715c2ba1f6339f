import type * as v from 'valibot';
import { runWhy } from '../../contract/history.ts';
import { asSvcError } from '../../errors.ts';
import { PIECE_BYTES } from '../../runtime/send/write-scheduler.ts';
import { exportQuery, noQuery } from '../query.ts';
import { sendLarge } from './large.ts';
import { type Context, type Route, route } from './route.ts';
import { runId } from './runs.ts';
import { pieceWriter } from './write-pieces.ts';

export const runHistoryRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/runs/:id/why',
    access: 'token',
    summary: 'Explains the state of a run: its events, and the same in sentences.',
    query: noQuery,
    answers: { 200: runWhy },
    answer: whyRun,
  }),
  route({
    method: 'GET',
    path: '/v1/runs/:id/export',
    access: 'token',
    summary:
      'A run as a file that `svc runs replay` folds on any machine; ' +
      '`?redact=1` leaves out the texts.',
    query: exportQuery,
    answers: { 200: { type: 'application/json' } },
    answer: exportRun,
  }),
];

async function whyRun(context: Context): Promise<void> {
  const { req, runtime } = context;
  await sendLarge(context, () => runtime.history.whyRun(runId(req)));
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
  const signal = AbortSignal.any([gone.signal, closing]);
  const cut = () => res.destroy();
  const outflow = unsent.enter(cut);
  closing.addEventListener('abort', cut);
  const write = pieceWriter(res, outflow);
  let text = '';
  const flush = async () => {
    const bytes = Buffer.from(text);
    text = '';
    // The page of events behind the piece is in memory while the write waits.
    outflow.own(bytes.length + limits.store_page_bytes);
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
