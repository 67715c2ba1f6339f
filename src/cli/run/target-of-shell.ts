import type { Paths } from '../../home/paths.ts';
import { absoluteModel } from '../terminal/parse/absolute-model.ts';

/**
 * The request with the target that SVC_PROVIDER and SVC_MODEL of this shell name. A flag and a
 * preset go before them. SVC_MODEL is a model of the local engine, so it counts for no other
 * provider. The default provider of the daemon may be another one, so a name comes with `local`. A
 * path belongs to the local engine anyway, and a name that begins with a provider names its own.
 */
export async function withTargetOfShell<T extends Record<string, unknown>>(
  input: T,
  paths: Paths,
): Promise<T> {
  const { SVC_PROVIDER, SVC_MODEL } = process.env;
  if (input.cloud === true || input.model !== undefined) return input;
  const provider = input.provider ?? (SVC_PROVIDER || undefined);
  if (!SVC_MODEL || (provider !== undefined && provider !== 'local'))
    return provider === undefined ? input : { ...input, provider };
  const saysOwn = await namesProvider(SVC_MODEL, paths);
  return {
    ...input,
    ...(provider === undefined && saysOwn ? {} : { provider: 'local' }),
    model: absoluteModel(SVC_MODEL),
  };
}

/** Whether it is a path, or begins with a provider. A name in a folder of models does neither. */
async function namesProvider(model: string, { config }: Paths): Promise<boolean> {
  const [, first] = /^([^\\/]*)[\\/]/.exec(model) ?? [];
  if (first === undefined) return false;
  if (['', '.', '..', 'local'].includes(first) || model.includes('\\')) return true;
  const { loadConfig } = await import('../../config/config.ts');
  try {
    return Object.hasOwn(loadConfig(config).providers, first);
  } catch {
    // The daemon decides: its configuration may be whole.
    return true;
  }
}
