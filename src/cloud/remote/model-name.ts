import type { ProviderConfig } from '../../config/providers/provider.ts';
import type { RunRequest } from '../../contract/messages/parts.ts';
import { SvcError } from '../../errors.ts';

/** The model that a request means. Throws model_unknown if nothing names one. */
export function modelOf(
  request: Pick<RunRequest, 'model'>,
  config: Pick<ProviderConfig, 'model'>,
): string {
  const model = request.model || config.model;
  if (model !== null) return model;
  throw new SvcError('model_unknown', 'No model is named, and the provider has no default one.', {
    retryable: false,
  });
}

/**
 * A name that stays one name in the path of an address. Any other could reach what else the origin
 * has, with the key of the provider. It could also pass a price or a budget. Throws model_unknown.
 */
export function nameInPath(model: string): string {
  if (model.split('/').every((segment) => SEGMENT.test(segment))) return model;
  throw new SvcError(
    'model_unknown',
    `${JSON.stringify(model.slice(0, SHOWN_MAX))} can be no model of this provider: ` +
      'its name would be another path of the address.',
    { retryable: false, hint: 'Name a model as the provider lists it: svc model list' },
  );
}

/** Not empty, no step such as `..`, and nothing that begins another part of an address. */
const SEGMENT = /^(?!\.{1,2}$)[^?#%\\\p{Cc}]+$/u;
const SHOWN_MAX = 100;
