import type { RunRecord } from '../../contract/contract.ts';
import { withExtra, withOpaque } from '../../contract/messages/opaque-forms.ts';
import type { OutputPart } from '../../contract/messages/parts.ts';
import type { Context } from '../../transport/http/route.ts';
import type { Answer } from '../answer.ts';
import { toApiId } from '../ids.ts';
import type { AnswerEnd } from '../pieces.ts';
import { detailOf } from '../seal.ts';
import type { PlacedPiece } from '../steady.ts';
import { type ChatInput, runOfChat } from './chat-input.ts';
import {
  type ChoiceForm,
  sendChoices,
  startChoices,
  streamChoices,
  usageOfAll,
} from './choices.ts';
import { readFiles } from './files.ts';
import { tellVerbosity } from './parameters.ts';
import { finishOf, frame, logprobOf, modelOf, secondsOf } from './parts.ts';

export async function chatCompletion(context: Context<unknown, ChatInput>): Promise<void> {
  const chat = await context.body();
  const { input, narrowings } = runOfChat(chat, await readFiles(chat.messages, context));
  const asked = { api: 'openai.chat', narrowings, streams: chat.stream === true };
  const choices = await startChoices(context, chat.n, [input], asked);
  tellVerbosity(context, choices.first, 'verbosity');
  if (chat.stream !== true)
    return sendChoices(context, choices, (answers) =>
      toChatCompletion(chat, answers, choices.each),
    );
  await streamChoices(
    context,
    choices,
    chat.stream_options,
    (run, index) => new Chunks(run, chat, index),
  );
}

const idOf = (run: RunRecord) => toApiId('chatcmpl-', run.id);

function toChatCompletion(
  chat: ChatInput,
  answers: readonly [Answer, ...Answer[]],
  each: number,
): object {
  const [{ run }] = answers;
  return {
    id: idOf(run),
    object: 'chat.completion',
    created: secondsOf(run),
    model: modelOf(run),
    choices: answers.map((answer, index) => choiceOf(chat, answer, index)),
    usage: usageOfAll(
      answers.map(({ usage }) => usage),
      each,
    ),
  };
}

function choiceOf(chat: ChatInput, answer: Answer, index: number): object {
  const { text, reasoning, refusal, calls, finish_reason } = answer;
  const isSilent = text === '' && (calls.length > 0 || refusal !== '');
  return {
    index,
    message: {
      role: 'assistant',
      content: isSilent ? null : text,
      refusal: refusal === '' ? null : refusal,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) }),
      ...opaqueIn(answer.parts),
    },
    logprobs:
      chat.logprobs === true ? { content: answer.logprobs.map(logprobOf), refusal: null } : null,
    finish_reason: finishOf(finish_reason, calls.length),
  };
}

/** The fields of a message or a delta for opaque data of its text and thoughts. */
function opaqueIn(parts: readonly OutputPart[]): object {
  const { reasoning_details = [], ...extra } = withOpaque(parts);
  const details = [...reasoning_details, ...parts.flatMap((part) => detailOf(part) ?? [])];
  return { ...(details.length === 0 ? {} : { reasoning_details: details }), ...extra };
}

function callOf({ id, name, arguments: written, opaque }: Answer['calls'][number]): object {
  return { id, type: 'function', function: { name, arguments: written }, ...withExtra(opaque) };
}

/** The chunks of one streamed answer. It owns the order of the tool calls. */
class Chunks implements ChoiceForm {
  readonly head: object;
  private readonly chat: ChatInput;
  private readonly index: number;
  private isBegun = false;
  /** The text of each thought, by its part. */
  private readonly thoughts = new Map<number, string>();
  /** The place of each call, by its part. */
  private readonly calls = new Map<number, number>();

  /** `index`: of the choice. */
  constructor(run: RunRecord, chat: ChatInput, index: number) {
    this.chat = chat;
    this.index = index;
    this.head = {
      id: idOf(run),
      object: 'chat.completion.chunk',
      created: secondsOf(run),
      model: modelOf(run),
    };
  }

  /**
   * The first delta, before that of the first piece. An empty text begins a text. Programs show it,
   * so it is omitted before a tool call or reasoning.
   */
  private beginMessage(isText: boolean): string {
    if (this.isBegun) return '';
    this.isBegun = true;
    return this.chunk({ role: 'assistant', content: isText ? '' : null });
  }

  private chunk(
    delta: object,
    finish_reason: string | null = null,
    logprobs: object | null = null,
  ) {
    const choice = { index: this.index, delta, logprobs, finish_reason };
    return frame({ ...this.head, choices: [choice] });
  }

  next(piece: PlacedPiece): string {
    const { logprobs } = piece;
    const delta = this.deltaOf(piece);
    if (Object.keys(delta).length === 0) return '';
    const isWanted = this.chat.logprobs === true && logprobs !== undefined;
    const opening = this.beginMessage(piece.kind === undefined);
    const shown = isWanted ? { content: logprobs.map(logprobOf), refusal: null } : null;
    return opening + this.chunk(delta, null, shown);
  }

  end({ finish_reason }: AnswerEnd): string {
    return this.beginMessage(true) + this.chunk({}, finishOf(finish_reason, this.calls.size));
  }

  /** Empty: this API shows nothing of the piece. */
  private deltaOf({ kind, text, call, part, opaque }: PlacedPiece): object {
    if (kind !== 'tool_call') {
      const name = kind === 'reasoning' ? 'reasoning_content' : (kind ?? 'content');
      const said = text === '' && opaque !== undefined ? {} : { [name]: text };
      if (kind === 'reasoning') this.thoughts.set(part, (this.thoughts.get(part) ?? '') + text);
      if (opaque === undefined) return said;
      const whole = this.thoughts.get(part) ?? text;
      return { ...said, ...opaqueIn([{ type: kind ?? 'text', text: whole, opaque }]) };
    }
    const known = this.calls.get(part);
    if (known !== undefined) {
      const more = { index: known, function: { arguments: text }, ...withExtra(opaque) };
      return { tool_calls: [more] };
    }
    const index = this.calls.size;
    this.calls.set(part, index);
    const called = { name: call?.name, arguments: text };
    const begun = { index, id: call?.id, type: 'function', function: called };
    return { tool_calls: [{ ...begun, ...withExtra(opaque) }] };
  }
}
