/** One third-party client, and how it is tried. */
export interface Client {
  /** Its name, and the one to give on the command line. */
  name: string;
  /** Where its packages come from. `checkout`: a folder that `--checkout` gives. */
  from: 'npm' | 'pypi' | 'go' | 'maven' | 'crates' | 'checkout';
  /** With their versions. The table shows the first one. Others of a checkout are of npm. */
  packages: readonly string[];
  /** The file in `scripts/` that runs it, and its arguments. */
  script: string;
  args?: readonly string[];
  /** What is run, in a few words. */
  ran: string;
  /** It can send no token, so the daemon asks for none. */
  open?: true;
  /** Why a case fails, by the beginning of its name: a choice of svc, or a fault elsewhere. */
  known?: Readonly<Record<string, string>>;
  /** The page that has a table of its cases too. The first word of a case is its kind. */
  page?: string;
  /** It is also tried over a real model. There cases fail for these reasons. */
  real?: Readonly<Record<string, string>>;
}

/** Why cases fail over SmolLM2-135M. `skill`: the model is the limit, and not svc. */
const SKILL = {
  thoughts: 'skill: it does not reason',
  choice: 'skill: it chooses no tool',
  values: 'skill: the arguments of its call are valid, but not those of the question',
  length: 'skill: its answer does not end within 128 tokens',
};
const NO_IMAGES = 'the local engine reads no images';

/**
 * The clients that `npm run clients` tries. They are no dependencies: each is installed by name in
 * a separate folder, outside the checkout.
 */
export const CLIENTS: readonly Client[] = [
  {
    name: 'openai-node',
    from: 'npm',
    packages: ['openai@7.57.0', 'zod@4.6.7'],
    script: 'openai.mjs',
    ran: 'chat, streams, tools, tool servers, parse, responses, conversations, embeddings, errors',
    real: {
      reasoning: SKILL.thoughts,
      'the tool runner': SKILL.length,
      'parse of a schema': SKILL.length,
      'a response of a schema': SKILL.length,
      'an image': NO_IMAGES,
      'embeddings of token ids': 'a local model takes no ids of tokens of another tokenizer',
    },
  },
  {
    name: 'openai-python',
    from: 'pypi',
    packages: ['openai[realtime]==3.57.0', 'pydantic'],
    script: 'openai_client.py',
    ran: 'chat, streams, parse, responses, conversations, embeddings, models, errors',
    real: {
      reasoning: SKILL.thoughts,
      'parse of a schema': SKILL.length,
      'the helper of streams, with a tool': SKILL.length,
      'a response, streamed': SKILL.length,
      'a response of a schema': SKILL.length,
      'a compacted conversation': SKILL.length,
    },
  },
  {
    name: 'openai-java',
    from: 'maven',
    packages: ['com.openai:openai-java:4.101.0'],
    script: 'openai_java.java',
    known: {
      'a compacted conversation':
        "its classes have no user's message in a compacted conversation; OpenAI's answers have",
    },
    ran: 'chat, streams, tools, responses, conversations, embeddings, errors; each with validate()',
  },
  {
    name: 'openai-go',
    from: 'go',
    packages: ['github.com/openai/openai-go/v3@v3.99.0'],
    script: 'openai_go.go',
    ran: 'chat, streams, tools, a schema, responses, embeddings, models, errors',
  },
  {
    name: 'go-openai',
    from: 'go',
    packages: ['github.com/sashabaranov/go-openai@v1.43.0'],
    script: 'go_openai.go',
    ran: 'chat, stream, tools, embeddings, models, errors',
  },
  {
    name: 'async-openai',
    from: 'crates',
    packages: [
      'async-openai@0.43.0+full',
      'tokio@1.54.1+full',
      'serde_json@1.0.154',
      'futures@0.3.34',
    ],
    script: 'async_openai.rs',
    ran: 'chat, streams, tools, a schema, responses, embeddings, models, errors',
  },
  {
    name: 'genai',
    from: 'crates',
    packages: ['genai@0.7.2', 'tokio@1.54.1+full', 'serde_json@1.0.154', 'futures@0.3.34'],
    script: 'genai.rs',
    ran: 'chat, stream, tools, errors; OpenAI and Anthropic; a schema, embeddings',
  },
  {
    name: 'anthropic-sdk-go',
    from: 'go',
    packages: ['github.com/anthropics/anthropic-sdk-go@v1.84.0'],
    script: 'anthropic_go.go',
    ran: 'messages, streams, thinking, tools, counts, models, errors',
  },
  {
    name: 'anthropic-java',
    from: 'maven',
    packages: ['com.anthropic:anthropic-java:3.14.0'],
    script: 'anthropic_java.java',
    ran: 'messages, streams, thinking, tools, counts, models, errors; each with validate()',
  },
  {
    name: 'langchain4j',
    from: 'maven',
    packages: [
      'dev.langchain4j:langchain4j:1.19.0',
      'dev.langchain4j:langchain4j-open-ai:1.19.0',
      'dev.langchain4j:langchain4j-anthropic:1.19.0',
    ],
    script: 'langchain4j.java',
    ran: 'text, stream, agents with a tool, images; open-ai and anthropic; a record, embeddings, errors',
  },
  {
    name: 'spring-ai',
    from: 'maven',
    packages: [
      'org.springframework.ai:spring-ai-openai:2.0.1',
      'org.springframework.ai:spring-ai-anthropic:2.0.1',
      'org.springframework.ai:spring-ai-ollama:2.0.1',
      'org.springframework.ai:spring-ai-client-chat:2.0.1',
      // Maven chooses an older one, which Jackson 3 cannot use.
      'com.fasterxml.jackson.core:jackson-annotations:2.21',
    ],
    script: 'spring_ai.java',
    ran: 'text, stream, tools, an image; openai, anthropic and ollama; a record, embeddings, errors',
  },
  {
    name: 'anthropic-sdk-node',
    from: 'npm',
    packages: ['@anthropic-ai/sdk@1.14.0', 'zod@4.6.7'],
    script: 'anthropic.mjs',
    ran: 'messages, streams, tools, tool servers, thinking, documents, counts, models, errors',
    real: { thinking: SKILL.thoughts, 'an image': NO_IMAGES },
  },
  {
    name: 'anthropic-sdk-python',
    from: 'pypi',
    packages: ['anthropic==2.14.0'],
    script: 'anthropic_client.py',
    ran: 'messages, streams, tools, tool servers, thinking, documents, counts, models, errors',
    real: { thinking: SKILL.thoughts, 'an image': NO_IMAGES },
  },
  ...[
    '@ai-sdk/openai@4.0.118',
    '@ai-sdk/openai-compatible@3.0.92',
    '@ai-sdk/anthropic@4.0.105',
  ].map(
    (provider): Client => ({
      name: provider.replace(/^@ai-sdk.|@[^@]+$/g, (cut) =>
        cut.startsWith('@ai') ? 'ai-sdk-' : '',
      ),
      from: 'npm',
      packages: [provider, 'ai@7.0.173', 'zod@4.6.7'],
      script: 'ai_sdk.mjs',
      args: [provider.replace(/@[^@]+$/, '')],
      ran: 'text, stream, tools, tools in a stream, object, image, embeddings',
    }),
  ),
  {
    name: 'ollama-ai-provider-v2',
    from: 'npm',
    packages: ['ollama-ai-provider-v2@4.0.1', 'ai@7.0.173', 'zod@4.6.7'],
    script: 'ai_sdk.mjs',
    args: ['ollama-ai-provider-v2'],
    known: {
      'tools in a stream':
        'it begins a text at the empty content beside a call, as Ollama sends it',
      settings: 'it sends max_output_tokens, which the API of Ollama does not have',
    },
    ran: 'text, stream, tools, tools in a stream, object, image, embeddings',
  },
  {
    name: 'ollama-js',
    from: 'npm',
    packages: ['ollama@0.6.4'],
    script: 'ollama.mjs',
    ran: 'chat, generate, tools, thinking, format, embed, list, show, ps, copy, delete',
    real: { thinking: SKILL.thoughts, 'a tool call and its result': SKILL.choice },
  },
  {
    name: 'ollama-python',
    from: 'pypi',
    packages: ['ollama==0.6.3'],
    script: 'ollama_client.py',
    ran: 'chat, generate, tools, thinking, format, embed, list, show, ps',
    real: { thinking: SKILL.thoughts, 'a function as a tool': SKILL.choice },
  },
  {
    name: 'ollama',
    from: 'checkout',
    packages: ['github.com/ollama/ollama'],
    script: 'ollama_cli.mjs',
    ran: 'the program: list, show, run, ps, stop, pull, cp, rm, create',
  },
  {
    name: 'ollama-api',
    from: 'go',
    packages: ['github.com/ollama/ollama/api@v0.14.0'],
    script: 'ollama_api.go',
    ran: 'the Go package: heartbeat, list, show, chat, generate, embed, running models',
  },
  {
    name: 'litellm',
    from: 'pypi',
    packages: ['litellm==1.110.2'],
    script: 'litellm_client.py',
    ran: 'openai/, anthropic/, ollama/, ollama_chat/: text, stream, tools, embeddings, responses',
  },
  {
    name: 'aider',
    from: 'pypi',
    packages: ['aider-chat==0.86.2'],
    script: 'aider.py',
    ran: 'one question through openai/ and one through ollama_chat/',
  },
  {
    name: 'llm',
    from: 'pypi',
    packages: ['llm==0.36', 'llm-ollama==0.19.1'],
    script: 'llm_client.py',
    ran: 'a model of extra-openai-models.yaml, and the models of llm-ollama',
  },
  {
    name: 'langchain-openai',
    from: 'pypi',
    packages: ['langchain-openai==1.7.4', 'langchain-tests==1.1.9', 'pytest-asyncio'],
    script: 'langchain_standard.py',
    args: ['openai'],
    ran: 'the standard tests of chat models and of embeddings',
    real: {
      test_tool_calling: SKILL.values,
      test_structured_output: SKILL.length,
      test_agent_loop: SKILL.choice,
    },
  },
  {
    name: 'langchain-anthropic',
    from: 'pypi',
    packages: ['langchain-anthropic==1.7.10', 'langchain-tests==1.1.9', 'pytest-asyncio'],
    script: 'langchain_standard.py',
    args: ['anthropic'],
    ran: 'the standard tests of chat models',
    real: {
      test_tool_calling: SKILL.values,
      test_structured_output: SKILL.length,
      test_agent_loop: SKILL.choice,
    },
  },
  {
    name: 'langchain-ollama',
    from: 'pypi',
    packages: ['langchain-ollama==1.1.0', 'langchain-tests==1.1.9', 'pytest-asyncio'],
    script: 'langchain_standard.py',
    args: ['ollama'],
    ran: 'the standard tests of chat models and of embeddings',
    real: {
      test_tool_calling: SKILL.choice,
      test_tool_choice: 'the API of Ollama has no choice of a tool; skill: it chooses none',
      test_bind_runnables_as_tools: SKILL.choice,
      test_unicode_tool_call: SKILL.choice,
      test_agent_loop: SKILL.choice,
    },
  },
  {
    name: 'langchain-js',
    from: 'npm',
    packages: [
      '@langchain/openai@1.6.0',
      '@langchain/core@1.4.0',
      '@langchain/ollama@1.3.0',
      'langchain@1.5.14',
      'zod@4.6.7',
    ],
    script: 'langchain.mjs',
    ran: 'text, stream, agents with a tool, a schema, a batch, errors; chat, responses and ollama',
  },
  {
    name: 'pydantic-ai',
    from: 'pypi',
    packages: ['pydantic-ai-slim[openai,anthropic]==2.38.0'],
    script: 'pydantic_ai_client.py',
    known: { 'messages:': 'a TypeError inside pydantic-ai with messages, before a request' },
    ran: 'text, stream, tool, output of a type; chat, responses and messages',
  },
  {
    name: 'llama-index',
    from: 'pypi',
    packages: [
      'llama-index-core==0.14.25',
      'llama-index-llms-openai==0.8.3',
      'llama-index-llms-openai-like==0.8.1',
      'llama-index-llms-ollama==0.11.0',
      'llama-index-embeddings-openai==0.7.0',
    ],
    script: 'llama_index_client.py',
    ran: 'chat, stream, agents with a tool, a class, embeddings; openai-like, openai, responses, ollama',
  },
  {
    name: 'haystack',
    from: 'pypi',
    packages: ['haystack-ai==3.4.1'],
    script: 'haystack_client.py',
    ran: 'text, stream, agents with a tool, images, errors; chat and responses; a class, embeddings',
  },
  {
    name: 'instructor',
    from: 'pypi',
    packages: ['instructor==1.17.0', 'anthropic==2.14.0'],
    script: 'instructor_client.py',
    ran: 'a class, a list, a class in parts; tools, strict tools, schema, responses, messages',
  },
  {
    name: 'dspy',
    from: 'pypi',
    packages: ['dspy==3.4.1', 'numpy'],
    script: 'dspy_client.py',
    ran: 'chat, responses, text, messages; a signature by a schema, n=3, a tool, embeddings, an error',
  },
  {
    name: 'mistralai',
    from: 'pypi',
    packages: ['mistralai==3.7.0'],
    script: 'mistral_client.py',
    known: {
      'words of Mistral': "svc has OpenAI's API, which has other words",
      embeddings: "it requires an id of embeddings, which OpenAI's API does not have",
      models: "it requires Mistral's type of a model",
      'one model': "it requires Mistral's type of a model",
    },
    ran: 'chat, stream, tools, a class, an image, embeddings, models, errors',
  },
  {
    name: 'langgraph',
    from: 'pypi',
    packages: [
      'langgraph==1.2.22',
      'langchain==1.5.0',
      'langchain-openai==1.7.4',
      'langchain-ollama==1.1.0',
    ],
    script: 'langgraph_client.py',
    ran: 'agents: a tool, a stream, a thread, a class in two ways; chat, responses and ollama',
  },
  {
    name: 'strands-agents',
    from: 'pypi',
    packages: ['strands-agents[openai,ollama]==1.62.0'],
    script: 'strands_client.py',
    ran: 'text, stream, a tool, a class, an error; openai and ollama',
  },
  {
    name: 'agno',
    from: 'pypi',
    packages: ['agno==3.1.10', 'openai', 'ollama==0.6.3'],
    script: 'agno_client.py',
    ran: 'text, a tool in a stream, a class; like, chat, responses and ollama',
  },
  {
    name: 'autogen',
    from: 'pypi',
    packages: ['autogen-ext[openai,ollama]==0.7.5', 'autogen-agentchat==0.7.5'],
    script: 'autogen_client.py',
    ran: 'text, stream, agents with a tool, a class, a team, an error; openai and ollama',
  },
  {
    name: 'inspect-ai',
    from: 'pypi',
    packages: ['inspect-ai==0.3.285', 'openai==3.57.0', 'anthropic==2.14.0'],
    script: 'inspect_client.py',
    ran: 'text, a task with a tool, a class, an error; openai, responses, anthropic and ollama',
  },
  {
    name: 'promptfoo',
    from: 'npm',
    packages: ['promptfoo@0.123.1'],
    script: 'promptfoo.mjs',
    ran: 'assertions; chat, responses, completion, anthropic, ollama; a schema, embeddings, an error',
  },
  {
    name: 'cohere',
    from: 'pypi',
    packages: ['cohere==7.3.1'],
    script: 'cohere_client.py',
    ran: 'rerank by /v1 and /v2, errors',
  },
  {
    name: 'lm-eval',
    from: 'pypi',
    packages: ['lm-eval[api]==0.4.13', 'transformers==5.24.0', 'gguf==0.19.0'],
    script: 'lm_eval_client.py',
    ran: 'choices by their likelihood, perplexity, answers; completions and chat',
  },
  {
    name: 'semantic-kernel',
    from: 'pypi',
    packages: ['semantic-kernel==1.45.0'],
    script: 'semantic_kernel_client.py',
    ran: 'chat, stream, functions, a class, agents of chat and of responses, embeddings, an error',
  },
  {
    name: 'outlines',
    from: 'pypi',
    packages: ['outlines==1.3.3', 'openai', 'ollama==0.6.3'],
    script: 'outlines_client.py',
    ran: 'text, stream, a class; from_openai, from_vllm, from_sglang, from_ollama',
  },
  {
    name: 'openai-agents',
    from: 'pypi',
    packages: ['openai-agents==0.24.0'],
    script: 'openai_agents.py',
    ran: 'an agent with a tool, a tool of a server, a type, a session; responses and chat',
  },
  {
    name: 'openai-agents-js',
    from: 'npm',
    packages: ['@openai/agents@0.20.0', 'openai@7.57.0', 'zod@4.6.7'],
    script: 'openai_agents.mjs',
    ran: 'an agent with a tool; a tool of a server, approved, rejected, streamed',
  },
  {
    name: 'smolagents',
    from: 'pypi',
    packages: ['smolagents[openai]==1.26.0'],
    script: 'smolagents_client.py',
    ran: 'a model, a stream, an agent that calls a tool',
  },
  {
    name: 'codex',
    from: 'npm',
    packages: ['@openai/codex@0.169.0'],
    script: 'codex.mjs',
    ran: 'codex exec with its default configuration: an answer, and a command of the shell',
  },
  {
    name: 'qwen-code',
    from: 'npm',
    packages: ['@qwen-code/qwen-code@0.24.4'],
    script: 'qwen_code.mjs',
    ran: 'qwen -p: a call of a tool, an unknown model, a wrong key',
  },
  {
    name: 'claude-code',
    from: 'npm',
    packages: ['@anthropic-ai/claude-code@2.1.332'],
    script: 'claude_code.mjs',
    ran: 'claude -p: an answer, a tool that reads a file, svc as a tool server',
  },
  {
    name: 'mcp-inspector',
    from: 'npm',
    packages: ['@modelcontextprotocol/inspector@2.12.0'],
    script: 'mcp_inspector.mjs',
    ran: 'its command line with svc as a tool server: list, answer, error',
  },
  {
    name: 'mcp-sdk',
    from: 'npm',
    packages: ['@modelcontextprotocol/sdk@1.32.2'],
    script: 'mcp_sdk.mjs',
    ran: 'svc as a tool server: list, answer with progress, error, cancel',
  },
  {
    name: 'mcp-conformance',
    from: 'npm',
    packages: ['@modelcontextprotocol/conformance@0.1.16'],
    script: 'mcp_conformance.mjs',
    open: true,
    known: {
      'client elicitation': 'a tool server asks for no person',
      'client auth/client-credentials': 'a login is one of a person',
      'client auth/cross-app-access': 'a login is one of a person',
      'server tools-call': 'it calls a tool of the suite',
      'server json-schema': 'it calls a tool of the suite',
      'server elicitation': 'it calls a tool of the suite',
      'server logging': 'svc serves tools alone',
      'server completion': 'svc serves tools alone',
      'server resources': 'svc serves tools alone',
      'server prompts': 'svc serves tools alone',
      'server server-sse': 'svc serves without sessions',
    },
    page: 'docs/mcp.md',
    ran: 'the official suite of MCP: svc as a client of tool servers, and as a server',
  },
  {
    name: 'launch',
    from: 'npm',
    packages: [
      '@openai/codex@0.169.0',
      '@anthropic-ai/claude-code@2.1.332',
      'opencode-ai@1.18.33',
      '@continuedev/cli@1.5.47',
    ],
    script: 'launch.mjs',
    ran: 'svc launch codex, claude, opencode and continue: an answer',
  },
  {
    name: 'launch-aider',
    from: 'pypi',
    packages: ['aider-chat==0.86.2'],
    script: 'launch_aider.mjs',
    ran: 'svc launch aider: an answer',
  },
  {
    name: 'grpcurl',
    from: 'go',
    packages: ['github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4'],
    script: 'grpcurl.mjs',
    ran: 'reflection, health, a run, refusals',
  },
  {
    name: 'schemathesis',
    from: 'pypi',
    packages: ['schemathesis==4.32.5'],
    script: 'schemathesis_client.py',
    known: { 'GET /v1/runs/search': 'an error of the tool without words' },
    ran: 'every operation of /openapi.json, with generated requests',
  },
  {
    name: 'open-responses',
    from: 'checkout',
    packages: ['github.com/openresponses/openresponses', 'bun@1.4.5'],
    script: 'open_responses.mjs',
    ran: 'its compliance suite, streams over WebSocket included',
  },
  {
    name: 'ollama-integration',
    from: 'checkout',
    packages: ['github.com/ollama/ollama'],
    script: 'ollama_integration.mjs',
    open: true,
    known: {
      'TestAPI/api-generate': 'svc has no context of token ids; a conversation goes to /api/chat',
      'TestAPI/api-chat': 'the model of a provider has no time of loading',
    },
    ran: 'integration/: TestAPI, with the tag fast',
  },
];
