import type { RunRequest } from '../../../machines/messages.ts';
import type { ProviderConfig } from '../../config/provider.ts';
import { SvcError } from '../../errors.ts';

/** The model that a request means. Throws model_unknown if nothing names one. */
export function askedModel(
  request: Pick<RunRequest, 'model'>,
  config: Pick<ProviderConfig, 'model'>,
): string {
  const model = request.model || config.model;
  if (model !== null) return model;
  throw new SvcError('model_unknown', 'No model is named, and the provider has no default one.', {
    retryable: false,
  });
}
