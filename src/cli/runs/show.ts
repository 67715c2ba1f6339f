import { oneLine } from '../../logs/plain.ts';
import type { Results } from '../../transport/control/protocol.ts';
import type { Context } from '../context.ts';
import { ago, duration, localTime } from '../print/format.ts';
import { print, printJson } from '../print/output.ts';
import { fields } from '../print/table.ts';
import { statsOf } from '../run/stats.ts';
import { answerText, conversationText } from './conversation.ts';
import { withRuns } from './run-reads.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const record = await withRuns(paths, (runs) => runs.get(args[0] ?? ''));
  if (json) {
    printJson(record);
    return 0;
  }
  print(recordText(record));
  return 0;
}

/** A run as text. */
export function recordText(record: Results['run.get']): string {
  const { usage, error } = record;
  const { tokens_per_second: rate } = statsOf(record);
  const head = fields([
    [
      'state',
      record.queue_position === null
        ? record.state
        : `${record.state}, number ${record.queue_position} in the queue`,
    ],
    ['error', error === null ? null : `${error.code}: ${error.message}`],
    ['hint', error?.hint ?? null],
    ['provider', `${record.provider}${record.cloud ? ' (cloud)' : ''}`],
    ['model', record.model],
    ['created', `${localTime(record.created_at)}, ${ago(record.created_at)}`],
    ['first output', between(record.created_at, record.first_output_at)],
    ['ended', between(record.created_at, record.ended_at)],
    [
      'tokens',
      usage.output_tokens === null
        ? null
        : `${usage.input_tokens ?? '?'} in, ${usage.output_tokens} out`,
    ],
    ['rate', rate === null ? null : `${rate} tokens/s`],
    ['load', record.load_ms === undefined ? null : duration(record.load_ms)],
    ['attempts', record.attempts > 1 ? String(record.attempts) : null],
    ['finish', record.finish_reason],
    [
      'stopped by',
      record.stop_sequence === undefined ? null : JSON.stringify(record.stop_sequence),
    ],
    ['tools', record.tools?.map(({ name }) => name).join(', ') ?? null],
    ['asked through', record.asked_as ?? null],
    ['client', record.client],
    ['conversation', record.continues === undefined ? null : (record.conversation ?? null)],
    ['continues', record.continues ?? null],
    ['folder', record.origin ?? null],
    ['when cut off', record.recovery],
  ]);
  const parts = [`${oneLine(record.id)}\n${head}`, conversationText(record), answerText(record)];
  return parts.join('\n\n');
}

function between(from: string, to: string | null): string | null {
  return to === null ? null : `after ${duration(Date.parse(to) - Date.parse(from))}`;
}
