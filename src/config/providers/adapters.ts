/**
 * The adapters: each speaks one protocol. All but `openai-compatible` use the package of the AI SDK
 * that they name, loaded when a provider first needs it.
 */

export interface AdapterSpec {
  /** Null for the adapter that svc has itself. */
  package: string | null;
  /** The address that it uses without a base_url. Null: options decide, or base_url must. */
  base_url: string | null;
  /** Its options, by name, with their meaning. */
  options: Readonly<Record<string, string>>;
  /** Required settings: one of these fields or options of each list. */
  needs: readonly (readonly string[])[];
  /** Its protocol has a place for the verbosity of an answer. */
  verbosity?: true;
}

export const adapters = {
  'openai-compatible': {
    package: null,
    base_url: null,
    options: {
      organization: 'Organisation that is charged, sent as OpenAI-Organization.',
      project: 'Project that is charged, sent as OpenAI-Project.',
      key_header: 'Header that has the key, such as api-key, instead of Authorization.',
      max_tokens_field:
        'Field that has the longest answer, such as max_completion_tokens, instead of max_tokens.',
    },
    needs: [['base_url']],
    verbosity: true,
  },
  openai: {
    package: '@ai-sdk/openai',
    base_url: 'https://api.openai.com/v1',
    options: {
      organization: 'Organisation that is charged.',
      project: 'Project that is charged.',
      api: 'API of OpenAI: responses (default) or chat.',
    },
    needs: [],
    verbosity: true,
  },
  anthropic: {
    package: '@ai-sdk/anthropic',
    base_url: 'https://api.anthropic.com/v1',
    options: { beta: 'Features in beta, separated by commas, sent as anthropic-beta.' },
    needs: [],
  },
  google: {
    package: '@ai-sdk/google',
    base_url: 'https://generativelanguage.googleapis.com/v1beta',
    options: {},
    needs: [],
  },
  mistral: {
    package: '@ai-sdk/mistral',
    base_url: 'https://api.mistral.ai/v1',
    options: {},
    needs: [],
  },
  cohere: {
    package: '@ai-sdk/cohere',
    base_url: 'https://api.cohere.com/v2',
    options: {},
    needs: [],
  },
  bedrock: {
    package: '@ai-sdk/amazon-bedrock',
    base_url: null,
    options: {
      region: 'Region of AWS, such as us-east-1.',
      profile: 'Profile of ~/.aws/credentials, for requests without a key.',
    },
    needs: [['region']],
  },
  azure: {
    package: '@ai-sdk/azure',
    base_url: null,
    options: {
      resource: 'Name of the resource in Azure: the first part of its address.',
      deployment: 'Deployment that answers, whatever model is requested.',
      api_version: 'Version of the API, such as v1.',
      api: 'API of OpenAI: responses (default) or chat.',
    },
    needs: [['resource', 'base_url']],
    verbosity: true,
  },
  vertex: {
    package: '@ai-sdk/google-vertex',
    base_url: null,
    options: {
      project: 'Project of Google Cloud.',
      region: 'Location, such as global or europe-west1.',
    },
    needs: [
      ['project', 'key'],
      ['region', 'key'],
    ],
  },
} as const satisfies Record<string, AdapterSpec>;

export type AdapterName = keyof typeof adapters;

/** A package of npm that has the interface of the AI SDK. The user names it. */
export type PackageAdapter = `npm:${string}`;

export function adapterSpec(name: string): AdapterSpec | undefined {
  return Object.hasOwn(adapters, name) ? adapters[name as AdapterName] : undefined;
}

/** The package of an adapter such as `npm:@ai-sdk/xai`; null for any other. */
export function packageOf(adapter: string): string | null {
  return PACKAGE.exec(adapter)?.[1] ?? null;
}

/** A name of npm. It can be no path, no address and no module of Node. */
const PACKAGE = /^npm:((?:@[a-z0-9~][a-z0-9._~-]{0,100}\/)?[a-z0-9~][a-z0-9._~-]{0,100})$/;
