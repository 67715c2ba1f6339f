import * as v from 'valibot';
import { invalidRequest, withoutNull } from '../../contract/check.ts';
import type { RunInput, ToolNarrowing } from '../../contract/contract.ts';
import type { Tool, ToolChoice } from '../../contract/messages/parts.ts';
import {
  anything,
  flag,
  name,
  named,
  nonEmptyList,
  object,
  oneOf,
  pick,
  text,
} from '../../contract/vocabulary.ts';
import { SvcError } from '../../errors.ts';
import { foreign, namedServers, serverName } from '../mcp-tools.ts';
import { withField } from '../renamed.ts';
import { cache_control, conversationOf, message, texts, unsupported } from './blocks.ts';
import type { FileTexts } from './documents.ts';
import { type Thread, threadInput } from './thread.ts';

/**
 * The body of POST /v1/messages as the input of a run.
 *
 * 1. What would change the answer, and a run does not have, is refused by name.
 * 2. What changes no answer is accepted, and has no effect: caches and tiers.
 * 3. Whether a model thinks is its own choice. `thinking` says how long at most. With `thinking`
 *    disabled, the answer leaves it out.
 */

const tool = object({
  type: v.nullish(v.literal('custom', 'must be custom or mcp_toolset.')),
  name: text,
  description: v.nullish(text),
  input_schema: anything,
  /** A model is kept to the schema whenever its provider can do that. */
  strict: v.nullish(flag),
  eager_input_streaming: v.nullish(flag),
  defer_loading: v.nullish(v.literal(false, 'is not supported here.')),
  allowed_callers: v.nullish(v.array(v.literal('direct', 'must be direct.'))),
  input_examples: unsupported,
  cache_control,
});

const enabled = object({ enabled: v.nullish(flag), defer_loading: v.nullish(flag) });
/** The tools of one of the `mcp_servers`. */
const toolset = object({
  type: v.literal('mcp_toolset'),
  mcp_server_name: serverName,
  default_config: v.nullish(enabled),
  configs: v.nullish(v.record(text, enabled, 'must be an object.')),
  cache_control,
});
const mcpServer = object({
  type: v.literal('url', 'must be url.'),
  name: serverName,
  url: foreign,
  authorization_token: foreign,
  tool_configuration: v.nullish(
    object({ enabled: v.nullish(flag), allowed_tools: v.nullish(v.array(text)) }),
  ),
});
type Tools = readonly (v.InferOutput<typeof tool> | v.InferOutput<typeof toolset>)[];
type Servers = readonly v.InferOutput<typeof mcpServer>[];

/** A tool of Anthropic's servers has other fields. Its type says why it is refused. */
export function refuseServerTools(body: unknown): unknown {
  const { tools } = (body ?? {}) as { tools?: unknown };
  for (const [index, each] of (Array.isArray(tools) ? tools : []).entries()) {
    const { type = null } = (each ?? {}) as { type?: unknown };
    if (type !== null && type !== 'custom' && type !== 'mcp_toolset')
      throw invalidRequest(
        `tools.${index}.type`,
        `tools.${index}.type must be custom or mcp_toolset: svc has no tools of Anthropic.`,
      );
  }
  return body;
}

const parallel = { disable_parallel_tool_use: v.nullish(flag) };
const toolChoice = v.variant(
  'type',
  [
    object({ type: v.literal('auto'), ...parallel }),
    object({ type: v.literal('any'), ...parallel }),
    object({ type: v.literal('tool'), name: text, ...parallel }),
    object({ type: v.literal('none') }),
  ],
  'must be auto, any, tool or none.',
);

const jsonFormat = object({
  type: v.literal('json_schema', 'must be json_schema.'),
  schema: anything,
  name: v.nullish(text),
});

const DISPLAY = { display: v.nullish(oneOf(['summarized', 'omitted'])) };
const thinking = v.variant(
  'type',
  [
    object({ type: v.literal('enabled'), budget_tokens: v.nullish(v.number()), ...DISPLAY }),
    object({ type: v.literal('adaptive'), ...DISPLAY }),
    object({ type: v.literal('between_tools') }),
    object({ type: v.literal('disabled') }),
  ],
  'must be enabled, adaptive, between_tools or disabled.',
);

const options = {
  model: name(),
  messages: nonEmptyList(message, 'must be a list of messages.', 'must have at least one message.'),
  system: v.nullish(texts),
  tools: v.nullish(v.array(v.union([tool, toolset]), 'must be a list of tools.')),
  tool_choice: v.nullish(toolChoice),
  thinking: v.nullish(thinking),
  output_config: v.nullish(
    object({ effort: v.nullish(text), format: v.nullish(jsonFormat), task_budget: unsupported }),
  ),
  /** The earlier name of `output_config.format`. */
  output_format: v.nullish(jsonFormat),
  cache_control,
  speed: v.nullish(text),
  user_profile_id: v.nullish(text),
  workspace_id: v.nullish(text),
  betas: v.nullish(v.array(text)),
  /** The field makes a long conversation shorter. The whole conversation answers as well. */
  context_management: v.nullish(anything),
  /** Servers of the configuration, by name. */
  mcp_servers: v.nullish(v.array(mcpServer, 'must be a list of servers.')),
};

/** The options that this API has. The run checks their bounds. */
const SAMPLING = ['temperature', 'top_p', 'top_k'] as const;
const number = v.nullish(v.number('must be a number.'));
const sampling = { temperature: number, top_p: number, top_k: number };

export const messagesInput = named(
  'AnthropicMessagesInput',
  object({
    ...options,
    max_tokens: v.number('must be a whole number.'),
    stream: v.nullish(flag),
    stop_sequences: v.nullish(v.array(text, 'must be a list of texts.')),
    ...sampling,
    metadata: v.nullish(object({ user_id: v.nullish(text) })),
    thread: threadInput,
    service_tier: v.nullish(text),
    inference_geo: v.nullish(text),
    diagnostics: v.nullish(anything),
    container: unsupported,
    fallbacks: unsupported,
  }),
);

export const countInput = named('AnthropicCountInput', object(options));

/** A request as the input of a run, and how to answer it. */
export interface TranslatedRequest {
  input: RunInput;
  narrowings: readonly ToolNarrowing[];
  /** Where the parts of the run's messages are in the request. */
  places: string[][];
  stream: boolean;
  /** Whether the answer shows what the model thought. */
  thoughts: boolean;
}

/** What else a request needs: the texts of its files, and the thread that it continues. */
export interface Beside {
  texts: FileTexts;
  thread?: Thread | null;
}

/** Throws invalid_request with the name of the field. */
export function readMessages(
  sent: v.InferOutput<typeof messagesInput>,
  beside: Beside,
): TranslatedRequest {
  const { max_tokens, stop_sequences, metadata, stream } = sent;
  const { input, ...rest } = readCount(sent, beside);
  const user_id = metadata?.user_id;
  return {
    ...rest,
    stream: stream === true,
    input: withoutNull({
      ...input,
      max_tokens,
      ...pick(sent, SAMPLING),
      stop: stop_sequences?.length === 0 ? null : stop_sequences,
      metadata: user_id == null ? null : { user_id },
    }),
  };
}

/** The same for a request that only counts tokens. */
export function readCount(
  sent: v.InferOutput<typeof countInput>,
  { texts, thread = null }: Beside,
): TranslatedRequest {
  const { model, messages: turns, output_config, output_format, thinking } = sent;
  const system = sent.system === '' ? null : (sent.system ?? null);
  if (turns.length === 0)
    throw invalidRequest('messages', 'messages must have at least one message.');
  const { messages, places } = conversationOf(system, turns, {
    earlier: thread?.messages ?? [],
    texts,
  });
  // A thread keeps its tools, so the request that continues it sends none.
  const narrowings = narrowingsOf(sent.tools, sent.mcp_servers);
  const own = sent.tools?.filter(isOwn).map(toolOf) ?? thread?.tools ?? [];
  const isKept = sent.tools == null && narrowings.length === 0;
  const tools = [...own, ...(isKept ? (thread?.servers ?? []) : namedServers(narrowings))];
  const format = output_config?.format ?? output_format ?? null;
  return {
    stream: false,
    thoughts: thinking?.type !== 'disabled' && !isOmitted(thinking),
    places,
    narrowings,
    input: withoutNull({
      model,
      messages,
      tools: tools.length === 0 ? null : tools,
      tool_choice: choiceOf(sent.tool_choice ?? null),
      parallel_tool_calls: isSingle(sent.tool_choice) ? false : null,
      ...thoughtsOf(sent),
      response_format:
        format === null
          ? null
          : { type: 'json' as const, name: format.name ?? null, schema: format.schema },
    }) as RunInput,
  };
}

function isOwn(sent: Tools[number]): sent is v.InferOutput<typeof tool> {
  return sent.type !== 'mcp_toolset';
}

/**
 * The tools of each server: as its toolset says, or as its `tool_configuration` says in the older
 * form. Throws invalid_request for a toolset of no server.
 */
function narrowingsOf(
  tools: Tools | null | undefined,
  servers: Servers | null | undefined,
): ToolNarrowing[] {
  const sets = (tools ?? []).filter((each) => !isOwn(each)) as v.InferOutput<typeof toolset>[];
  const names = (servers ?? []).map(({ name }) => name);
  const stray = sets.find(({ mcp_server_name }) => !names.includes(mcp_server_name));
  if (stray !== undefined)
    throw invalidRequest(
      'tools',
      `tools has a toolset of ${stray.mcp_server_name}, not in mcp_servers.`,
    );
  return (servers ?? []).flatMap(({ name: server, tool_configuration }) => {
    const { enabled, allowed_tools } = tool_configuration ?? {};
    if (enabled === false) return [];
    const set = sets.find(({ mcp_server_name }) => mcp_server_name === server);
    const configured = Object.entries(set?.configs ?? {});
    const isOff = set?.default_config?.enabled === false;
    const other = configured.filter(([, tool]) => (tool.enabled ?? !isOff) === isOff);
    const named = other.map(([tool]) => tool);
    return {
      server,
      allowed: {
        ...(allowed_tools == null ? {} : { tool_names: allowed_tools }),
        ...(isOff ? { tool_names: named } : { except: named }),
      },
      unasked: {},
      asked: null,
    };
  });
}

function isOmitted(thinking: v.InferOutput<typeof countInput>['thinking']): boolean {
  return thinking != null && 'display' in thinking && thinking.display === 'omitted';
}

function toolOf({ name, description, input_schema }: v.InferOutput<typeof tool>): Tool {
  return { name, description: description ?? null, parameters: input_schema };
}

function choiceOf(choice: v.InferOutput<typeof toolChoice> | null): ToolChoice | null {
  if (choice === null) return null;
  if (choice.type === 'none') return 'none';
  if (choice.type === 'tool') return { name: choice.name };
  return choice.type === 'any' ? 'required' : 'auto';
}

function isSingle(choice: v.InferOutput<typeof toolChoice> | null | undefined): boolean {
  return choice != null && choice.type !== 'none' && choice.disable_parallel_tool_use === true;
}

/**
 * How much a request that asks for thoughts wants of them: its budget says it, or its
 * `output_config`. Other requests leave it to the model, because most models without reasoning
 * refuse an effort.
 */
function thoughtsOf({
  thinking,
  output_config,
}: v.InferOutput<typeof countInput>): Readonly<Record<string, unknown>> {
  if (thinking?.type === 'enabled' && thinking.budget_tokens != null)
    return { reasoning_budget_tokens: thinking.budget_tokens };
  const isAsked = thinking?.type === 'enabled' || thinking?.type === 'adaptive';
  return { reasoning_effort: isAsked ? (output_config?.effort ?? null) : null };
}

/** The names of a run's input, as this API calls them. */
const NAMES: Readonly<Record<string, string>> = {
  stop: 'stop_sequences',
  response_format: 'output_config.format',
  reasoning_effort: 'output_config.effort',
  reasoning_budget_tokens: 'thinking.budget_tokens',
  parallel_tool_calls: 'tool_choice.disable_parallel_tool_use',
  parameters: 'input_schema',
};

/**
 * An error about the input of the run, with the names and places of the request that was sent.
 */
export function toRequestError(thrown: unknown, places: readonly (readonly string[])[]): unknown {
  if (!(thrown instanceof SvcError) || thrown.param === null) return thrown;
  const { param } = thrown;
  const [, at, part] = /^messages\.(\d+)(?:\.content(?:\.(\d+))?)?/.exec(param) ?? [];
  const place = at === undefined ? undefined : places[Number(at)]?.[Number(part ?? 0)];
  return withField(thrown, place ?? param.replace(/[a-z_]+/g, (name) => NAMES[name] ?? name));
}
