import { filledHint, SvcError } from '../errors.ts';
import type { OutputPart, ProviderPort } from './port.ts';

/**
 * A provider whose failures have its name. Adapters write `The provider` at the begin of a message,
 * and `<provider>` in a hint.
 */
export function named(port: ProviderPort): ProviderPort {
  const { id } = port;
  const { countTokens, embed, embedsTokens } = port;
  const asking = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (thrown) {
      throw withName(thrown, id);
    }
  };
  return {
    id,
    async *stream(attempt, signal): AsyncGenerator<OutputPart> {
      try {
        yield* port.stream(attempt, signal);
      } catch (thrown) {
        throw withName(thrown, id);
      }
    },
    models: (signal) => asking(port.models(signal)),
    probe: (signal) => asking(port.probe(signal)),
    close: () => port.close(),
    ...(countTokens === undefined
      ? {}
      : { countTokens: (...given) => asking(countTokens.apply(port, given)) }),
    ...(embed === undefined ? {} : { embed: (...given) => asking(embed.apply(port, given)) }),
    ...(embedsTokens === undefined ? {} : { embedsTokens }),
  };
}

function withName(thrown: unknown, provider: string): unknown {
  if (!(thrown instanceof SvcError)) return thrown;
  return thrown.with({
    message: thrown.message.replace(/^The provider\b/, provider),
    hint: filledHint(thrown.hint, { provider }),
  });
}
