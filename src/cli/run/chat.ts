import { writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { asSvcError, hasCode, SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { INTERRUPTED } from '../interrupt.ts';
import { isTerminal, note, printError } from '../print/output.ts';
import { openStdout, type StdoutStream } from '../print/stdout-stream.ts';
import { type Answered, answerTo, newKey } from './answer.ts';
import { type ChatCommand, chatCommandOf, chatHelp } from './chat-commands.ts';
import { ChatHistory } from './chat-history.ts';
import { openMessages } from './chat-lines.ts';
import { conversationMarkdown } from './chat-markdown.ts';
import { readRunInput } from './run-input.ts';
import { withTargetOfShell } from './target-of-shell.ts';

/** Answers one message after the other, at a terminal or from a pipe: each line is a turn. */
export async function run(context: Context): Promise<number> {
  const { paths, json } = context;
  if (json)
    throw new SvcError('usage', 'svc chat prints answers as text.', {
      hint: 'For a record of each turn: svc run --json, then svc run -c --json',
    });
  const { conversation, ...asked } = readRunInput(context.flags);
  const request = await withTargetOfShell(asked, paths);
  const place = typeof conversation === 'string' ? { conversation } : {};
  const chat = new Chat(context, openStdout(), { request, place });
  const history = isTerminal(0) && (await keepsPrompts(paths)) ? new ChatHistory(paths) : null;
  if (isTerminal(0)) note('Type a message. /help lists the commands, and Ctrl-D ends the chat.');
  const messages = openMessages(history);
  try {
    while (!chat.ended) {
      const message = await messages.next();
      if (message === null) break;
      if (message.trim() !== '') await chat.take(message);
      if (chat.stopped) messages.drop();
    }
  } finally {
    messages.close();
  }
  return chat.exit;
}

/** Names the newest conversation of this folder: `--continue`. */
const LAST = 'last';

/** A user who wants no prompts in the log wants none in another file. */
async function keepsPrompts({ config }: Context['paths']): Promise<boolean> {
  const { loadConfig } = await import('../../config/config.ts');
  try {
    return loadConfig(config).history.prompts === 'keep';
  } catch {
    return false;
  }
}

/** What a turn says of the conversation. Nothing: it begins one. */
interface Place {
  conversation?: string;
  continues?: string;
}

/**
 * A conversation that a user types. It owns the request of the next turn and the place of the last
 * one. A turn that fails does not end the chat, but sets its exit code.
 */
class Chat {
  exit = 0;
  ended = false;
  /** Ctrl-C stopped the last answer. */
  stopped = false;
  private readonly context: Context;
  private readonly stdout: StdoutStream;
  /** The request without prompt and place. */
  private request: Record<string, unknown>;
  /** The place of the next turn. */
  private place: Place;
  private last: { prompt: string; place: Place; run_id: string | null } | null = null;

  constructor(
    context: Context,
    stdout: StdoutStream,
    { request, place }: { request: Record<string, unknown>; place: Place },
  ) {
    this.context = context;
    this.stdout = stdout;
    this.request = request;
    this.place = place;
  }

  /** Answers a message, or does what a command says. */
  async take(message: string): Promise<void> {
    this.stopped = false;
    const command = chatCommandOf(message);
    const work = command === null ? this.turn(message, this.place) : this.obey(command);
    await work.catch((error: unknown) => {
      const shown = asSvcError(error);
      printError(shown, false);
      this.exit = shown.spec.exit;
    });
  }

  private async turn(prompt: string, place: Place): Promise<void> {
    this.last = { prompt, place, run_id: this.last?.run_id ?? null };
    const input = {
      idempotency_key: newKey(),
      ...{ ...this.request, ...place, prompt },
    };
    const answered: Answered | null = await answerTo(
      this.context,
      input,
      this.stdout,
      'The answer is stopped.',
    ).catch((error: unknown) => {
      if (place.conversation !== LAST || !hasCode(error, 'run_unknown')) throw error;
      note(oneLine(`${error.message} A new conversation begins.`));
      return null;
    });
    if (answered === null) return this.turn(prompt, {});
    const { record, exit } = answered;
    const { id, conversation = id, continues } = record;
    this.place = { conversation };
    this.stopped = exit === INTERRUPTED;
    const asked = continues === undefined ? {} : { conversation, continues };
    this.last = { prompt, place: asked, run_id: id };
    if (exit !== 0 && exit !== INTERRUPTED) this.exit = exit;
    if (this.stdout.gone.aborted) this.ended = true;
    else if (isTerminal(0)) note('');
  }

  private async obey({ name, rest }: ChatCommand): Promise<void> {
    switch (name) {
      case 'help':
        return note(chatHelp());
      case 'model':
        return this.chooseModel(rest);
      case 'system':
        if (rest !== '') this.request = { ...this.request, system: rest };
        return note(oneLine(`The system text: ${this.request.system ?? 'none is set here.'}`));
      case 'retry':
        if (this.last === null) return note('There is no message yet.');
        return this.turn(this.last.prompt, this.last.place);
      case 'save':
        return this.save(rest);
      case 'new':
        [this.place, this.last] = [{}, null];
        return note('A new conversation begins.');
      case 'exit':
        this.ended = true;
        return;
      default:
        throw new SvcError('usage', `The chat has no command /${name}.`, {
          hint: 'See: /help. A message that begins with a slash has a space before it.',
        });
    }
  }

  private chooseModel(model: string): void {
    if (model !== '') {
      const { provider: _, cloud: _cloud, ...request } = this.request;
      this.request = { ...request, model };
    }
    const present = this.request.model ?? this.request.provider ?? 'that of the turn before';
    note(oneLine(`The model of the next turn: ${present}`));
  }

  private async save(file: string): Promise<void> {
    const id = this.last?.run_id ?? null;
    if (file === '' || id === null)
      throw new SvcError('usage', 'There is no answer, or no name of a file.', {
        hint: 'For example: /save chat.md',
      });
    const record = await askDaemon(this.context.paths, 'run.get', { id });
    // A shell would have replaced the home; here no shell reads the line.
    const path = resolve(file.replace(/^~(?=\/)/, () => homedir()));
    try {
      writeFileSync(path, conversationMarkdown(record), { flag: 'wx', mode: 0o600 });
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      if (code === 'EEXIST') throw new SvcError('output_exists', `The file ${path} exists.`);
      throw new SvcError('usage', `The file ${path} cannot be written (${code}).`, { cause });
    }
    note(oneLine(`Written to ${path}.`));
  }
}
