import { isRecord } from '../../src/json.ts';
import { chunk, type Exchange } from '../helpers/upstream.ts';

/**
 * A model that speaks the chat completions and embeddings of OpenAI and needs no weights. What it
 * answers follows from the request, so that a client's own test can check it:
 *
 * 1. It calls the tool that the prompt names, or the first one of a few. The arguments fit the
 *    tool's schema, or are the JSON after a `with`. `twice` in the prompt: two calls in one turn.
 * 2. After the result of a tool, it says the result.
 * 3. With a schema, its text is a value of the schema.
 * 4. Otherwise it says `You said: ` and the prompt, cut after `max_tokens` words. It knows why the
 *    sky is blue, which suites ask.
 *
 * The model `think` reasons first. A document ranks by how many words of the query it has.
 */
export const MODELS = ['scripted', 'think', 'embed'] as const;

export function answerScripted(exchange: Exchange): unknown {
  const { path } = exchange.received;
  if (path.endsWith('/models'))
    return exchange.reply(200, {
      object: 'list',
      data: MODELS.map((id) => ({ id, object: 'model', created: 1, owned_by: 'test' })),
    });
  const asked = exchange.json as unknown as Asked;
  const model = MODELS.find((id) => id === asked.model);
  if (model === undefined) {
    const error = { message: `There is no model ${asked.model}.`, code: 'model_not_found' };
    return exchange.reply(404, { error });
  }
  if (path.endsWith('/embeddings')) return exchange.reply(200, embeddings(asked));
  if (path.endsWith('/rerank')) return exchange.reply(200, ranking(asked));
  if (!path.endsWith('/chat/completions')) return exchange.reply(404, { error: { message: path } });
  const turn = turnOf(asked);
  const usage = usageOf(asked, turn);
  return asked.stream === true
    ? stream(exchange, asked, turn, usage)
    : exchange.reply(200, whole(asked, turn, usage));
}

interface Asked {
  model: string;
  messages: { role: string; content?: unknown }[];
  tools?: { function: { name: string; parameters?: unknown } }[];
  tool_choice?: string | { function: { name: string } };
  response_format?: { type: string; json_schema?: { schema?: unknown } };
  max_tokens?: number;
  max_completion_tokens?: number;
  stream?: boolean;
  logprobs?: boolean;
  top_logprobs?: number;
  input?: unknown;
  dimensions?: number;
  query?: string;
  documents?: string[];
}

interface Turn {
  reasoning: string | null;
  words: readonly string[];
  calls: readonly { name: string; arguments: string }[];
  finish: 'stop' | 'length' | 'tool_calls';
}

function turnOf(asked: Asked): Turn {
  const reasoning = asked.model.endsWith('think') ? 'Let me think about it.' : null;
  const last = asked.messages.at(-1);
  const prompt = textOf(asked.messages.findLast(({ role }) => role === 'user')?.content);
  const tools = asked.tool_choice === 'none' ? [] : (asked.tools ?? []);
  const forced = isRecord(asked.tool_choice) ? asked.tool_choice.function.name : null;
  const tool =
    tools.find(({ function: { name } }) => name === forced) ??
    tools.find(({ function: { name } }) => prompt.includes(name)) ??
    (tools.length > FEW_TOOLS ? undefined : tools[0]);
  if (tool !== undefined && last?.role !== 'tool') {
    const call = {
      name: tool.function.name,
      arguments:
        /\bwith (\{[^{}]*\})/.exec(prompt)?.[1] ??
        JSON.stringify(new Values(tool.function.parameters, prompt).all()),
    };
    const calls = prompt.includes('twice') ? [call, call] : [call];
    return { reasoning, words: [], calls, finish: 'tool_calls' };
  }
  const words = textFor(asked, last, prompt).split(/(?<= )/);
  const most = asked.max_completion_tokens ?? asked.max_tokens ?? words.length;
  const finish = words.length > most ? 'length' : 'stop';
  return { reasoning, words: words.slice(0, most), calls: [], finish };
}

/** An agent sends more, whatever it is asked. */
const FEW_TOOLS = 3;

function textFor(
  asked: Asked,
  last: Asked['messages'][number] | undefined,
  prompt: string,
): string {
  if (last?.role === 'tool') return `The tool said: ${textOf(last.content)}`;
  const { type, json_schema } = asked.response_format ?? {};
  if (type === 'json_schema') return JSON.stringify(new Values(json_schema?.schema, prompt).all());
  if (type === 'json_object') return '{"answer":"yes"}';
  return `You said: ${prompt}${prompt.includes('sky blue') ? ' Rayleigh scattering.' : ''}`;
}

/** A value of a JSON schema. Numbers and texts come from the prompt, where it has some. */
class Values {
  private readonly schema: unknown;
  private readonly number: number;
  private readonly text: string;

  constructor(schema: unknown, prompt: string) {
    this.schema = schema;
    this.number = Number(/\d+/.exec(prompt)?.[0] ?? 2);
    this.text = /'([^']+)'/.exec(prompt)?.[1] ?? 'Paris';
  }

  all(): unknown {
    return this.of(this.schema);
  }

  private of(schema: unknown): unknown {
    if (!isRecord(schema)) return {};
    if (typeof schema.$ref === 'string') return this.of(at(this.schema, schema.$ref));
    if (schema.const !== undefined) return schema.const;
    if (Array.isArray(schema.enum)) return schema.enum[0];
    const [first] = [schema.anyOf, schema.oneOf, schema.allOf].filter(Array.isArray).flat();
    if (first !== undefined) return this.of(first);
    const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
    if (type === 'string') return schema.format === 'date' ? '2026-01-01' : this.text;
    if (type === 'integer' || type === 'number') return this.number;
    if (type === 'boolean') return true;
    if (type === 'array') return [this.of(schema.items)];
    const properties = Object.entries(isRecord(schema.properties) ? schema.properties : {});
    return Object.fromEntries(properties.map(([name, each]) => [name, this.of(each)]));
  }
}

/** What a reference of the schema names. */
function at(schema: unknown, reference: string): unknown {
  return reference
    .split('/')
    .slice(1)
    .reduce((inner: unknown, key) => (isRecord(inner) ? inner[key] : undefined), schema);
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((part) => (isRecord(part) && typeof part.text === 'string' ? part.text : '[image]'))
    .join(' ');
}

function usageOf(asked: Asked, { words, calls, reasoning }: Turn) {
  const prompt_tokens = Math.max(1, asked.messages.map(said).join(' ').split(' ').length);
  const completion_tokens = words.length + 5 * calls.length + (reasoning === null ? 0 : 5);
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

function said({ content }: { content?: unknown }): string {
  return textOf(content);
}

function whole(asked: Asked, { reasoning, words, calls, finish }: Turn, usage: object): object {
  const message = {
    role: 'assistant',
    content: calls.length > 0 ? null : words.join(''),
    ...(reasoning === null ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) }),
  };
  const choice = { index: 0, message, finish_reason: finish, logprobs: logprobsOf(asked, words) };
  const head = { id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: asked.model };
  return { ...head, choices: [choice], usage };
}

function callOf(call: Turn['calls'][number], index: number): object {
  return { id: `call_${index}_${call.name}`, type: 'function', function: call };
}

function logprobsOf(
  { logprobs, top_logprobs = 0 }: Asked,
  words: readonly string[],
): object | null {
  if (logprobs !== true) return null;
  const of = (token: string) => ({ token, logprob: -0.5, bytes: null });
  const content = words.map((token) => ({
    ...of(token),
    top_logprobs: Array.from({ length: top_logprobs }, () => of(token)),
  }));
  return { content };
}

async function stream(
  exchange: Exchange,
  asked: Asked,
  { reasoning, words, calls, finish }: Turn,
  usage: object,
): Promise<void> {
  exchange.open();
  if (reasoning !== null) await exchange.event(chunk({ reasoning_content: reasoning }));
  for (const word of words) {
    const { choices, ...head } = chunk({ content: word });
    const logprobs = logprobsOf(asked, [word]);
    await exchange.event({ ...head, choices: [{ ...(choices as object[])[0], logprobs }] });
  }
  for (const [index, call] of calls.entries()) {
    const { name, arguments: written } = call;
    const begin = {
      id: `call_${index}_${name}`,
      type: 'function',
      function: { name, arguments: '' },
    };
    await exchange.event(chunk({ tool_calls: [{ index, ...begin }] }));
    // In fragments, as models write them.
    for (const part of written.match(/.{1,4}/gs) ?? [])
      await exchange.event(chunk({ tool_calls: [{ index, function: { arguments: part } }] }));
  }
  await exchange.finish(finish);
  await exchange.event({ ...chunk({}), choices: [], usage });
  await exchange.done();
}

function embeddings({ model, input, dimensions = 8 }: Asked): object {
  const isList = Array.isArray(input) && typeof input[0] !== 'number';
  const texts: unknown[] = isList ? (input as unknown[]) : [input];
  return {
    object: 'list',
    model,
    data: texts.map((text, index) => ({
      object: 'embedding',
      index,
      embedding: vectorOf(JSON.stringify(text), dimensions),
    })),
    usage: { prompt_tokens: texts.length, total_tokens: texts.length },
  };
}

function ranking({ query = '', documents = [] }: Asked): object {
  const words = query.split(' ');
  const scoreOf = (document: string) => words.filter((word) => document.includes(word)).length;
  return {
    results: documents.map((document, index) => ({
      index,
      relevance_score: scoreOf(document) / words.length,
    })),
  };
}

/** The same text has the same vector, of length 1. */
function vectorOf(text: string, dimensions: number): number[] {
  const sums = Array.from({ length: dimensions }, (_, place) =>
    [...text].reduce(
      (sum, sign, at) => sum + Math.sin((at + 1) * sign.charCodeAt(0) * (place + 1)),
      1,
    ),
  );
  const length = Math.hypot(...sums);
  return sums.map((sum) => sum / length);
}
