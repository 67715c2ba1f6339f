import { absoluteModel } from './run-input.ts';

/**
 * The request with the target that SVC_PROVIDER and SVC_MODEL of this shell name. A flag and a
 * preset go before them. SVC_MODEL is a model of the local engine, so it counts for no other
 * provider. The default provider of the daemon may be another one, so a bare name comes with
 * `local`. A path belongs to the local engine anyway, and another name with a slash names its own.
 */
export function withTargetOfShell<T extends Record<string, unknown>>(asked: T): T {
  const { SVC_PROVIDER, SVC_MODEL } = process.env;
  if (asked.cloud === true || asked.model !== undefined) return asked;
  const provider = asked.provider ?? (SVC_PROVIDER || undefined);
  const ofModel =
    SVC_MODEL && (provider === undefined || provider === 'local')
      ? {
          ...(/[\\/]/.test(SVC_MODEL) ? {} : { provider: 'local' }),
          model: absoluteModel(SVC_MODEL),
        }
      : {};
  return { ...asked, ...(provider === undefined ? {} : { provider }), ...ofModel };
}
