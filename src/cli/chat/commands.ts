import { suggest } from '../../config/suggest.ts';
import { columns } from '../terminal/parse/help.ts';

/** A command in a line of a chat, and its text. */
export interface ChatCommand {
  name: string;
  /** The text behind the name. */
  rest: string;
}

/** The commands of a chat, for its help and for Tab. */
export const chatCommands: readonly (readonly [form: string, summary: string])[] = [
  ['/help', 'This list.'],
  ['/model [name]', 'Show who answers the next turn, or choose another model.'],
  ['/preset [name]', 'Ask with a preset of svc preset list. Without a name, with none.'],
  ['/set [name] [value]', 'Show the settings of the next turn. /set temperature 0 sets one.'],
  ['/system [text]', 'Show the system text, or replace it.'],
  ['/file [path]', 'Add a file to the next message. Without a path, leave all files out.'],
  ['/edit [text]', 'Write the next message in $VISUAL or $EDITOR.'],
  ['/stats', 'Show after each answer how long it took, or no longer.'],
  ['/retry', 'Ask the last message again. The answer before it no longer counts.'],
  ['/save <file>', 'Write the conversation into a new file, as Markdown.'],
  ['/new', 'Begin a new conversation.'],
  ['/list', 'Show the latest conversations.'],
  ['/load <id>', 'Continue a conversation of /list, or the one of any run.'],
  ['/exit', 'End the chat, as Ctrl-D does.'],
];

/** The names with their slash. */
export const chatNames = chatCommands.map(([form]) => form.split(' ', 1)[0] ?? form);

/** The command of a line; null for a message. A space before the slash makes it a message. */
export function chatCommandOf(message: string): ChatCommand | null {
  const [, name, rest = ''] = /^\/([a-z]+)(?:\s+([\s\S]*))?$/.exec(message.trimEnd()) ?? [];
  return name === undefined ? null : { name, rest: rest.trim() };
}

/** The hint for an unknown command. */
export function nearCommand(name: string): string {
  const near = suggest(`/${name}`, chatNames);
  const meant = near === null ? 'See: /help.' : `Did you mean: ${near}?`;
  return `${meant} A message that begins with a slash has a space before it.`;
}

export function chatHelp(): string {
  return [
    columns(chatCommands),
    '',
    'A line that ends with \\ continues on the next one. """ begins and ends several lines.',
    'Tab completes commands and names. Ctrl-C stops an answer, and Ctrl-D ends the chat.',
  ].join('\n');
}
