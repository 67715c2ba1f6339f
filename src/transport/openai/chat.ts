import type { RunRecord } from '../../contract/contract.ts';
import { type Answer, sendAnswer, streamAnswer } from '../dialect/answer.ts';
import { idIn } from '../dialect/ids.ts';
import type { AnswerEnd } from '../dialect/pieces.ts';
import { startFor } from '../dialect/start.ts';
import type { PlacedPiece } from '../dialect/steady.ts';
import type { Context } from '../http/route.ts';
import { type ChatInput, runOfChat } from './chat-input.ts';
import { readFiles } from './files.ts';
import { tellVerbosity } from './parameters.ts';
import { CHUNKS, DONE, finishOf, frame, logprobOf, modelOf, secondsOf, usageOf } from './parts.ts';

export async function chatCompletion(context: Context<unknown, ChatInput>): Promise<void> {
  const chat = await context.body();
  const input = runOfChat(chat, await readFiles(chat.messages, context));
  const run = await startFor(context, input, { api: 'openai.chat' });
  tellVerbosity(context, run, 'verbosity');
  if (chat.stream === true) await streamChat(context, run, chat);
  else await sendAnswer(context, run, (answer) => wholeChat(chat, answer));
}

const idOf = (run: RunRecord) => idIn('chatcmpl-', run.id);

function wholeChat(chat: ChatInput, answer: Answer): object {
  const { run, text, reasoning, refusal, calls, finish_reason, usage } = answer;
  const isSilent = text === '' && (calls.length > 0 || refusal !== '');
  return {
    id: idOf(run),
    object: 'chat.completion',
    created: secondsOf(run),
    model: modelOf(run),
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: isSilent ? null : text,
          refusal: refusal === '' ? null : refusal,
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
          ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) }),
        },
        logprobs:
          chat.logprobs === true
            ? { content: answer.logprobs.map(logprobOf), refusal: null }
            : null,
        finish_reason: finishOf(finish_reason, calls.length),
      },
    ],
    usage: usageOf(usage),
  };
}

function callOf({ id, name, arguments: written }: Answer['calls'][number]): object {
  return { id, type: 'function', function: { name, arguments: written } };
}

async function streamChat(context: Context, run: RunRecord, chat: ChatInput): Promise<void> {
  await streamAnswer(context, run, CHUNKS, async (pieces, { write }, present) => {
    let chunks: Chunks | null = null;
    for await (const piece of pieces) {
      const begin = chunks === null;
      chunks ??= new Chunks(present(), chat);
      const first = begin ? chunks.chunk(begunBy(piece)) : '';
      await write(first + (piece.type === 'end' ? chunks.end(piece) : chunks.next(piece)));
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
  /** The place of each call, by its part. */
  private readonly calls = new Map<number, number>();

  constructor(run: RunRecord, chat: ChatInput) {
    this.chat = chat;
    this.head = {
      id: idOf(run),
      object: 'chat.completion.chunk',
      created: secondsOf(run),
      model: modelOf(run),
    };
  }

  chunk(delta: object, finish_reason: string | null = null, logprobs: object | null = null) {
    return frame({ ...this.head, choices: [{ index: 0, delta, logprobs, finish_reason }] });
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

  end({ finish_reason, usage }: AnswerEnd): string {
    const last = this.chunk({}, finishOf(finish_reason, this.calls.size));
    const counted = usageOf(usage);
    const wanted = this.chat.stream_options?.include_usage === true && counted !== undefined;
    return last + (wanted ? frame({ ...this.head, choices: [], usage: counted }) : '') + DONE;
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
