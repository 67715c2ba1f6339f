import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4Message,
  LanguageModelV4ToolChoice,
} from '@ai-sdk/provider';
import type {
  MediaPart,
  Message,
  MessagePart,
  RunRequest,
  Tool,
  ToolChoice,
} from '../../contract/messages/parts.ts';
import { isMedia, opaqueIn, textOf } from '../../contract/messages/parts.ts';
import { effectiveRows, optionRows } from '../../contract/options.ts';
import { SvcError } from '../../errors.ts';
import { argumentsObject } from '../../json.ts';

/** What an API must get back with its parts, and where its package has a place for it. */
export interface Returns {
  options: string;
  forms: readonly string[];
}

/**
 * Converts a run for the AI SDK. Only an explicit seed is sent: some servers refuse unknown
 * parameters. For the same reason every absent option stays absent.
 */
export function callOptions(
  request: RunRequest,
  returns: Returns | null = null,
): LanguageModelV4CallOptions {
  const { seed, seed_asked, tools, tool_choice, response_format } = request;
  const options: Partial<LanguageModelV4CallOptions> = Object.fromEntries(
    effectiveRows(request).flatMap(([, { sdk }, value]) =>
      sdk === undefined ? [] : [[sdk, value]],
    ),
  );
  return present({
    ...options,
    prompt: prompt(request.messages, returns),
    seed: seed_asked ? seed : undefined,
    tools: tools?.map(toTool),
    toolChoice: tool_choice === undefined ? undefined : toChoice(tool_choice),
    responseFormat:
      response_format === undefined
        ? undefined
        : present({
            type: 'json' as const,
            name: response_format.name ?? undefined,
            schema: response_format.schema ?? undefined,
          }),
  });
}

/** Each message in its place. The SDK takes the text of a system message as one text. */
function prompt(messages: readonly Message[], returns: Returns | null): LanguageModelV4Message[] {
  const calls = messages.flatMap(({ content }) =>
    content.flatMap((part) => (part.type === 'tool_call' ? [[part.id, part.name] as const] : [])),
  );
  const names = new Map(calls);
  return messages.map((message) => toMessage(message, names, returns));
}

function toMessage(
  { role, content }: Message,
  names: ReadonlyMap<string, string>,
  returns: Returns | null,
): LanguageModelV4Message {
  if (role === 'system') return { role, content: content.map(textOf).join('') };
  if (role === 'user') return { role, content: content.flatMap(toUserPart) };
  if (role === 'assistant')
    return { role, content: content.flatMap((part) => toAssistantPart(part, returns)) };
  return { role, content: content.flatMap((part) => toResult(part, names)) };
}

type Content<R extends LanguageModelV4Message['role']> = Exclude<
  Extract<LanguageModelV4Message, { role: R }>['content'],
  string
>;

function toUserPart(part: MessagePart): Content<'user'> {
  if (!isMedia(part)) return [{ type: 'text', text: textOf(part) }];
  return [toFile(part)];
}

function toFile({ media_type: mediaType, data }: MediaPart) {
  return { type: 'file', mediaType, data: { type: 'data', data } } as const;
}

/** A refusal is sent as text: most servers know no other form. */
function toAssistantPart(part: MessagePart, returns: Returns | null): Content<'assistant'> {
  const returned = returnedWith(part, returns);
  if (part.type === 'tool_call') {
    const { id: toolCallId, name: toolName } = part;
    const input = argumentsObject(part.arguments);
    return [{ type: 'tool-call', toolCallId, toolName, input, ...returned }];
  }
  const text = textOf(part);
  if (text === '' && returned === null && opaqueIn(part) !== undefined) return [];
  return [{ type: part.type === 'reasoning' ? 'reasoning' : 'text', text, ...returned }];
}

/** The data that the provider must get back with a part. Null: none in a form that its API has. */
function returnedWith(part: MessagePart, returns: Returns | null) {
  const opaque = opaqueIn(part);
  if (opaque === undefined || returns?.forms.includes(opaque.form) !== true) return null;
  return { providerOptions: { [returns.options]: { [opaque.form]: opaque.data } } };
}

function toResult(part: MessagePart, names: ReadonlyMap<string, string>): Content<'tool'> {
  if (part.type !== 'tool_result') return [];
  const { id: toolCallId, text, is_error, media } = part;
  const toolName = names.get(toolCallId) ?? '';
  const own = { type: 'tool-result', toolCallId, toolName } as const;
  if (media === undefined)
    return [{ ...own, output: { type: is_error ? 'error-text' : 'text', value: text } }];
  const value = [{ type: 'text' as const, text }, ...media.map(toFile)];
  return [{ ...own, output: { type: 'content', value } }];
}

function toTool({ name, description, parameters }: Tool): LanguageModelV4FunctionTool {
  return present({
    type: 'function' as const,
    name,
    description: description ?? undefined,
    inputSchema: parameters,
  });
}

function toChoice(choice: ToolChoice): LanguageModelV4ToolChoice {
  return typeof choice === 'string' ? { type: choice } : { type: 'tool', toolName: choice.name };
}

/** The same object without its undefined fields. */
function present<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as never;
}

/** Warnings of the SDK about a request, before its answer. */
export interface Warning {
  type: string;
  feature?: string;
}

/**
 * Throws capability_missing for a field that the SDK leaves out: the request would be answered as
 * if the client had not asked for it.
 */
export function refuseUnsupported(warnings: readonly Warning[]): void {
  const missing = warnings.find(({ type }) => type === 'unsupported');
  if (missing !== undefined) throw unsupportedError(missing.feature ?? 'a part of the request');
}

/** `what`: a field of a run, or the name that the SDK gives it. */
export function unsupportedError(what: string): SvcError {
  const param = FIELDS[what] ?? what;
  return new SvcError('capability_missing', `The provider cannot be asked for ${param}.`, {
    param: /\s/.test(param) ? undefined : param,
  });
}

/** Most APIs would answer after such a message instead of continuing it. */
export function refuseContinued({ messages }: Pick<RunRequest, 'messages'>): void {
  if (messages.at(-1)?.continued !== true) return;
  throw new SvcError(
    'capability_missing',
    'The provider cannot continue a message of the assistant.',
    {
      param: `messages.${messages.length - 1}`,
      hint: 'End the conversation with a message of the user, or ask a local model.',
    },
  );
}

/** The options of a run, as the SDK calls them. */
const FIELDS: Readonly<Record<string, string>> = Object.fromEntries(
  optionRows.flatMap(([name, { sdk }]) => (sdk === undefined ? [] : [[sdk, name]])),
);
