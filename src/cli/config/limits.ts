import { loadConfig } from '../../config/config.ts';
import { defaultLimits, type Limits } from '../../limits.ts';

/** A configuration that cannot be read must not keep anybody from the log, or from an answer. */
export function limitsOf(file: string): Limits {
  try {
    return loadConfig(file).limits;
  } catch {
    return defaultLimits;
  }
}
