import { oneLine, plain } from '../../logs/plain.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { bytes } from '../print/format.ts';
import { paint } from '../print/output.ts';

type Record = Results['run.get'];
type Part =
  | NonNullable<Record['messages']>[number]['content'][number]
  | NonNullable<Record['output_parts']>[number];

/** What a run was asked: its messages in order, each under its role. */
export function conversationText({ messages, prompt, system }: Record): string {
  if (messages === undefined)
    return [system === null ? [] : [section('System', system)], section('Prompt', prompt)]
      .flat()
      .join('\n\n');
  return messages
    .map(({ role, content }) => `${HEADINGS[role]}\n${content.map(partText).join('\n')}`)
    .join('\n\n');
}

/** The answer with all its parts. */
export function answerText({ output, output_parts }: Record): string {
  const parts = output_parts ?? (output === '' ? [] : [{ type: 'text' as const, text: output }]);
  return `Answer\n${parts.length === 0 ? '(none)' : parts.map(partText).join('\n')}`;
}

const HEADINGS = { system: 'System', user: 'User', assistant: 'Assistant', tool: 'Tool' } as const;

function section(heading: string, text: string): string {
  return `${heading}\n${indented(text)}`;
}

function partText(part: Part): string {
  switch (part.type) {
    case 'text':
      return indented(part.text.trimEnd());
    case 'reasoning':
      return paint('dim', indented(part.text.trimEnd()));
    case 'refusal':
      return indented(`(refusal) ${part.text.trimEnd()}`);
    case 'image':
      return indented(`[${oneLine(part.media_type)}, ${bytes(part.size_bytes)}]`);
    case 'tool_call':
      return indented(`(call ${oneLine(part.id)}) ${oneLine(part.name)} ${part.arguments}`);
    case 'tool_result':
      return indented(
        `(${part.is_error ? 'error' : 'result'} of ${oneLine(part.id)}) ${part.text.trimEnd()}`,
      );
  }
}

/** Indents foreign text, so that it cannot imitate our lines. */
function indented(text: string): string {
  return plain(text).replace(/^/gm, '  ');
}
