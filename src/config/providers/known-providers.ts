import type { AdapterName } from './adapters.ts';

/**
 * The providers that svc knows. `svc provider add <id>` takes a row. A row is a default: each of
 * its values can be set otherwise.
 */

export interface KnownProvider {
  /** The name for people. */
  name: string;
  kind: 'local' | 'cloud';
  adapter: AdapterName;
  /** Null: options of the adapter say it. */
  base_url: string | null;
  /** Null: the user names one. */
  model: string | null;
  /** The usual variable of the key. Null: it needs none. */
  key_env: string | null;
  /** Where its keys are made. Null: it has none, or makes them at its own address. */
  keys_at: string | null;
  /** The server continues a message of the assistant. */
  continues?: true;
  /** The fields of its requests for options that other APIs lack. */
  places?: Places;
  /** Other addresses of a server on this machine, such as that of its next version. */
  also_at?: readonly string[];
}

/** Fields of a request, or fields of an object in it. */
type Places = Readonly<
  Partial<
    Record<
      'regex' | 'choice' | 'grammar' | 'reasoning_budget_tokens',
      readonly [field: string, inner?: string]
    >
  >
>;

const COMPATIBLE = { kind: 'cloud', adapter: 'openai-compatible' } as const;
/** A server on this machine, at the port that it usually has. */
const SERVER = {
  kind: 'local',
  adapter: 'openai-compatible',
  model: null,
  key_env: null,
  keys_at: null,
} as const;

export const knownProviders = {
  openai: {
    ...COMPATIBLE,
    name: 'OpenAI',
    base_url: 'https://api.openai.com/v1',
    model: 'gpt-5-mini',
    key_env: 'OPENAI_API_KEY',
    keys_at: 'https://platform.openai.com/api-keys',
  },
  'openai-responses': {
    name: 'OpenAI (Responses API)',
    kind: 'cloud',
    adapter: 'openai',
    base_url: 'https://api.openai.com/v1',
    model: 'gpt-5-mini',
    key_env: 'OPENAI_API_KEY',
    keys_at: 'https://platform.openai.com/api-keys',
  },
  anthropic: {
    name: 'Anthropic',
    kind: 'cloud',
    adapter: 'anthropic',
    base_url: 'https://api.anthropic.com/v1',
    model: 'claude-sonnet-4-5',
    key_env: 'ANTHROPIC_API_KEY',
    keys_at: 'https://console.anthropic.com/settings/keys',
  },
  google: {
    name: 'Google Gemini',
    kind: 'cloud',
    adapter: 'google',
    base_url: 'https://generativelanguage.googleapis.com/v1beta',
    model: 'gemini-2.5-flash',
    key_env: 'GOOGLE_GENERATIVE_AI_API_KEY',
    keys_at: 'https://aistudio.google.com/apikey',
  },
  mistral: {
    name: 'Mistral',
    kind: 'cloud',
    adapter: 'mistral',
    base_url: 'https://api.mistral.ai/v1',
    model: 'mistral-small-latest',
    key_env: 'MISTRAL_API_KEY',
    keys_at: 'https://console.mistral.ai/api-keys',
  },
  groq: {
    ...COMPATIBLE,
    name: 'Groq',
    base_url: 'https://api.groq.com/openai/v1',
    model: 'llama-3.3-70b-versatile',
    key_env: 'GROQ_API_KEY',
    keys_at: 'https://console.groq.com/keys',
  },
  xai: {
    ...COMPATIBLE,
    name: 'xAI',
    base_url: 'https://api.x.ai/v1',
    model: 'grok-4',
    key_env: 'XAI_API_KEY',
    keys_at: 'https://console.x.ai',
  },
  deepseek: {
    ...COMPATIBLE,
    name: 'DeepSeek',
    base_url: 'https://api.deepseek.com',
    model: 'deepseek-chat',
    key_env: 'DEEPSEEK_API_KEY',
    keys_at: 'https://platform.deepseek.com/api_keys',
  },
  together: {
    ...COMPATIBLE,
    name: 'Together AI',
    base_url: 'https://api.together.xyz/v1',
    model: 'meta-llama/Llama-3.3-70B-Instruct-Turbo',
    key_env: 'TOGETHER_API_KEY',
    keys_at: 'https://api.together.ai/settings/api-keys',
  },
  fireworks: {
    ...COMPATIBLE,
    name: 'Fireworks AI',
    base_url: 'https://api.fireworks.ai/inference/v1',
    model: 'accounts/fireworks/models/llama-v3p3-70b-instruct',
    key_env: 'FIREWORKS_API_KEY',
    keys_at: 'https://fireworks.ai/account/api-keys',
  },
  openrouter: {
    ...COMPATIBLE,
    name: 'OpenRouter',
    base_url: 'https://openrouter.ai/api/v1',
    model: 'openrouter/auto',
    key_env: 'OPENROUTER_API_KEY',
    keys_at: 'https://openrouter.ai/settings/keys',
  },
  cohere: {
    name: 'Cohere',
    kind: 'cloud',
    adapter: 'cohere',
    base_url: 'https://api.cohere.com/v2',
    model: 'command-a-03-2025',
    key_env: 'COHERE_API_KEY',
    keys_at: 'https://dashboard.cohere.com/api-keys',
  },
  perplexity: {
    ...COMPATIBLE,
    name: 'Perplexity',
    base_url: 'https://api.perplexity.ai',
    model: 'sonar',
    key_env: 'PERPLEXITY_API_KEY',
    keys_at: 'https://www.perplexity.ai/account/api/keys',
  },
  cerebras: {
    ...COMPATIBLE,
    name: 'Cerebras',
    base_url: 'https://api.cerebras.ai/v1',
    model: 'gpt-oss-120b',
    key_env: 'CEREBRAS_API_KEY',
    keys_at: 'https://cloud.cerebras.ai',
  },
  deepinfra: {
    ...COMPATIBLE,
    name: 'DeepInfra',
    base_url: 'https://api.deepinfra.com/v1/openai',
    model: 'meta-llama/Llama-3.3-70B-Instruct',
    key_env: 'DEEPINFRA_API_KEY',
    keys_at: 'https://deepinfra.com/dash/api_keys',
  },
  bedrock: {
    name: 'Amazon Bedrock',
    kind: 'cloud',
    adapter: 'bedrock',
    base_url: null,
    model: 'anthropic.claude-sonnet-4-5-20250929-v1:0',
    // AWS_BEARER_TOKEN_BEDROCK counts too, but other credentials may take its place.
    key_env: null,
    keys_at: 'https://console.aws.amazon.com/bedrock',
  },
  azure: {
    name: 'Azure OpenAI',
    kind: 'cloud',
    adapter: 'azure',
    base_url: null,
    model: null,
    key_env: 'AZURE_API_KEY',
    keys_at: 'https://portal.azure.com',
  },
  vertex: {
    name: 'Google Vertex AI',
    kind: 'cloud',
    adapter: 'vertex',
    base_url: null,
    model: 'gemini-2.5-flash',
    key_env: null,
    keys_at: null,
  },
  ollama: { ...SERVER, name: 'Ollama', base_url: 'http://127.0.0.1:11434/v1' },
  lmstudio: { ...SERVER, name: 'LM Studio', base_url: 'http://127.0.0.1:1234/v1' },
  'llama-server': {
    ...SERVER,
    name: 'llama-server',
    base_url: 'http://127.0.0.1:8080/v1',
    also_at: ['http://127.0.0.1:9931/v1'],
    continues: true,
    places: { grammar: ['grammar'], reasoning_budget_tokens: ['reasoning_budget_tokens'] },
  },
  vllm: {
    ...SERVER,
    name: 'vLLM',
    base_url: 'http://127.0.0.1:8000/v1',
    places: {
      regex: ['structured_outputs', 'regex'],
      choice: ['structured_outputs', 'choice'],
      grammar: ['structured_outputs', 'grammar'],
      reasoning_budget_tokens: ['thinking_token_budget'],
    },
  },
  localai: { ...SERVER, name: 'LocalAI', base_url: 'http://127.0.0.1:8080/v1' },
  'docker-model-runner': {
    ...SERVER,
    name: 'Docker Model Runner',
    base_url: 'http://127.0.0.1:12434/engines/v1',
  },
  jan: { ...SERVER, name: 'Jan', base_url: 'http://127.0.0.1:1337/v1' },
} as const satisfies Record<string, KnownProvider>;

/** Whether svc starts the server, and it continues a message of the assistant. */
export function canContinueAnswer(config: {
  like?: string | null;
  command?: object | null;
}): boolean {
  const { like = null, command = null } = config;
  return like !== null && command !== null && knownProvider(like)?.continues === true;
}

/** The fields of a provider for options that other APIs lack. */
export function placesOf({ like = null }: { like?: string | null }): Places {
  return (like === null ? undefined : knownProvider(like)?.places) ?? {};
}

export function knownProvider(id: string): KnownProvider | undefined {
  return Object.hasOwn(knownProviders, id)
    ? knownProviders[id as keyof typeof knownProviders]
    : undefined;
}
