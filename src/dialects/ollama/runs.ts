import * as v from 'valibot';
import { invalidRequest } from '../../contract/check.ts';
import type { RunInput } from '../../contract/contract.ts';
import type { Message, MessagePart, Tool } from '../../contract/messages/parts.ts';
import { anything, flag, named, object, oneOf, text } from '../../contract/vocabulary.ts';
import { sendLarge } from '../../transport/http/large.ts';
import { sendJson } from '../../transport/http/reply.ts';
import type { Context } from '../../transport/http/route.ts';
import { clientGoneSignal } from '../../transport/http/run-request.ts';
import { collectAnswer, streamAnswer } from '../answer.ts';
import { startFor } from '../start.ts';
import { Lines, lineOf, part, type Shape, wholeOf } from './answer.ts';
import { errorOf } from './errors.ts';
import { fixedValue, inputOf, keepAliveMs, shared, toRequestError } from './parameters.ts';

/** POST /api/chat and POST /api/generate: each request is a run. */

const toolCall = object({
  id: v.nullish(text),
  type: v.nullish(text),
  function: object({ name: text, arguments: v.nullish(anything), index: v.nullish(v.number()) }),
});

const images = v.nullish(v.array(text, 'must be a list of images in base64.'));

const message = object({
  role: oneOf(['system', 'user', 'assistant', 'tool']),
  content: v.nullish(text),
  thinking: v.nullish(text),
  images,
  tool_calls: v.nullish(v.array(toolCall, 'must be a list of tool calls.')),
  tool_name: v.nullish(text),
  tool_call_id: v.nullish(text),
});
type SentMessage = v.InferOutput<typeof message>;

const tool = object({
  type: v.literal('function', 'must be function.'),
  function: object({ name: text, description: v.nullish(text), parameters: v.nullish(anything) }),
});

function toolOf({ function: called }: v.InferOutput<typeof tool>): Tool {
  const { name, description = null, parameters } = called;
  return { name, description, parameters: parameters ?? {} };
}

/** Throws invalid_request for an image that cannot be one, and for a result without its call. */
function messagesOf(sent: readonly SentMessage[]): Message[] {
  const calls = new Calls();
  return sent.map((one, index) => {
    const at = `messages.${index}`;
    const { role, content, thinking, images, tool_calls } = one;
    if (role === 'tool') {
      const id = calls.takeCallId(one, at);
      return { role, content: [{ type: 'tool_result', id, text: content ?? '', is_error: false }] };
    }
    const parts: MessagePart[] = thinking ? [{ type: 'reasoning', text: thinking }] : [];
    const imageParts = imagesOf(images, at);
    const callParts = (tool_calls ?? []).map((call) => calls.addCall(call));
    const isSilent = imageParts.length + callParts.length + parts.length > 0 && !content;
    if (!isSilent) parts.push({ type: 'text', text: content ?? '' });
    return { role, content: [...parts, ...imageParts, ...callParts] };
  });
}

function imagesOf(images: readonly string[] | null | undefined, at: string): MessagePart[] {
  return (images ?? []).map((data, place) => {
    const media_type = mediaTypeOf(data);
    if (media_type !== null) return { type: 'image', media_type, data };
    const param = `${at === '' ? '' : `${at}.`}images.${place}`;
    throw invalidRequest(param, `${param} must be a PNG, JPEG, GIF or WebP file in base64.`);
  });
}

/** Ollama's images have no type: their first bytes say it. */
function mediaTypeOf(data: string): string | null {
  const head = Buffer.from(data.slice(0, 24), 'base64').toString('latin1');
  return SIGNATURES.find(([begins]) => begins.test(head))?.[1] ?? null;
}
const SIGNATURES: readonly [RegExp, string][] = [
  [/^\x89PNG/, 'image/png'],
  [/^\xff\xd8\xff/, 'image/jpeg'],
  [/^GIF8[79]a/, 'image/gif'],
  [/^RIFF[\s\S]{4}WEBP/, 'image/webp'],
];

/**
 * The calls of a conversation. Most clients send them without ids. Then a result belongs to the
 * first call of its tool that has no result yet.
 */
class Calls {
  /** The calls without a result, by id, by name, and all of them under the empty text. */
  private readonly open = new Map<string, Set<Call>>();
  private count = 0;

  addCall({
    id,
    function: { name, arguments: written },
  }: v.InferOutput<typeof toolCall>): MessagePart {
    this.count += 1;
    const call = { id: id || `call_${this.count}`, name };
    for (const key of keysOf(call)) {
      const calls = this.open.get(key) ?? new Set();
      this.open.set(key, calls.add(call));
    }
    return { type: 'tool_call', ...call, arguments: JSON.stringify(written ?? {}) };
  }

  takeCallId({ tool_call_id, tool_name }: SentMessage, at: string): string {
    const key = tool_call_id ? `id ${tool_call_id}` : tool_name ? `name ${tool_name}` : '';
    const [call] = this.open.get(key) ?? [];
    if (call === undefined)
      throw invalidRequest(
        at,
        `${at} is the result of a tool, but no message before it calls the tool.`,
      );
    for (const each of keysOf(call)) this.open.get(each)?.delete(call);
    return call.id;
  }
}

interface Call {
  id: string;
  name: string;
}

function keysOf({ id, name }: Call): readonly string[] {
  return [`id ${id}`, `name ${name}`, ''];
}

export const chatInput = named(
  'OllamaChatInput',
  object({
    ...shared,
    messages: v.nullish(v.array(message, 'must be a list of messages.')),
    tools: v.nullish(v.array(tool, 'must be a list of tools.')),
    truncate: v.nullish(flag),
    shift: v.nullish(flag),
  }),
);

export const generateInput = named(
  'OllamaGenerateInput',
  object({
    ...shared,
    prompt: v.nullish(text),
    system: v.nullish(text),
    images,
    raw: v.nullish(flag),
    template: fixedValue('', 'the daemon uses the template of the model.'),
    suffix: v.nullish(text),
    context: fixedValue([], 'send the conversation to /api/chat.'),
    truncate: v.nullish(flag),
    shift: v.nullish(flag),
    width: v.nullish(v.never('is not supported here: the daemon makes no images.')),
    height: v.nullish(v.never('is not supported here: the daemon makes no images.')),
    steps: v.nullish(v.never('is not supported here: the daemon makes no images.')),
  }),
);

type ChatContext = Context<unknown, v.InferOutput<typeof chatInput>>;
type GenerateContext = Context<unknown, v.InferOutput<typeof generateInput>>;
type Sent = v.InferOutput<typeof chatInput> | v.InferOutput<typeof generateInput>;

export async function chat(context: ChatContext): Promise<void> {
  const sent = await context.body();
  const messages = messagesOf(sent.messages ?? []);
  if (messages.length === 0) return answerLoaded(context, sent, 'chat');
  const tools = sent.tools?.map(toolOf) ?? [];
  await answer(context, sent, 'chat', {
    ...inputOf(sent, isLocal(context, sent)),
    messages,
    ...(tools.length === 0 ? {} : { tools }),
  } as RunInput);
}

export async function generate(context: GenerateContext): Promise<void> {
  const sent = await context.body();
  const shown = imagesOf(sent.images, '');
  const prompt = sent.prompt ?? '';
  if (prompt === '' && shown.length === 0 && !sent.suffix)
    return answerLoaded(context, sent, 'generate');
  const system: Message[] = sent.system
    ? [{ role: 'system', content: [{ type: 'text', text: sent.system }] }]
    : [];
  await answer(context, sent, 'generate', {
    ...inputOf(sent, isLocal(context, sent)),
    ...(sent.raw === true ? { raw: true } : {}),
    ...(sent.suffix ? { suffix: sent.suffix } : {}),
    messages: [...system, { role: 'user', content: [{ type: 'text', text: prompt }, ...shown] }],
  } as RunInput);
}

async function answer(
  context: Context,
  sent: Sent,
  as: Shape['as'],
  input: RunInput,
): Promise<void> {
  const { runtime } = context;
  const rename = (thrown: unknown) => toRequestError(thrown, as);
  const keep = keepAliveMs(sent.keep_alive);
  // A model that cannot be kept is an error of the run, or has no memory here.
  if (keep !== null) await runtime.loads.keep(sent.model, keep).catch(() => {});
  const asked = { api: `ollama.${as}`, streams: sent.stream !== false };
  const run = await startFor(context, input, asked).catch((thrown) => {
    throw rename(thrown);
  });
  const shape: Shape = { model: sent.model, thoughts: sent.think !== false, as };
  if (sent.stream === false) {
    const whole = await collectAnswer(context, run, { rename });
    const ended = await runtime.runs.get(run.id);
    return sendLarge(context, async () => wholeOf(shape, whole, ended, sent.logprobs === true));
  }
  await streamAnswer(
    context,
    run,
    {
      type: 'application/x-ndjson',
      // Clients read each line as JSON, so an empty one would fail.
      heartbeat: lineOf(part(shape, {}, { done: false })),
      failure: (error) => lineOf(errorOf(error)),
      rename,
    },
    async (pieces, { write }) => {
      const lines = new Lines(shape);
      for await (const piece of pieces) {
        const line =
          piece.type === 'end'
            ? lines.end(piece, await runtime.runs.get(run.id))
            : lines.piece(piece);
        if (line !== '') await write(line);
      }
    },
  );
}

/** Whether the model computes here. It matters only for what a local model can do alone. */
function isLocal({ runtime }: Context, { model, options }: Sent): boolean {
  return options?.num_ctx != null && runtime.loads.isLocal(model);
}

/**
 * Answers a request without a prompt: it loads a model early, or unloads it with `keep_alive` 0,
 * after its work if it has any. svc does not load the models of other providers.
 */
async function answerLoaded(context: Context, sent: Sent, as: Shape['as']): Promise<void> {
  const { runtime, res } = context;
  const { model } = sent;
  const keep_alive_ms = keepAliveMs(sent.keep_alive);
  const isUnload = keep_alive_ms === 0;
  if (!runtime.loads.isLocal(model)) await runtime.models.find(model);
  else if (isUnload) await runtime.loads.release(model);
  else await runtime.loads.load({ model, keep_alive_ms }, clientGoneSignal(context));
  const shape: Shape = { model, thoughts: false, as };
  sendJson(res, 200, part(shape, {}, { done: true, done_reason: isUnload ? 'unload' : 'load' }));
}
