/** What a line of a chat asks of the chat itself. */
export interface ChatCommand {
  name: string;
  /** The text behind the name. */
  rest: string;
}

/** The commands of a chat, for its help. */
export const chatCommands: readonly (readonly [form: string, summary: string])[] = [
  ['/help', 'This list.'],
  ['/model [name]', 'Show the model of the next turn, or choose another one.'],
  ['/system [text]', 'Show the system text, or replace it.'],
  ['/retry', 'Ask the last message again. The answer before it no longer counts.'],
  ['/save <file>', 'Write the conversation into a new file, as Markdown.'],
  ['/new', 'Begin a new conversation.'],
  ['/exit', 'End the chat, as Ctrl-D does.'],
];

/** The command of a line; null for a message. A space before the slash makes it a message. */
export function chatCommandOf(message: string): ChatCommand | null {
  const [, name, rest = ''] = /^\/([a-z]+)(?:\s+([\s\S]*))?$/.exec(message.trimEnd()) ?? [];
  return name === undefined ? null : { name, rest: rest.trim() };
}

export function chatHelp(): string {
  const width = Math.max(...chatCommands.map(([form]) => form.length));
  const lines = chatCommands.map(([form, summary]) => `  ${form.padEnd(width)}  ${summary}`);
  return [
    ...lines,
    '',
    'A line that ends with \\ continues on the next one. """ begins and ends several lines.',
    'Ctrl-C stops an answer, and Ctrl-D ends the chat.',
  ].join('\n');
}
