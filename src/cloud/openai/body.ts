import { canContinueAnswer, placesOf } from '../../config/providers/known-providers.ts';
import { withExtra, withOpaque } from '../../contract/messages/opaque-forms.ts';
import type { Message, MessagePart, RunRequest, Tool } from '../../contract/messages/parts.ts';
import { isMedia, textOf } from '../../contract/messages/parts.ts';
import { audioFormatOf, effectiveRows, type Options } from '../../contract/options.ts';
import { parseForeignJson } from '../../json.ts';
import { refuseContinued, unsupportedError } from '../remote/call-options.ts';
import { isStrict } from '../remote/strict-schema.ts';
import type { AddressedConfig } from './request-headers.ts';

export type Body = Record<string, unknown>;

type Settings = Pick<AddressedConfig, 'base_url' | 'stream'> & Partial<AddressedConfig>;

/**
 * The body of a request for a chat completion. It has only the fields of the run: some servers
 * refuse unknown parameters. A field that is undefined is not sent. Throws capability_missing for
 * fields that no server understands.
 *
 * OpenAI's newer models refuse `max_tokens`; most other servers know only that name, and a setting
 * can name another one. OpenAI takes no reasoning in messages.
 */
export function chatBody(
  { base_url, stream, options = {}, ...settings }: Settings,
  model: string,
  request: RunRequest,
): Body {
  const isOpenai = isOfOpenai({ base_url });
  if (!canContinueAnswer(settings)) refuseContinued(request);
  const { tools = [] } = request;
  const most = options.max_tokens_field ?? (isOpenai ? 'max_completion_tokens' : 'max_tokens');
  const { max_tokens, seed, logprobs, ...others } = toSendable(
    request,
    isOpenai,
    placesOf(settings),
  );
  return {
    ...others,
    [most]: max_tokens,
    model,
    messages: request.messages.flatMap((message) => messageOf(message, !isOpenai)),
    // Only an explicit one: some servers refuse it.
    seed: request.seed_asked ? seed : undefined,
    response_format: formatOf(request.response_format),
    logprobs: logprobs === undefined ? undefined : true,
    top_logprobs: logprobs || undefined,
    tools: tools.length === 0 ? undefined : tools.map(toolOf),
    tool_choice: tools.length === 0 ? undefined : choiceOf(request.tool_choice),
    stream,
    stream_options: stream ? { include_usage: true } : undefined,
  };
}

/** Each request asks, and to parse the address would take as long as to write the body. */
export function isOfOpenai({ base_url }: Pick<Settings, 'base_url'>): boolean {
  return OPENAI.test(base_url);
}
const OPENAI = /^https?:\/\/api\.openai\.com(?=[:/]|$)/i;

/** Throws capability_missing for an option that the server would not know. */
function toSendable(
  request: RunRequest,
  isOpenai: boolean,
  places: ReturnType<typeof placesOf>,
): Body & Partial<Options> {
  const placeOf = (name: string) => places[name as keyof typeof places];
  const rows = effectiveRows(request, (name) => placeOf(name) !== undefined);
  const missing = rows.find(
    ([name, { compatible }]) =>
      placeOf(name) === undefined &&
      (compatible === 'none' || (isOpenai && compatible === 'neighbours')),
  );
  if (missing !== undefined) throw unsupportedError(missing[0]);
  return Object.fromEntries(
    rows.map(([name, , value]) => {
      const [field = name, inner] = placeOf(name) ?? [];
      return [field, inner === undefined ? value : { [inner]: value }];
    }),
  );
}

function formatOf(format: RunRequest['response_format']): object | undefined {
  if (format === undefined) return undefined;
  const { name, schema } = format;
  if (schema === null) return { type: 'json_object' };
  return {
    type: 'json_schema',
    json_schema: { name: name ?? 'response', strict: isStrict(schema), schema },
  };
}

function choiceOf(choice: RunRequest['tool_choice']): unknown {
  return typeof choice === 'object' ? { type: 'function', function: choice } : choice;
}

function toolOf({ name, description, parameters }: Tool): object {
  return {
    type: 'function',
    function: { name, description: description ?? undefined, parameters },
  };
}

function messageOf({ role, content }: Message, takesReasoning: boolean): object[] {
  if (role === 'tool') return content.flatMap(resultOf);
  if (role === 'system') return [{ role, content: content.map(textOf).join('') }];
  if (role === 'user') return [{ role, content: userContent(content) }];
  const text = textIn(content, ['text', 'refusal']);
  const reasoning = takesReasoning ? textIn(content, ['reasoning']) : '';
  const calls = content.flatMap(callOf);
  return [
    {
      role,
      content: calls.length > 0 && text === '' ? null : text,
      reasoning_content: reasoning === '' ? undefined : reasoning,
      tool_calls: calls.length === 0 ? undefined : calls,
      ...withOpaque(content),
    },
  ];
}

/** One text is sent as a string: servers without images do not accept a list of parts. */
function userContent(content: readonly MessagePart[]): string | object[] {
  const [first] = content;
  if (content.length === 1 && first !== undefined && !isMedia(first)) return textOf(first);
  return content.map((part) => {
    if (!isMedia(part)) return { type: 'text', text: textOf(part) };
    const { type, media_type, data } = part;
    if (type === 'image')
      return { type: 'image_url', image_url: { url: `data:${media_type};base64,${data}` } };
    return { type: 'input_audio', input_audio: { data, format: audioFormatOf(media_type) } };
  });
}

/** A refusal is sent as text: most servers know no other form. */
function textIn(content: readonly MessagePart[], types: readonly MessagePart['type'][]): string {
  return content.map((part) => (types.includes(part.type) ? textOf(part) : '')).join('');
}

/**
 * The arguments are JSON, because servers parse them. Anything that is not JSON is encoded as a
 * JSON string.
 */
function callOf(part: MessagePart): object[] {
  if (part.type !== 'tool_call') return [];
  const { id, name, arguments: written } = part;
  const isJson = parseForeignJson(written) !== undefined;
  const args = written.trim() === '' ? '{}' : isJson ? written : JSON.stringify(written);
  const called = { type: 'function', function: { name, arguments: args } };
  return [{ id, ...called, ...withExtra(part.opaque) }];
}

function resultOf(part: MessagePart): object[] {
  if (part.type !== 'tool_result') return [];
  return [{ role: 'tool', tool_call_id: part.id, content: part.text }];
}
