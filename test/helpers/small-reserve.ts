import { defaultLimits, type Limits } from '../../src/limits.ts';

const BYTES = 65_536;

/**
 * The reserve of a log is random bytes on the disk. Each new log of a test would write eight
 * megabytes of them.
 */
export const SMALL_RESERVE: Limits = { ...defaultLimits, reserve_bytes: BYTES };
/** The same, for a daemon. */
export const SMALL_RESERVE_SETTING = { SVC_LIMIT_RESERVE_BYTES: String(BYTES) };
