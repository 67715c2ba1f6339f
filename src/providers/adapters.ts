import { createRemoteProvider, createSdkProvider } from '../cloud/index.ts';
import type { ProviderKeys } from '../config/keys/port.ts';
import type { ProviderConfig } from '../config/providers/provider.ts';
import { fillHint, SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { OutputPart, ProviderPort } from '../ports/providers.ts';

export interface RemoteOptions {
  id: string;
  config: ProviderConfig;
  env: NodeJS.ProcessEnv;
  keys: ProviderKeys;
  limits: Limits;
  /** The folder of packages that the user installed. */
  adapters: string;
}

/** Creates the provider by its adapter. It loads and opens nothing before the first request. */
export function createRemote({ config, ...options }: RemoteOptions): ProviderPort {
  const { adapter, base_url } = config;
  if (adapter === 'openai-compatible' && base_url !== null)
    return withNamedErrors(createRemoteProvider({ ...options, config: { ...config, base_url } }));
  return withNamedErrors(createSdkProvider({ ...options, config }));
}

/**
 * A provider whose failures have its name. Adapters write `The provider` at the begin of a message,
 * and `<provider>` in a hint.
 */
function withNamedErrors(port: ProviderPort): ProviderPort {
  const { id } = port;
  const { countTokens, embed, embedsTokens, rank, pass, returns = [] } = port;
  const nameErrors = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (thrown) {
      throw withName(thrown, id);
    }
  };
  return {
    id,
    returns,
    async *stream(attempt, signal): AsyncGenerator<OutputPart> {
      try {
        yield* port.stream(attempt, signal);
      } catch (thrown) {
        throw withName(thrown, id);
      }
    },
    models: (signal) => nameErrors(port.models(signal)),
    probe: (signal) => nameErrors(port.probe(signal)),
    close: () => port.close(),
    ...(countTokens === undefined
      ? {}
      : { countTokens: (...args) => nameErrors(countTokens.apply(port, args)) }),
    ...(embed === undefined ? {} : { embed: (...args) => nameErrors(embed.apply(port, args)) }),
    ...(embedsTokens === undefined ? {} : { embedsTokens }),
    ...(pass === undefined ? {} : { pass: (...args) => nameErrors(pass.apply(port, args)) }),
    ...(rank === undefined ? {} : { rank: (...args) => nameErrors(rank.apply(port, args)) }),
  };
}

function withName(thrown: unknown, provider: string): unknown {
  if (!(thrown instanceof SvcError)) return thrown;
  return thrown.with({
    message: thrown.message.replace(/^The provider\b/, provider),
    hint: fillHint(thrown.hint, { provider }),
  });
}
