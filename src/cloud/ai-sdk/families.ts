import type { EmbeddingModelV4, LanguageModelV4, SharedV4ProviderOptions } from '@ai-sdk/provider';
import { unauthorisedError } from '../../config/keys/key-file.ts';
import type { AdapterName } from '../../config/providers/adapters.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import type { RunRequest } from '../../contract/messages/parts.ts';
import { ITEM, REDACTED, THOUGHT } from '../../contract/messages/parts.ts';
import { SvcError } from '../../errors.ts';
import { asRecord, parseForeignJson } from '../../json.ts';
import { ChatAnswer } from '../openai/chat-answer.ts';
import type { Returns } from '../remote/call-options.ts';
import type { EventAnswer, EventAnswerContext } from '../remote/event-answer.ts';
import type { ListCall } from '../remote/list-models.ts';
import type { FilePlace } from '../remote/result-files.ts';
import { isStrict } from '../remote/strict-schema.ts';
import { AnthropicAnswer } from './anthropic-answer.ts';
import { CohereAnswer } from './cohere-answer.ts';
import { GeminiAnswer } from './gemini-answer.ts';
import { ResponsesAnswer } from './responses-answer.ts';

/** A provider of the AI SDK, as its factory makes it. */
export interface SdkProvider {
  languageModel(id: string): LanguageModelV4;
  chat?(id: string): LanguageModelV4;
  embeddingModel?(id: string): EmbeddingModelV4;
}

type Settings = Pick<ProviderConfig, 'options' | 'base_url'>;

/** What differs between the protocols. The package of the adapter does the rest. */
export interface Family {
  /** The function of the package that makes the provider. */
  factory: string;
  /** Settings that the factory gets besides address, key, headers and fetch. */
  settings?(settings: Settings): object;
  /** Credentials for a request without a key. Absent: it needs none, or the package finds them. */
  credentials?(options: ProviderConfig['options']): Promise<object>;
  /** Headers that options mean. */
  headers?(settings: Settings): Record<string, string>;
  model?(provider: SdkProvider, id: string, settings: Settings): LanguageModelV4;
  /** Options of a request that the common ones have no place for. */
  request?(request: RunRequest): SharedV4ProviderOptions;
  /** A message may have sound. Packages send it as a text, or drop it, where none may. */
  hears?: true;
  /** Where files of results are. Absent: none are sent, as its package would send a long text. */
  files?(settings: Settings): FilePlace;
  /** The data that its API must get back, and the options of its package that carry it. */
  returns?: Returns;
  /** Whether `request` has a place for single calls of tools. */
  singleCalls?: true;
  /** Changes the body of a request that the package has made. */
  fits?(body: Record<string, unknown>, request: RunRequest): object;
  /** A last message of the assistant is the beginning of the answer. */
  continues?: true;
  /** The name of the model is a part of the address of a request. */
  inPath?: true;
  /** Absent: it has no embeddings. */
  dimensions?(count: number): SharedV4ProviderOptions;
  /** Reads the stream of an answer. Absent: the package does. */
  createReader?(settings: Settings): (context: EventAnswerContext) => EventAnswer;
  /** Absent: the models cannot be listed with a key alone. */
  list?(base_url: string, settings: Settings): ListCall;
}

const GEMINI: Returns = { options: 'google', forms: [THOUGHT] };
const IMAGES: FilePlace = { form: 'parts', takes: ({ type }) => type === 'image' };

const openai = {
  model: (provider, id, { options }) =>
    options.api === 'chat' && provider.chat !== undefined
      ? provider.chat(id)
      : provider.languageModel(id),
  request: ({ response_format, parallel_tool_calls, verbosity }) => ({
    openai: {
      // The conversation is in svc. OpenAI need not keep it.
      store: false,
      // So it must send its reasoning, and gets it back.
      include: ['reasoning.encrypted_content'],
      strictJsonSchema: isStrict(response_format?.schema ?? null),
      ...(parallel_tool_calls === false ? { parallelToolCalls: false } : {}),
      ...(verbosity === undefined ? {} : { textVerbosity: verbosity }),
    },
  }),
  fits: fitItems,
  singleCalls: true,
  hears: true,
  files: ({ options }) => (options.api === 'chat' ? { form: 'after' } : IMAGES),
  createReader: ({ options }) =>
    options.api === 'chat' ? readerOf(ChatAnswer) : readerOf(ResponsesAnswer),
  dimensions: (dimensions) => ({ openai: { dimensions } }),
} satisfies Partial<Family>;

export const families: Record<Exclude<AdapterName, 'openai-compatible'>, Family> = {
  openai: {
    ...openai,
    factory: 'createOpenAI',
    returns: { options: 'openai', forms: [ITEM] },
    settings: ({ options: { organization, project } }) => ({ organization, project }),
    list: (base_url) => ({ url: `${base_url}/models`, headers: bearer }),
  },
  anthropic: {
    factory: 'createAnthropic',
    createReader: () => readerOf(AnthropicAnswer),
    returns: { options: 'anthropic', forms: ['signature', REDACTED] },
    fits: fitThoughts,
    headers: ({ options: { beta } }) => (beta === undefined ? {} : { 'anthropic-beta': beta }),
    request: ({ parallel_tool_calls }) =>
      parallel_tool_calls === false ? { anthropic: { disableParallelToolUse: true } } : {},
    singleCalls: true,
    files: () => IMAGES,
    continues: true,
    list: (base_url) => ({
      url: `${base_url}/models?limit=1000`,
      headers: (key) => keyIn('x-api-key', key, { 'anthropic-version': '2023-06-01' }),
    }),
  },
  google: {
    factory: 'createGoogle',
    inPath: true,
    hears: true,
    files: () => ({ form: 'parts' }),
    createReader: () => readerOf(GeminiAnswer),
    returns: GEMINI,
    dimensions: (outputDimensionality) => ({ google: { outputDimensionality } }),
    list: (base_url) => ({
      url: `${base_url}/models?pageSize=1000`,
      headers: (key) => keyIn('x-goog-api-key', key),
      convert: (value) => namedModels(asRecord(value).models, ({ name }) => afterSlash(name)),
    }),
  },
  mistral: {
    factory: 'createMistral',
    createReader: () => readerOf(ChatAnswer),
    request: ({ parallel_tool_calls }) =>
      parallel_tool_calls === false ? { mistral: { parallelToolCalls: false } } : {},
    singleCalls: true,
    dimensions: (outputDimension) => ({ mistral: { outputDimension } }),
    list: (base_url) => ({ url: `${base_url}/models`, headers: bearer }),
  },
  cohere: {
    factory: 'createCohere',
    createReader: () => readerOf(CohereAnswer),
    dimensions: (outputDimension) => ({ cohere: { outputDimension } }),
    list: (base_url) => ({
      url: `${base_url.replace(/\/v2$/, '/v1')}/models?page_size=1000`,
      headers: bearer,
    }),
  },
  bedrock: {
    factory: 'createAmazonBedrock',
    returns: { options: 'bedrock', forms: ['signature', REDACTED, 'redactedContent'] },
    inPath: true,
    files: () => IMAGES,
    settings: ({ options: { region } }) => ({ region }),
    credentials: (options) => awsCredentials(options),
    dimensions: (dimensions) => ({ bedrock: { dimensions } }),
  },
  azure: {
    ...openai,
    factory: 'createAzure',
    returns: { options: 'azure', forms: [ITEM] },
    settings: ({ options: { resource, api_version } }) => ({
      resourceName: resource,
      apiVersion: api_version,
    }),
    model: (provider, id, settings) =>
      openai.model(provider, settings.options.deployment ?? id, settings),
  },
  vertex: {
    factory: 'createVertex',
    inPath: true,
    hears: true,
    files: () => ({ form: 'parts' }),
    createReader: () => readerOf(GeminiAnswer),
    returns: GEMINI,
    settings: ({ options: { project, region } }) => ({ project, location: region }),
    dimensions: (outputDimensionality) => ({ google: { outputDimensionality } }),
  },
};

const readerOf =
  (Answer: new (context: EventAnswerContext) => EventAnswer) => (context: EventAnswerContext) =>
    new Answer(context);

/** The package has a place for one field of an item of reasoning. It has the whole item. */
function fitItems({ input, ...body }: Record<string, unknown>): object {
  if (!Array.isArray(input)) return { ...body, input };
  const whole = (item: unknown) => {
    const { type, encrypted_content, summary } = asRecord(item);
    if (type !== 'reasoning' || typeof encrypted_content !== 'string') return item;
    return { type, summary, ...asRecord(parseForeignJson(encrypted_content)) };
  };
  return { ...body, input: input.map(whole) };
}

/**
 * Anthropic counts thoughts in `max_tokens`, but the package adds their budget to it. Throws
 * capability_missing for a bound that has no room for the least budget.
 */
function fitThoughts(body: Record<string, unknown>, { max_tokens }: RunRequest): object {
  const { thinking, ...rest } = body;
  const { budget_tokens: budget } = asRecord(thinking);
  if (max_tokens === null || typeof budget !== 'number') return body;
  const budget_tokens = Math.min(budget, max_tokens - 1);
  if (budget_tokens < THOUGHTS_MIN)
    throw new SvcError(
      'capability_missing',
      `The provider cannot think in ${max_tokens} tokens: its thoughts count in max_tokens, and ` +
        `need ${THOUGHTS_MIN} of them besides the answer.`,
      {
        param: 'max_tokens',
        hint: `Ask for more than ${THOUGHTS_MIN} tokens, or for no reasoning.`,
      },
    );
  return { ...rest, max_tokens, thinking: { ...asRecord(thinking), budget_tokens } };
}

/** The least budget that Anthropic takes, in tokens. */
const THOUGHTS_MIN = 1024;

function bearer(key: string | null): Headers {
  return new Headers(key === null ? {} : { authorization: `Bearer ${key}` });
}

function keyIn(name: string, key: string | null, more: Record<string, string> = {}): Headers {
  return new Headers(key === null ? more : { ...more, [name]: key });
}

function namedModels(list: unknown, nameOf: (entry: Record<string, unknown>) => unknown): unknown {
  return Array.isArray(list) ? list.map((entry) => ({ id: nameOf(asRecord(entry)) })) : list;
}

function afterSlash(name: unknown): unknown {
  return typeof name === 'string' ? name.replace(/^models\//, '') : name;
}

/**
 * Credentials of AWS for one request: those of the variables, which the package reads itself, or
 * of a profile. A profile with a static key is read; a profile that logs in elsewhere is not.
 * Throws provider_unauthorised.
 */
async function awsCredentials(
  { profile }: Readonly<Record<string, string>>,
  env: NodeJS.ProcessEnv = process.env,
): Promise<object> {
  if (profile === undefined && (env.AWS_BEARER_TOKEN_BEDROCK || env.AWS_ACCESS_KEY_ID)) return {};
  const name = profile ?? (env.AWS_PROFILE || 'default');
  const { loadSharedConfigFiles } = await import('@smithy/core/config');
  // The user may change the files at any time.
  const { configFile, credentialsFile } = await loadSharedConfigFiles({ ignoreCache: true });
  const found = { ...asRecord(configFile[name]), ...asRecord(credentialsFile[name]) };
  const { aws_access_key_id, aws_secret_access_key, aws_session_token } = found;
  if (typeof aws_access_key_id !== 'string' || typeof aws_secret_access_key !== 'string')
    throw unauthorisedError(
      'There are no AWS credentials: no key, no AWS_ACCESS_KEY_ID in the daemon, and no key ' +
        `in the profile ${JSON.stringify(name)}.`,
    );
  return {
    accessKeyId: aws_access_key_id,
    secretAccessKey: aws_secret_access_key,
    ...(typeof aws_session_token === 'string' ? { sessionToken: aws_session_token } : {}),
  };
}
