import { absoluteModel } from './run-input.ts';

/**
 * The request with the target that SVC_PROVIDER and SVC_MODEL of this shell name. A flag and a
 * preset go before them. SVC_MODEL is a model of the local engine, so it counts for no other
 * provider.
 */
export function withTargetOfShell<T extends Record<string, unknown>>(asked: T): T {
  const { SVC_PROVIDER, SVC_MODEL } = process.env;
  if (asked.cloud === true || asked.model !== undefined) return asked;
  const provider = asked.provider ?? (SVC_PROVIDER || undefined);
  const isLocal = provider === undefined || provider === 'local';
  return {
    ...asked,
    ...(provider === undefined ? {} : { provider }),
    ...(SVC_MODEL && isLocal ? { model: absoluteModel(SVC_MODEL) } : {}),
  };
}
