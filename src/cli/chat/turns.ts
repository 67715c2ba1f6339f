import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suggest } from '../../config/suggest.ts';
import { numberFields } from '../../contract/options.ts';
import { hasCode, SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { type AnswerOutcome, answerTo, newKey } from '../run/answer.ts';
import { type Attachment, readAttachments, withFiles } from '../run/attached.ts';
import type { Run } from '../run/follow.ts';
import { findPreset, withPreset } from '../run/preset.ts';
import { configuredBytes, readNumbers } from '../run/run-input.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import { whenNotRunning } from '../terminal/connect/not-running.ts';
import type { Context } from '../terminal/context.ts';
import { toShownError } from '../terminal/execute.ts';
import { INTERRUPTED } from '../terminal/interrupt.ts';
import { absoluteModel } from '../terminal/parse/absolute-model.ts';
import { isTerminal, note, printError } from '../terminal/print/output.ts';
import type { StdoutStream } from '../terminal/print/stdout-stream.ts';
import { openEditor } from '../upkeep/config/editor.ts';
import { type ChatCommand, chatCommandOf, chatHelp, nearCommand } from './commands.ts';
import { inHome, withHome } from './complete.ts';
import { checkModel, conversationsText, nextText, nextTurn } from './who.ts';

/** Names the newest conversation of this folder: `--continue`. */
export const LAST = 'last';

/** The conversation that a turn belongs to. Empty: it begins one. */
export interface Place {
  conversation?: string;
  continues?: string;
}

/** A message with the files that go with it. */
interface Message {
  prompt: string;
  files: readonly Attachment[];
}

interface Begun {
  request: Record<string, unknown>;
  place: Place;
  files: readonly Attachment[];
  preset: string | null;
}

/**
 * A conversation that a user types. It owns the request of the next turn and the place of the last
 * one. A turn that fails does not end the chat, but sets its exit code.
 */
export class Chat {
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
  /** The files of the next message. */
  private files: readonly Attachment[];
  private preset: string | null;
  private shows: boolean;
  private last: (Message & { place: Place; run_id: string | null }) | null = null;

  constructor(context: Context, stdout: StdoutStream, begun: Begun) {
    this.context = context;
    this.stdout = stdout;
    this.shows = context.flags.stats === true;
    ({ request: this.request, place: this.place, files: this.files, preset: this.preset } = begun);
  }

  /** Who answers the next turn, and the run it continues. Null: no daemon can say it. */
  async whoIsNext(): Promise<string | null> {
    const { paths } = this.context;
    const ask = () => nextTurn({ ...this.toRequest(''), ...this.place }, paths);
    const next = await ask()
      .catch((error: unknown) => {
        noteNoneYet(error, this.place);
        this.place = {};
        return ask();
      })
      .catch(whenUnasked);
    if (next?.conversation !== undefined) this.place = { conversation: next.conversation };
    return next === null ? null : nextText(next, paths);
  }

  /** Answers a message, or performs a command. */
  async take(text: string): Promise<void> {
    this.stopped = false;
    const command = chatCommandOf(text);
    const work = command === null ? this.say(text) : this.obey(command);
    await work.catch((error: unknown) => {
      const shown = toShownError(error);
      const isBare = shown.code === 'usage' && shown.hint === shown.spec.hint;
      printError(isBare ? shown.with({ hint: 'See: /help' }) : shown, false);
      this.exit = shown.spec.exit;
    });
  }

  private say(prompt: string): Promise<void> {
    return this.turn({ prompt, files: this.files }, this.place);
  }

  /** The request with the values of the preset. */
  private toRequest(prompt: string): Record<string, unknown> & { prompt: string } {
    const whole = { ...this.request, prompt };
    return this.preset === null ? whole : withPreset(whole, this.preset, this.context.paths);
  }

  private async turn(message: Message, place: Place): Promise<void> {
    this.last = { ...message, place, run_id: this.last?.run_id ?? null };
    const whole = this.toRequest(message.prompt);
    const request = message.files.length === 0 ? whole : withFiles(whole, message.files);
    const { context } = this;
    const { stats: _, ...flags } = context.flags;
    const answered: AnswerOutcome | null = await answerTo(
      // The getter of the paths does not survive a copy.
      { ...context, paths: context.paths, flags: this.shows ? { ...flags, stats: true } : flags },
      { idempotency_key: newKey(), ...request, ...place },
      this.stdout,
      STOPPING_MS,
    ).catch((error: unknown) => {
      noteNoneYet(error, place);
      return null;
    });
    if (answered === null) return this.turn(message, {});
    const { record, exit } = answered;
    const { id, conversation = id, continues } = record;
    this.place = { conversation };
    this.files = [];
    this.stopped = exit === INTERRUPTED;
    const follows = continues === undefined ? {} : { conversation, continues };
    this.last = { ...message, place: follows, run_id: id };
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
      case 'preset':
        return this.choosePreset(rest);
      case 'set':
        return this.set(rest);
      case 'system':
        if (rest !== '') this.request = { ...this.request, system: rest };
        return note(oneLine(`The system text: ${this.request.system ?? 'none is set here.'}`));
      case 'file':
        return this.addFile(rest);
      case 'edit':
        return this.edit(rest);
      case 'stats':
        this.shows = !this.shows;
        return note(this.shows ? 'Each answer says how long it took.' : 'Answers say no times.');
      case 'retry':
        if (this.last === null) return note('There is no message yet.');
        return this.turn(this.last, this.last.place);
      case 'save':
        return this.save(rest);
      case 'new':
        [this.place, this.last, this.files] = [{}, null, []];
        return note('A new conversation begins.');
      case 'list':
        return note(await conversationsText(this.context.paths));
      case 'load':
        return this.load(rest);
      case 'exit':
        this.ended = true;
        return;
      default:
        throw new SvcError('usage', `The chat has no command /${name}.`, {
          hint: nearCommand(name),
        });
    }
  }

  /** Without a daemon the next message finds out whether the model is there. */
  private async chooseModel(name: string): Promise<void> {
    const { paths } = this.context;
    if (name !== '') {
      const { provider: _, cloud: _cloud, ...rest } = this.request;
      const request = { ...rest, model: absoluteModel(name) };
      const next = await nextTurn(request, paths).catch(whenUnasked);
      const doubt = next === null ? null : await checkModel(next, paths);
      if (doubt !== null) note(oneLine(doubt));
      this.request = request;
    }
    const next = await this.whoIsNext();
    note(oneLine(`The next turn: ${next ?? this.request.model ?? 'as the daemon chooses'}`));
  }

  /** Throws conversation_unknown, run_unknown; then the place stays. */
  private async load(conversation: string): Promise<void> {
    if (conversation === '')
      throw new SvcError('usage', 'Which conversation?', { hint: '/list shows them.' });
    const { paths } = this.context;
    const next = await nextTurn({ ...this.toRequest(''), conversation }, paths).catch(inChat);
    const text = await nextText(next, paths);
    [this.place, this.last, this.files] = [{ conversation: next.conversation ?? '' }, null, []];
    note(oneLine(`The next turn: ${text}`));
  }

  private choosePreset(name: string): void {
    if (name !== '') findPreset(name, this.context.paths.config);
    this.preset = name === '' ? null : name;
    note(oneLine(`The preset of the next turn: ${this.preset ?? 'none'}`));
  }

  /** Sets a number of the request as a flag of svc chat does. */
  private set(rest: string): void {
    const [name = '', value] = rest.split(/\s+/);
    const flags = Object.values(numberFields).map(({ flag }) => flag);
    if (name !== '' && !flags.some((flag) => flag === name)) {
      const near = suggest(name, flags);
      throw new SvcError('usage', `There is no setting ${JSON.stringify(name)}.`, {
        hint: near === null ? `There are: ${flags.join(', ')}` : `Did you mean: /set ${near}?`,
      });
    }
    if (value !== undefined)
      this.request = { ...this.request, ...omitUndefined(readNumbers({ [name]: value })) };
    const set = Object.entries(numberFields).flatMap(([field, { flag }]) =>
      this.request[field] === undefined || (name !== '' && name !== flag)
        ? []
        : [`${flag} ${this.request[field]}`],
    );
    const none = name === '' ? `Nothing is set here. There are: ${flags.join(', ')}` : null;
    note(set.length === 0 ? (none ?? `${name} is not set here.`) : set.join(', '));
  }

  /** The file is read now, so a mistake is found before the message is written. */
  private async addFile(path: string): Promise<void> {
    const bytes_max = await configuredBytes(this.context.paths);
    const added = path === '' ? [] : await readAttachments([withHome(path)], bytes_max);
    this.files = path === '' ? [] : [...this.files, ...added];
    const names = this.files.map(({ name }) => name).join(', ');
    note(names === '' ? 'The next message has no file.' : `With the next message: ${names}`);
  }

  private async edit(begun: string): Promise<void> {
    if (!isTerminal(0)) throw new SvcError('usage', '/edit needs a terminal.');
    const folder = mkdtempSync(join(tmpdir(), 'svc-chat-'));
    try {
      const file = join(folder, 'message.md');
      writeFileSync(file, begun, { mode: 0o600 });
      openEditor(file);
      const text = readFileSync(file, 'utf8').trim();
      if (text === '') return note('The message is empty, so nothing is sent.');
      note(oneLine(`> ${text}`));
      return await this.say(text);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  private async save(file: string): Promise<void> {
    const id = this.last?.run_id ?? null;
    if (id === null)
      throw new SvcError('usage', 'There is no answer yet.', { hint: 'Ask something first.' });
    if (file === '')
      throw new SvcError('usage', '/save needs the name of a file.', {
        hint: 'For example: /save chat.md',
      });
    const record = await askDaemon(this.context.paths, 'run.get', { id });
    const path = inHome(file);
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

/** A person in a chat types no command of the shell. */
function inChat(error: unknown): never {
  if (!(error instanceof SvcError) || !hasCode(error, 'run_unknown')) throw error;
  throw error.with({ hint: '/list shows conversations.' });
}

/** An answer that stops at once needs no words before it does. */
const STOPPING_MS = 2_000;

/** Says that there is nothing to continue yet. Throws any other error. */
function noteNoneYet(error: unknown, { conversation }: Place): void {
  if (conversation !== LAST || !hasCode(error, 'run_unknown')) throw error;
  note(oneLine(`${error.message} A new conversation begins.`));
}

function omitUndefined(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

/** No daemon runs, or it is of a version that cannot say it. */
const whenUnasked = (error: unknown): null => {
  if (hasCode(error, 'route_unknown', 'invalid_request')) return null;
  return whenNotRunning(() => null)(error) as null;
};

type Part =
  | NonNullable<Run['messages']>[number]['content'][number]
  | NonNullable<Run['output_parts']>[number];

/** A conversation up to this run as Markdown: its messages and its answer, each under its role. */
function conversationMarkdown({ id, messages, system, prompt, output }: Run): string {
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
  if ('media_type' in part) return `(${part.type}, ${part.media_type})`;
  return part.type === 'tool_call' ? `${part.name} ${part.arguments}` : part.text;
}
