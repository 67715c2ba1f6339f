import type { RunRecord } from '../../contract/contract.ts';
import type { Usage } from '../../contract/events.ts';
import { type Answer, streamAnswer } from '../dialect/answer.ts';
import { idIn } from '../dialect/ids.ts';
import type { AnswerEnd } from '../dialect/pieces.ts';
import type { PlacedPiece } from '../dialect/steady.ts';
import type { Context } from '../http/route.ts';
import { type ChatInput, runOfChat } from './chat-input.ts';
import { type Choices, sendChoices, startChoices, usageOfAll } from './choices.ts';
import { readFiles } from './files.ts';
import { tellVerbosity } from './parameters.ts';
import { CHUNKS, DONE, finishOf, frame, logprobOf, modelOf, secondsOf, usageOf } from './parts.ts';

export async function chatCompletion(context: Context<unknown, ChatInput>): Promise<void> {
  const chat = await context.body();
  const input = runOfChat(chat, await readFiles(chat.messages, context));
  const choices = await startChoices(context, chat.n, input, 'openai.chat');
  tellVerbosity(context, choices.first, 'verbosity');
  if (chat.stream === true) await streamChat(context, choices, chat);
  else await sendChoices(context, choices, (answers) => wholeChat(chat, answers));
}

const idOf = (run: RunRecord) => idIn('chatcmpl-', run.id);

function wholeChat(chat: ChatInput, answers: readonly [Answer, ...Answer[]]): object {
  const [{ run, usage }, ...others] = answers;
  return {
    id: idOf(run),
    object: 'chat.completion',
    created: secondsOf(run),
    model: modelOf(run),
    choices: answers.map((answer, index) => choiceOf(chat, answer, index)),
    usage: usageOf(usageOfAll([usage, ...others.map((other) => other.usage)])),
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
    },
    logprobs:
      chat.logprobs === true ? { content: answer.logprobs.map(logprobOf), refusal: null } : null,
    finish_reason: finishOf(finish_reason, calls.length),
  };
}

function callOf({ id, name, arguments: written }: Answer['calls'][number]): object {
  return { id, type: 'function', function: { name, arguments: written } };
}

async function streamChat(
  context: Context,
  { first, runs }: Choices,
  chat: ChatInput,
): Promise<void> {
  const usages: Usage[] = [];
  await streamAnswer(context, first, { ...CHUNKS, runs }, async (pieces, { write }, present) => {
    let chunks: Chunks | null = null;
    for await (const piece of pieces) {
      const begin = chunks === null;
      const { provider, model } = present();
      chunks ??= new Chunks({ ...first, provider, model }, chat, usages.length);
      const opening = begin ? chunks.chunk(begunBy(piece)) : '';
      if (piece.type !== 'end') await write(opening + chunks.next(piece));
      else {
        usages.push(piece.usage);
        const last = usages.length < (chat.n ?? 1) ? '' : chunks.total(usageOfAll(usages));
        await write(opening + chunks.end(piece) + last);
      }
    }
  });
}

/**
 * The first delta, before that of the first piece. An empty text begins a text. Programs show it,
 * so before a tool call or reasoning there is none.
 */
function begunBy(piece: PlacedPiece | AnswerEnd): object {
  const isText = piece.type === 'end' || piece.kind === undefined;
  return { role: 'assistant', content: isText ? '' : null };
}

/** The chunks of one streamed answer. It owns the order of the tool calls. */
class Chunks {
  private readonly head: object;
  private readonly chat: ChatInput;
  private readonly index: number;
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

  chunk(delta: object, finish_reason: string | null = null, logprobs: object | null = null) {
    const choice = { index: this.index, delta, logprobs, finish_reason };
    return frame({ ...this.head, choices: [choice] });
  }

  next(piece: PlacedPiece): string {
    const { logprobs } = piece;
    const isWanted = this.chat.logprobs === true && logprobs !== undefined;
    return this.chunk(
      this.deltaOf(piece),
      null,
      isWanted ? { content: logprobs.map(logprobOf), refusal: null } : null,
    );
  }

  end({ finish_reason }: AnswerEnd): string {
    return this.chunk({}, finishOf(finish_reason, this.calls.size));
  }

  /** After the last choice. */
  total(usage: Usage): string {
    const counted = usageOf(usage);
    const wanted = this.chat.stream_options?.include_usage === true && counted !== undefined;
    return (wanted ? frame({ ...this.head, choices: [], usage: counted }) : '') + DONE;
  }

  private deltaOf({ kind, text, call, part }: PlacedPiece): object {
    if (kind === 'reasoning') return { reasoning_content: text };
    if (kind === 'refusal') return { refusal: text };
    if (kind === undefined) return { content: text };
    const known = this.calls.get(part);
    if (known !== undefined)
      return { tool_calls: [{ index: known, function: { arguments: text } }] };
    const index = this.calls.size;
    this.calls.set(part, index);
    const begun = {
      id: call?.id,
      type: 'function',
      function: { name: call?.name, arguments: text },
    };
    return { tool_calls: [{ index, ...begun }] };
  }
}
