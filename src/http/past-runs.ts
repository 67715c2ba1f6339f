import { once } from 'node:events';
import { asSvcError } from '../errors.ts';
import { readQuery, readWord } from '../query.ts';
import { sendJson } from './reply.ts';
import type { Context } from './route.ts';
import { runId } from './runs.ts';

export async function whyRun({ req, res, runtime, unsent }: Context): Promise<void> {
  readQuery(req.originalUrl, []);
  await unsent.whole(async () => sendJson(res, 200, await runtime.whyRun(runId(req))));
}

/** Sent as it is read: a file that could not be read whole ends without its last bytes, so that nobody takes it for one. */
export async function exportRun({ req, res, runtime, log, closing, unsent }: Context): Promise<void> {
  unsent.admit();
  const redact = ['1', 'true'].includes(readWord(readQuery(req.originalUrl, ['redact']), 'redact', ['0', '1', 'false', 'true']) ?? '0');
  const id = runId(req);
  const gone = new AbortController();
  res.once('close', () => gone.abort());
  const signal = AbortSignal.any([gone.signal, closing]);
  try {
    for await (const piece of runtime.exportRun(id, { redact })) {
      if (signal.aborted) break;
      if (!res.headersSent) begin(res, id);
      if (!res.write(piece)) await once(res, 'drain', { signal }).catch(() => {});
    }
  } catch (thrown) {
    if (!res.headersSent) throw thrown;
    log.error({ err: asSvcError(thrown), run_id: id }, 'a run could not be exported whole');
    res.destroy();
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
