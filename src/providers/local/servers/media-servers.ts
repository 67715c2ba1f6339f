import { isMedia, type RunRequest } from '../../../contract/messages/parts.ts';
import { SvcError } from '../../../errors.ts';
import type { Limits } from '../../../limits.ts';
import type { Origin } from '../../../models/index.ts';
import type { AttemptRequest, OutputPart, ProviderPort } from '../../../ports/providers.ts';
import { type ModelFile, projectorOf } from '../model-files.ts';
import type { ServerSpec } from './server-process.ts';

/** What runs with images and sound need beside the engine. */
export interface MediaPorts {
  /** The path of llama-server. Null: it is not installed. */
  program(): string | null;
  /** Asks a server at an address with a key. */
  at(id: string, base_url: string, key: string): ProviderPort;
}

export interface MediaServersOptions extends MediaPorts {
  limits: Limits;
  find(name: string): Promise<ModelFile>;
  originOf(file: ModelFile): Promise<Origin | null>;
  /** The provider of a server, which is one more engine. */
  serve(server: ServerSpec, file: ModelFile): ProviderPort;
}

/**
 * Answers runs with images or sound: the engine reads neither, so a llama-server that svc starts
 * has the same model with its file for them. It starts with the first such run.
 */
export class MediaServers {
  private readonly options: MediaServersOptions;
  /** By the path of the model. Another command replaces a server. */
  private readonly servers = new Map<string, { command: string; provider: ProviderPort }>();

  constructor(options: MediaServersOptions) {
    this.options = options;
  }

  /** Throws capability_missing, with the missing file and the command that brings it. */
  async *stream(
    attempt: AttemptRequest,
    param: string,
    signal: AbortSignal,
  ): AsyncGenerator<OutputPart> {
    const file = await this.options.find(attempt.request.model);
    const provider = await this.providerOf(file, param);
    yield* provider.stream(attempt, signal);
  }

  private async providerOf(file: ModelFile, param: string): Promise<ProviderPort> {
    const command = await this.commandFor(file, param);
    const id = file.id;
    const key = JSON.stringify(command);
    const known = this.servers.get(file.path);
    if (known?.command === key) return known.provider;
    const { at } = this.options;
    const server = {
      id,
      command,
      memory_bytes: null,
      at: (base_url: string, secret: string) => at(id, base_url, secret),
    };
    const provider = this.options.serve(server, file);
    this.servers.set(file.path, { command: key, provider });
    return provider;
  }

  private async commandFor(file: ModelFile, param: string): Promise<string[]> {
    const { program, limits } = this.options;
    const projector = await projectorOf(file.path);
    if (projector === null)
      throw missingError(
        `${file.name} has no file for images and sound beside it (mmproj)`,
        param,
        { hint: await this.wayToProjector(file) },
      );
    const path = program();
    if (path === null)
      throw missingError('Images and sound need llama-server, which is not installed', param, {
        hint: 'Run: svc engine install llama-server',
      });
    const context = String(limits.engine_context_tokens);
    const model = ['-m', file.path, '--mmproj', projector];
    return [path, ...model, '-c', context, '-np', '1', '--host', '127.0.0.1', '--port', '{port}'];
  }

  private async wayToProjector(file: ModelFile): Promise<string> {
    const origin = await this.options.originOf(file);
    return origin?.reference.startsWith('hf:') === true
      ? `Its repository may have one. Run: svc model pull ${origin.reference}`
      : 'Put the mmproj file of the model beside it, or take a model that has one: ' +
          'svc model pull hf:user/repo';
  }
}

/** The place of the first part of a request that is not text. Null: all is text. */
export function placeOfMedia({ messages }: Pick<RunRequest, 'messages'>): string | null {
  for (const [index, { content }] of messages.entries()) {
    const place = content.findIndex(isMedia);
    if (place !== -1) return `messages.${index}.content.${place}`;
  }
  return null;
}

function missingError(what: string, param: string, { hint }: { hint: string }): SvcError {
  return new SvcError('capability_missing', `${what}.`, { param, hint });
}
