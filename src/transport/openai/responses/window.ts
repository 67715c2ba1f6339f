import { parseRunInput } from '../../../contract/inputs.ts';
import { SvcError } from '../../../errors.ts';
import type { Runtime } from '../../../runtime/port.ts';
import { readingOf } from '../../dialect/documents/documents.ts';
import { idIn } from '../../dialect/ids.ts';
import { startFor } from '../../dialect/start.ts';
import { sendLarge } from '../../http/large.ts';
import { sendJson } from '../../http/reply.ts';
import type { Context } from '../../http/route.ts';
import { clientGone } from '../../http/run-request.ts';
import { keptMessages } from './compaction.ts';
import { type CompactInput, type CountInput, runOfResponse } from './input.ts';
import { inputItems } from './items.ts';
import { inResponse } from './object.ts';
import { startResponse, wholeResponse } from './responses.ts';

/** What fits into the window of a model: the count of an input, and a shorter one. */

export async function countInputTokens(context: Context<unknown, CountInput>): Promise<void> {
  const body = await context.body();
  const { input, narrowings } = await runOfResponse(context.runtime, body, readingOf(context));
  const { runs } = context.runtime;
  const count = async () =>
    runs.countTokens(parseRunInput(input, context.limits), clientGone(context), narrowings);
  const { input_tokens, uncounted } = await count().catch((thrown) => {
    throw inResponse(thrown);
  });
  const more = uncounted === null ? {} : { estimated: true };
  sendJson(context.res, 200, { object: 'response.input_tokens', input_tokens, ...more });
}

/**
 * A run writes the summary, so it is in the history, and can be retrieved as any response. Throws
 * provider_failed for a summary that is not whole: the client would lose what it leaves out.
 */
export async function compactResponse(context: Context<unknown, CompactInput>): Promise<void> {
  const { runtime } = context;
  const body = await context.body();
  const { input } = body;
  const items =
    typeof input === 'string' ? [{ role: 'user' as const, content: input }] : (input ?? []);
  const before = await startResponse(
    runtime,
    await runOfResponse(
      runtime,
      { ...body, input: [...items, { type: 'compaction_trigger' }] },
      readingOf(context),
    ),
    (...args) => startFor(context, ...args),
  );
  const { source } = before;
  const response = await wholeResponse(context, before);
  if (response.status !== 'completed' || (await isEmpty(runtime, source.run_id)))
    throw new SvcError('provider_failed', 'The model wrote no whole summary.', {
      hint: 'Compact a shorter conversation, or ask another model.',
      retryable: false,
    });
  const { request, fields } = source;
  const messages = request.messages.slice(fields.instructions === true ? 1 : 0);
  await sendLarge(context, async () => ({
    id: idIn('resp_', source.run_id),
    object: 'response.compaction',
    created_at: response.created_at,
    output: [
      ...inputItems(source.run_id, keptMessages(messages), fields),
      ...(response.output as object[]),
    ],
    usage: response.usage,
  }));
}

async function isEmpty(runtime: Pick<Runtime, 'runs'>, run_id: string): Promise<boolean> {
  return (await runtime.runs.get(run_id)).output.trim() === '';
}
