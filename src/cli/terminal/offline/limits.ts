import { loadConfig } from '../../../config/config.ts';
import { defaultLimits, type Limits } from '../../../limits.ts';

/** The configured limits. An unreadable configuration must not block reading the log. */
export function limitsOf(file: string): Limits {
  try {
    return loadConfig(file).limits;
  } catch {
    return defaultLimits;
  }
}
