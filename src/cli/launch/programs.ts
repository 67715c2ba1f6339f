/** The address, token and model that a program uses. */
export interface Target {
  /** The address of the daemon, without a path. */
  url: string;
  token: string;
  /** With its provider: `local/qwen`. */
  model: string;
  /** Tokens of its context; null if that is not known. */
  context_tokens: number | null;
}

/** A third-party program that calls a model over an API of svc. */
export interface Program {
  /** How it is installed. */
  install: string;
  /** Its least context of a model, in tokens. */
  context_tokens: number;
  /** Absent: only its file can name another server. */
  start?(target: Target): { command: string; args: string[]; env: Record<string, string> };
  config: {
    /** Its file, below the home of the user. */
    file: readonly string[];
    /** Values of a file of JSON. */
    values?(target: Target): [path: string[], value: unknown][];
    /** The lines to add to a file of another form. */
    text?(target: Target): string;
  };
}

/** Below it an agent forgets its own instructions. */
const AGENT = 32_768;
const SVC = 'svc';

function claudeEnv({ url, token, model }: Target): Record<string, string> {
  return {
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_AUTH_TOKEN: token,
    ANTHROPIC_MODEL: model,
    ANTHROPIC_SMALL_FAST_MODEL: model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  };
}

function opencode({ url, token, model, context_tokens }: Target): Record<string, unknown> {
  const limit = { context: context_tokens ?? AGENT, output: 8192 };
  return {
    npm: '@ai-sdk/openai-compatible',
    name: SVC,
    options: { baseURL: `${url}/v1`, apiKey: token },
    models: { [model]: { name: model, tool_call: true, limit } },
  };
}

export const programs: Readonly<Record<string, Program>> = {
  claude: {
    install: 'npm install -g @anthropic-ai/claude-code',
    context_tokens: AGENT,
    start: (target) => ({ command: 'claude', args: [], env: claudeEnv(target) }),
    config: {
      file: ['.claude', 'settings.json'],
      values: (target) =>
        Object.entries(claudeEnv(target)).map(([name, value]) => [['env', name], value]),
    },
  },
  codex: {
    install: 'npm install -g @openai/codex',
    context_tokens: AGENT,
    start: ({ url, token, model }) => ({
      command: 'codex',
      args: [
        `--config=model="${model}"`,
        `--config=model_provider="${SVC}"`,
        `--config=model_providers.${SVC}={ ${codexProvider(url).join(', ')} }`,
      ],
      env: { SVC_TOKEN: token },
    }),
    config: {
      file: ['.codex', 'config.toml'],
      text: ({ url, model }) =>
        `model = "${model}"\nmodel_provider = "${SVC}"\n\n[model_providers.${SVC}]\n` +
        codexProvider(url).join('\n'),
    },
  },
  opencode: {
    install: 'npm install -g opencode-ai',
    context_tokens: AGENT,
    start: (target) => ({
      command: 'opencode',
      args: [],
      env: {
        OPENCODE_CONFIG_CONTENT: JSON.stringify({
          model: `${SVC}/${target.model}`,
          provider: { [SVC]: opencode(target) },
        }),
      },
    }),
    config: {
      file: ['.config', 'opencode', 'opencode.json'],
      values: (target) => [
        [['provider', SVC], opencode(target)],
        [['model'], `${SVC}/${target.model}`],
      ],
    },
  },
  aider: {
    install: 'pip install aider-chat',
    context_tokens: AGENT / 4,
    start: ({ url, token, model }) => ({
      command: 'aider',
      args: ['--model', `openai/${model}`],
      env: { OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: token },
    }),
    config: {
      file: ['.aider.conf.yml'],
      text: ({ url, token, model }) =>
        `model: openai/${model}\nopenai-api-base: ${url}/v1\nopenai-api-key: ${token}`,
    },
  },
  continue: {
    install: 'npm install -g @continuedev/cli, or its extension of VS Code or JetBrains',
    context_tokens: AGENT / 4,
    config: {
      file: ['.continue', 'config.yaml'],
      text: ({ url, token, model }) =>
        `name: ${SVC}\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: ${SVC} ${model}\n` +
        `    provider: openai\n    model: ${model}\n    apiBase: ${url}/v1\n` +
        `    apiKey: ${token}\n    roles: [chat, edit, apply]`,
    },
  },
  zed: {
    install: 'https://zed.dev',
    context_tokens: AGENT,
    config: {
      file: ['.config', 'zed', 'settings.json'],
      // Its key comes from a variable or its own settings, and never from this file.
      values: ({ url, model, context_tokens }) => [
        [
          ['language_models', 'openai_compatible', SVC],
          {
            api_url: `${url}/v1`,
            available_models: [{ name: model, max_tokens: context_tokens ?? AGENT }],
          },
        ],
      ],
    },
  },
};

function codexProvider(url: string): string[] {
  const fields = { name: SVC, base_url: `${url}/v1`, env_key: 'SVC_TOKEN', wire_api: 'responses' };
  return Object.entries(fields).map(([name, value]) => `${name} = "${value}"`);
}
