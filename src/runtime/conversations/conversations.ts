import type { Config } from '../../config/config.ts';
import { invalidRequest, withoutNull } from '../../contract/check.ts';
import type { NextInput, RunInput, RunRecord, RunRequestRecord } from '../../contract/contract.ts';
import { boundConversation, checkRunInput } from '../../contract/inputs.ts';
import type { Message, MessagePart } from '../../contract/messages/parts.ts';
import { opaqueIn, shortMessages } from '../../contract/messages/parts.ts';
import { splitServers } from '../../contract/run.ts';
import { SvcError } from '../../errors.ts';
import { keepsContent } from '../../kernel/content.ts';
import type { EventStore, RunRow } from '../../kernel/store/port.ts';
import type { RunKey } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { Placement } from '../placement.ts';
import { HOME, type Principal, restrictedNameOf } from '../principal/principal.ts';
import { findRun, namesIn } from '../runs/find.ts';
import { isMade, newRunId } from '../runs/ids.ts';
import { unknownRun } from '../runs/run-errors.ts';
import { type ConversationReads, findConversation, runsFromNewest } from './find-conversation.ts';

export interface ConversationsOptions {
  store: ConversationReads & Pick<EventStore, 'getRun'>;
  config: Config;
  /** Keeps other daemons out. */
  placement: Pick<Placement, 'runExclusive'>;
  /** The request of a run, with its images. */
  requestOf(run_id: string): Promise<RunRequestRecord>;
}

/** A request that continues a conversation, with everything that the model gets. */
export interface Turn {
  input: RunInput;
  conversation: string;
  /** The run whose answer it follows; undefined if none has an answer. */
  continues: string | undefined;
  /** Names of the other tokens that started turns whose texts it repeats. */
  turns_of?: string[];
}

type RoutedInput = NextInput & Pick<Turn, 'turns_of'>;

/** A run of the conversation that has ended. */
interface Ended {
  run_id: string;
  record: RunRecord;
}

/**
 * Continues conversations. It owns the list of those that get or lose a turn at the moment.
 *
 * 1. A conversation is named by its first run, and each of its runs leads to it.
 * 2. It has one run at a time, on any daemon: while one begins or has not ended, another is
 *    refused.
 * 3. A turn follows the newest run with an answer, or the one that the request names. A turn
 *    without an answer is left out, with its prompt.
 * 4. The reasoning of earlier answers is left out, except what the provider of the last one must
 *    get back. Nothing else is left out: a conversation that is too long is refused.
 * 5. A system text replaces the earlier one.
 * 6. Without a provider or a model in the request, the one of the turn before answers. A cloud
 *    provider that is not the default does so only if the request asks for the cloud.
 * 7. A token that sees only its own continues only conversations whose turns are all its own: its
 *    turn repeats what they say. `last` means a run of the same asker, for everyone.
 */
export class Conversations {
  private readonly options: ConversationsOptions;
  private readonly beginning = new Set<string>();

  constructor(options: ConversationsOptions) {
    this.options = options;
  }

  /**
   * Calls `start` with the whole request, and keeps others out meanwhile. Throws run_unknown,
   * conversation_busy, content_not_kept, prompt_too_large, invalid_request, usage.
   */
  async next<T>(
    input: RunInput & { conversation: string },
    by: Principal,
    run_id: RunKey,
    start: (turn: Turn) => Promise<T>,
  ): Promise<T> {
    const { store } = this.options;
    const asked_by = restrictedNameOf(by);
    const names = { origin: input.origin, asked_by, last: by.name };
    const conversation = await findConversation(store, input.conversation, names);
    if (isMade(conversation)) throw madeByProgramError(conversation);
    const begin = async () => {
      if (asked_by !== undefined) await this.checkOwn(conversation, asked_by);
      return start(await this.turn(conversation, input, by));
    };
    return this.runExclusive(conversation, begin, run_id);
  }

  /** The request of the next turn, and what it continues. Nothing begins. Throws as `next` does. */
  async peek(input: NextInput & { conversation: string }): Promise<RoutedInput> {
    const { store, config } = this.options;
    const names = { origin: input.origin, last: HOME.name };
    const conversation = await findConversation(store, input.conversation, names);
    if (isMade(conversation)) throw madeByProgramError(conversation);
    const { newest, answered } = await this.findNewest(conversation);
    const route = routeAfter(input, (answered ?? newest)?.record, config);
    const turns_of = turnsOfOthers(HOME, answered);
    return withoutNull({ ...input, ...route, conversation, ...turns_of }) as RoutedInput;
  }

  /**
   * Keeps turns and removals of a conversation apart. `run_id`: the turn. Throws conversation_busy.
   */
  async runExclusive<T>(
    conversation: string,
    work: () => Promise<T>,
    run_id: RunKey = newRunId(),
  ): Promise<T> {
    if (this.beginning.has(conversation)) throw conversationBusyError(conversation);
    this.beginning.add(conversation);
    try {
      const worked = await this.options.placement.runExclusive(conversation, run_id, work);
      if (worked === null) throw conversationBusyError(conversation);
      return worked.done;
    } finally {
      this.beginning.delete(conversation);
    }
  }

  /** Throws invalid_request for a conversation that others continued. */
  private async checkOwn(conversation: string, asked_by: string): Promise<void> {
    const newest = { conversation, limit: 1, short: true };
    const [last] = await this.options.store.listRuns(newest);
    const [own] = await this.options.store.listRuns({ ...newest, asked_by });
    if (last?.run_id === own?.run_id) return;
    throw new SvcError(
      'invalid_request',
      `Others continued the conversation ${conversation}, so this token cannot.`,
      {
        param: 'conversation',
        hint: 'Begin a new conversation: send the prompt without the old one.',
      },
    );
  }

  private async turn(
    conversation: string,
    { conversation: _, continues, prompt, system, ...input }: RunInput,
    by: Principal,
  ): Promise<Turn> {
    const { config, requestOf } = this.options;
    if (!keepsContent(config.history)) throw contentNotKeptError(conversation);
    const { newest, answered } = await this.findNewest(conversation);
    const before = continues == null ? answered : await this.findTurn(conversation, continues);
    const own = input.messages ?? shortMessages(prompt ?? '', system ?? null);
    const earlier =
      before === null
        ? []
        : withAnswer(
            before,
            (await requestOf(before.run_id)).request.messages,
            own,
            hasTools(input),
          );
    const messages = joinMessages(earlier, own);
    const whole = withoutNull({
      ...input,
      ...routeAfter(input, (before ?? newest)?.record, config),
      messages,
    }) as RunInput;
    checkLength(whole, config.limits);
    const turns_of = turnsOfOthers(by, before);
    return { input: whole, conversation, continues: before?.run_id, ...turns_of };
  }

  /** The newest run, and the newest one with an answer. Throws conversation_busy. */
  private async findNewest(
    conversation: string,
  ): Promise<{ newest: Ended | null; answered: Ended | null }> {
    let newest: Ended | null = null;
    for await (const row of runsFromNewest(this.options.store, conversation)) {
      if ('damage' in row) throw new SvcError('store_corrupt', row.damage);
      const run = toEndedRun(row);
      newest ??= run;
      const { record } = run;
      // A tool call may be in the omitted part.
      const isLeftOut = record.output === '' && 'shortened' in record;
      if (!isAnswered(record) && !isLeftOut) continue;
      const answered = await this.readEnded(run.run_id);
      if (isAnswered(answered.record)) return { newest, answered };
    }
    return { newest, answered: null };
  }

  /** A run of this conversation with an answer. Throws invalid_request (`continues`). */
  private async findTurn(conversation: string, written: string): Promise<Ended> {
    const { store } = this.options;
    const run = await this.readEnded(await findRun(namesIn(store), written)).catch(() => null);
    if (run !== null && isAnswered(run.record) && run.record.conversation === conversation)
      return run;
    throw invalidRequest(
      'continues',
      'continues must be a run of the conversation that has an answer.',
    );
  }

  private async readEnded(run_id: string): Promise<Ended> {
    const row = await this.options.store.getRun(run_id, 'answer');
    if (row === null) throw unknownRun(run_id);
    return toEndedRun(row);
  }
}

function toEndedRun({ run_id, conversation = run_id, record }: RunRow): Ended {
  if (record === null) throw conversationBusyError(conversation, run_id);
  return { run_id, record: { conversation, ...record } as unknown as RunRecord };
}

/** Whether the next turn can follow the run: reasoning alone is not an answer. */
function isAnswered({ output, output_parts = [] }: RunRecord): boolean {
  return output !== '' || output_parts.some(({ type }) => type === 'tool_call');
}

/** The messages of a run and its answer. Calls stay only if the next messages answer them. */
function withAnswer(
  { run_id, record }: Ended,
  request: readonly Message[],
  next: readonly Message[],
  keepsCalls: boolean,
): Message[] {
  if (request.length === 0) throw contentNotKeptError(run_id);
  const { output, output_parts } = record;
  const parts: readonly MessagePart[] = output_parts ?? [{ type: 'text', text: output }];
  const answersCalls = next.some(({ role }) => role === 'tool');
  const content = parts.filter(
    (part) => (answersCalls || part.type !== 'tool_call') && !isPlainThought(part),
  );
  // A request without tools cannot contain calls.
  const turns = keepsCalls ? (record.turns ?? []).map(withoutFiles) : [];
  const earlier = [...withoutThoughts(request), ...turns];
  return content.length === 0 ? earlier : [...earlier, { role: 'assistant', content }];
}

/** Thoughts that no provider must get back. */
function isPlainThought(part: MessagePart): boolean {
  return part.type === 'reasoning' && part.opaque === undefined;
}

/** A provider needs its own thoughts since the last message of the user. */
function withoutThoughts(messages: readonly Message[]): readonly Message[] {
  const last = messages.findLastIndex(({ role }) => role === 'user');
  return messages.flatMap((message, index) => {
    if (index > last || !message.content.some(opaqueIn)) return [message];
    const content = message.content.filter(
      (part) => part.type !== 'reasoning' || isPlainThought(part),
    );
    return content.length === 0 ? [] : [{ ...message, content }];
  });
}

/** A turn of an earlier run. Its record does not have the files of results. */
function withoutFiles({ role, content }: NonNullable<RunRecord['turns']>[number]): Message {
  const parts = content.map((part) => {
    if (part.type !== 'tool_result' || part.media === undefined) return part as MessagePart;
    const { media: _, ...result } = part;
    return { ...result, text: `${part.text}\n${EARLIER_FILES}` };
  });
  return { role, content: parts };
}

const EARLIER_FILES = '[svc: its files were left out: they are in an earlier run]';

function joinMessages(earlier: readonly Message[], own: readonly Message[]): Message[] {
  const isSystem = ({ role }: Message) => role === 'system';
  if (!own.some(isSystem)) return [...earlier, ...own];
  const others = [...earlier, ...own].filter((message) => !isSystem(message));
  return [...own.filter(isSystem), ...others];
}

function hasTools(input: RunInput): boolean {
  return (input.tools ?? []).length + splitServers(input).servers.length > 0;
}

/** The target of the turn before, if the request names none. Throws usage. */
function routeAfter(
  { provider, model, cloud }: Pick<RunInput, 'provider' | 'model' | 'cloud'>,
  before: RunRecord | undefined,
  { default_provider }: Pick<Config, 'default_provider'>,
): Pick<RunInput, 'model'> {
  if (before === undefined || provider != null || model != null) return {};
  const target = { model: `${before.provider}/${before.model}` };
  if (before.provider === default_provider && cloud !== true) return target;
  if (before.cloud && cloud !== true)
    throw new SvcError(
      'usage',
      `The conversation is with ${before.provider}, a cloud provider, and the request does ` +
        'not ask for the cloud.',
      { param: 'cloud', hint: 'Add --cloud, or name a model with --model.' },
    );
  return before.cloud === (cloud === true) ? target : {};
}

/** Throws the error of a request of the same length. */
function checkLength(whole: RunInput, limits: Limits): void {
  try {
    boundConversation(whole, limits);
    checkRunInput(withoutNull(whole), limits);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    const { code, message, cause, param } = error;
    throw new SvcError(code, `The conversation cannot continue. ${message}`, {
      cause,
      param: param ?? undefined,
      hint: 'Begin a new conversation: send the prompt without the old one.',
    });
  }
}

export function conversationBusyError(conversation: string, run_id?: string): SvcError {
  const which =
    run_id === undefined ? 'A run of it begins or is removed.' : `The run ${run_id} has not ended.`;
  return new SvcError(
    'conversation_busy',
    `The conversation ${conversation} has one run at a time. ${which}`,
    {
      param: 'conversation',
      ...(run_id === undefined
        ? {}
        : { hint: `Wait for its answer, or cancel it: svc runs cancel ${run_id}` }),
    },
  );
}

function madeByProgramError(conversation: string): SvcError {
  return new SvcError(
    'invalid_request',
    `A program made the conversation ${conversation} with POST /v1/conversations.`,
    { param: 'conversation', hint: 'Continue it with POST /v1/responses.' },
  );
}

function contentNotKeptError(run_id: string): SvcError {
  return new SvcError(
    'content_not_kept',
    `The log does not keep what was said in ${run_id}, so it cannot be continued.`,
    { param: 'conversation' },
  );
}

/** The other tokens whose texts a turn after this run repeats. */
function turnsOfOthers({ name }: Principal, before: Ended | null): { turns_of?: string[] } {
  const { asked_by, turns_of = [] } = before?.record ?? {};
  const others = [asked_by ?? [], turns_of].flat().filter((asker) => asker !== name);
  return others.length === 0 ? {} : { turns_of: [...new Set(others)] };
}
