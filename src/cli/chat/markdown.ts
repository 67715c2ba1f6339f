import type { Run } from '../run/follow.ts';

type Part =
  | NonNullable<Run['messages']>[number]['content'][number]
  | NonNullable<Run['output_parts']>[number];

/** A conversation up to this run as Markdown: its messages and its answer, each under its role. */
export function conversationMarkdown({ id, messages, system, prompt, output }: Run): string {
  const turns = messages?.map(({ role, content }) =>
    section(HEADINGS[role], content.map(textOf).join('\n')),
  ) ?? [...(system === null ? [] : [section('System', system)]), section('User', prompt)];
  return `${[`# Conversation, ${id}`, ...turns, section('Assistant', output)].join('\n\n')}\n`;
}

const HEADINGS = { system: 'System', user: 'User', assistant: 'Assistant', tool: 'Tool' } as const;

function section(heading: string, text: string): string {
  return `## ${heading}\n\n${text.trim()}`;
}

function textOf(part: Part): string {
  if (part.type === 'image') return `(image, ${part.media_type})`;
  return part.type === 'tool_call' ? `${part.name} ${part.arguments}` : part.text;
}
