import { oneLine, toPlain } from '../../logs/plain.ts';
import { wrapLines } from '../../logs/word-wrap.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { withRuns } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import { ago, bytes, duration, localTime, waitedMs, workedMs } from '../terminal/print/format.ts';
import { paint, print, printJson } from '../terminal/print/output.ts';
import { columnsOfStdout, fields } from '../terminal/print/table.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const record = await withRuns(paths, (client) => client.call('run.get', { id: args[0] ?? '' }));
  if (json) return printJson(record);
  print(recordText(record));
  return 0;
}

/** A run as text. */
export function recordText(record: Results['run.get']): string {
  const { usage, error, tokens_per_second: rate } = record;
  const waited = waitText(record);
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
    ['first output', durationText(record.created_at, record.first_output_at)],
    ['ended', endText(record)],
    ['waited', record.ended_at === null ? waited : null],
    [
      'tokens',
      usage.output_tokens === null
        ? null
        : `${usage.input_tokens ?? '?'} in, ${usage.output_tokens} out`,
    ],
    ['rate', rate === undefined ? null : `${rate} tokens/s`],
    ['load', record.load_ms === undefined ? null : duration(record.load_ms)],
    ['opaque parts', opaqueText(record)],
    ['attempts', record.attempts > 1 ? String(record.attempts) : null],
    ['finish', record.finish_reason],
    [
      'stopped by',
      record.stop_sequence === undefined ? null : JSON.stringify(record.stop_sequence),
    ],
    ['tools', record.tools?.map(({ name }) => name).join(', ') ?? null],
    ...(record.tool_calls ?? []).map(
      ({ call, server, tool, name, state, decided_by, report }): [string, string] => [
        `call ${call}`,
        `${server === null ? name : `${server}/${tool}`}, ${state}` +
          (decided_by === null ? '' : ` (by ${decided_by})`) +
          (report === undefined ? '' : `, said last: ${report}`),
      ],
    ),
    ['asked through', record.asked_as ?? null],
    ['client', record.client],
    ['conversation', record.continues === undefined ? null : (record.conversation ?? null)],
    ['continues', record.continues ?? null],
    ['folder', record.origin ?? null],
    ['when cut off', record.recovery],
  ]);
  const { turns = [] } = record;
  const said = [conversationText(record), ...(turns.length === 0 ? [] : [messagesText(turns)])];
  return [`${oneLine(record.id)}\n${head}`, ...said, answerText(record)].join('\n\n');
}

/** The parts that only one provider and model can read. */
function opaqueText({ opaque_parts: kept = 0, opaque_left_out: left_out = 0 }: Record) {
  const texts = [
    ...(kept === 0 ? [] : [`${kept}, which its provider gets back`]),
    ...(left_out === 0 ? [] : [`${left_out} left out, which another provider or model wrote`]),
  ];
  return texts.length === 0 ? null : texts.join('; ');
}

function waitText(record: Results['run.get']): string | null {
  const ms = waitedMs(record);
  return ms === 0 ? null : `${duration(ms)} for a person`;
}

function endText(record: Results['run.get']): string | null {
  if (record.ended_at === null) return null;
  const waited = waitText(record);
  return `after ${duration(workedMs(record))}${waited === null ? '' : ` (and waited ${waited})`}`;
}

function durationText(from: string, to: string | null): string | null {
  return to === null ? null : `after ${duration(Date.parse(to) - Date.parse(from))}`;
}

type Record = Results['run.get'];
type Part =
  | NonNullable<Record['messages']>[number]['content'][number]
  | NonNullable<Record['output_parts']>[number];

/** The prompt of a run: its messages in order, each under its role. */
function conversationText({ messages, prompt, system }: Record): string {
  if (messages === undefined)
    return [system === null ? [] : [section('System', system)], section('Prompt', prompt)]
      .flat()
      .join('\n\n');
  return messagesText(messages);
}

function messagesText(messages: NonNullable<Record['messages']>): string {
  return messages
    .map(({ role, content }) => `${HEADINGS[role]}\n${content.map(partText).join('\n')}`)
    .join('\n\n');
}

/** The answer with all its parts. */
function answerText({ output, output_parts }: Record): string {
  const parts = output_parts ?? (output === '' ? [] : [{ type: 'text' as const, text: output }]);
  return `Answer\n${parts.length === 0 ? '(none)' : parts.map(partText).join('\n')}`;
}

const HEADINGS = { system: 'System', user: 'User', assistant: 'Assistant', tool: 'Tool' } as const;

function section(heading: string, text: string): string {
  return `${heading}\n${indentText(text)}`;
}

/** Opaque parts are not shown. */
function partText(part: Part): string {
  const opaque = 'opaque' in part ? part.opaque : undefined;
  if (opaque === undefined) return readablePart(part);
  const { form, data, provider, model } = opaque;
  const author = provider === undefined ? 'nobody here' : oneLine(`only ${provider}/${model}`);
  const size = bytes(Buffer.byteLength(data));
  const shown = indentText(`(${oneLine(form)}, ${size}, for ${author})`);
  const text = 'text' in part && part.text === '' ? [] : [readablePart(part)];
  return [...text, paint('dim', shown)].join('\n');
}

function readablePart(part: Part): string {
  switch (part.type) {
    case 'text':
      return indentText(part.text.trimEnd());
    case 'reasoning':
      return paint('dim', indentText(part.text.trimEnd()));
    case 'refusal':
      return indentText(`(refusal) ${part.text.trimEnd()}`);
    case 'image':
    case 'audio':
      return indentText(`[${oneLine(part.media_type)}, ${bytes(part.size_bytes)}]`);
    case 'tool_call':
      return indentText(`(call ${oneLine(part.id)}) ${oneLine(part.name)} ${part.arguments}`);
    case 'tool_result':
      return indentText(
        `(${part.is_error ? 'error' : 'result'} of ${oneLine(part.id)}) ${part.text.trimEnd()}`,
      );
  }
}

/** Indents foreign text, so that it cannot imitate our lines, and breaks it between words. */
function indentText(text: string): string {
  return wrapLines(toPlain(text).replace(/^/gm, '  '), columnsOfStdout());
}
