import { asSvcError } from '../../errors.ts';
import { exportQuery, noQuery, readQuery } from '../query.ts';
import { sendLarge } from './large.ts';
import type { Context } from './route.ts';
import { runId } from './runs.ts';
import { PIECE_BYTES, pieceWriter } from './write-pieces.ts';

export async function whyRun(context: Context): Promise<void> {
  const { req, runtime } = context;
  readQuery(req.originalUrl, noQuery);
  await sendLarge(context, () => runtime.whyRun(runId(req)));
}

/**
 * Sends the file while it is read, and counts its bytes. A file that cannot be read in full ends
 * without its last bytes, so that no reader accepts it.
 */
export async function exportRun({
  req,
  res,
  runtime,
  limits,
  log,
  closing,
  unsent,
}: Context): Promise<void> {
  unsent.admit();
  const { redact = false } = readQuery(req.originalUrl, exportQuery);
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
    for await (const piece of runtime.exportRun(id, { redact })) {
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
