import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { Usage } from '../../../contract/events.ts';
import type { RunRequest } from '../../../contract/messages/parts.ts';
import type { ModelRecord } from '../../../contract/model-record.ts';
import { namedModel } from '../../../contract/model-record.ts';
import { options } from '../../../contract/options.ts';
import { SvcError } from '../../../errors.ts';
import type { AttemptRequest, OutputPart, ProviderPort } from '../../../ports/providers.ts';
import type { StartedWork } from '../engines.ts';
import type { ModelFile } from '../model-files.ts';
import type { ServerProcess, ServerSpec } from './server-process.ts';

export interface ServerProviderOptions {
  server: ServerSpec;
  model: ModelFile;
  env: NodeJS.ProcessEnv;
  /** Begins work at the server. */
  begin(signal: AbortSignal): Promise<StartedWork<ServerProcess>>;
  /** Ends the server without events. */
  close(): Promise<void>;
  state(): ModelRecord['state'];
}

/**
 * The provider of a server that svc starts: the first work starts it, and its adapter asks it. A
 * probe starts nothing.
 */
export function createServerProvider(options: ServerProviderOptions): ProviderPort {
  const { server, model, env } = options;
  const { id } = server;
  let listed: readonly string[] = [model.name];

  const begin = async (signal: AbortSignal): Promise<StartedWork<ServerProcess>> => {
    const work = await options.begin(signal);
    const { models } = work.process;
    listed = [model.name, ...models.filter((name) => name !== model.name)];
    return work;
  };

  async function* stream(
    ...[attempt, signal]: Parameters<ProviderPort['stream']>
  ): AsyncGenerator<OutputPart> {
    const { process, waited, end } = await begin(signal);
    try {
      const rest = await restOf(attempt, process);
      if (rest.request.max_tokens === 0) return yield { ...CUT, ...waited };
      for await (const part of process.remote.stream({ ...attempt, ...rest }, signal))
        yield part.type === 'finish'
          ? { ...part, ...waited, usage: wholeUsage(part.usage, rest.before) }
          : part;
    } catch (thrown) {
      throw signal.aborted ? thrown : await process.causeOf(thrown);
    } finally {
      void end();
    }
  }

  const work = async <T>(
    signal: AbortSignal,
    ask: (remote: ProviderPort) => Promise<T> | undefined,
  ): Promise<T> => {
    const { process, end } = await begin(signal);
    try {
      const answer = ask(process.remote);
      if (answer === undefined) throw new SvcError('capability_missing');
      return await answer;
    } catch (thrown) {
      throw signal.aborted ? thrown : await process.causeOf(thrown);
    } finally {
      void end();
    }
  };

  return {
    id,
    stream,
    embed: (name, texts, embedding, signal) =>
      work(signal, (remote) => remote.embed?.(name, texts, embedding, signal)),
    rank: (name, query, documents, signal) =>
      work(signal, (remote) => remote.rank?.(name, query, documents, signal)),
    pass: (request, signal) => work(signal, (remote) => remote.pass?.(request, signal)),
    embedsTokens: true,
    models: async () => listed.map((name) => ({ ...namedModel(id, name), state: options.state() })),
    listed: () => listed,
    probe: async () => {
      const [program = ''] = server.command;
      if (!(await isProgram(program, env.PATH)))
        throw new SvcError(
          'provider_unreachable',
          `The program ${JSON.stringify(program)} of ${id} is not there, or cannot be started.`,
          {
            retryable: false,
            hint: `Correct the command of ${id} in config.json, then run: svc restart`,
          },
        );
      return { models: [...listed] };
    },
    close: () => options.close(),
  };
}

/**
 * The request for the rest of an answer: it ends with the text so far as a message of the
 * assistant. `before`: the tokens of that text. Throws capability_missing.
 */
async function restOf(
  { request, resume }: AttemptRequest,
  process: ServerProcess,
): Promise<{ request: RunRequest; before: number }> {
  if (resume === null) return { request, before: 0 };
  if (resume.parts.length > 0)
    throw new SvcError(
      'capability_missing',
      'The server cannot continue an answer that has more than text, such as reasoning.',
      { retryable: false },
    );
  const before = await process.tokensIn(resume.text);
  const { max_tokens, messages } = request;
  const answer = { role: 'assistant', content: [{ type: 'text', text: resume.text }] } as const;
  const whole = [...messages, { ...answer, continued: true } as const];
  const isUnbounded = max_tokens === null || max_tokens === options.max_tokens.neutral;
  const left = isUnbounded ? null : Math.max(0, max_tokens - before);
  return { request: { ...request, messages: whole, max_tokens: left }, before };
}

/** The answer had all its tokens before it was cut off. */
const CUT: Extract<OutputPart, { type: 'finish' }> = {
  type: 'finish',
  finish_reason: 'length',
  usage: { input_tokens: null, output_tokens: null },
};

/** To the server, the text so far was a part of the prompt. */
function wholeUsage(usage: Usage, before: number): Usage {
  const { input_tokens, output_tokens } = usage;
  return {
    ...usage,
    input_tokens: input_tokens === null ? null : Math.max(0, input_tokens - before),
    output_tokens: output_tokens === null ? null : output_tokens + before,
  };
}

/** Whether there is such a program: at a path, or with this name in the folders of PATH. */
async function isProgram(program: string, folders = ''): Promise<boolean> {
  const paths = program.includes('/')
    ? [program]
    : folders.split(delimiter).map((folder) => join(folder, program));
  const found = await Promise.all(
    paths.map((path) =>
      access(path, constants.X_OK).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.includes(true);
}
