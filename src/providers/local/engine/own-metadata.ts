import { asRecord } from '../../../json.ts';
import type { ConfidenceRule } from '../../mini/confidence.ts';

export interface OwnMetadata {
  /** The model belongs to this program. */
  built_in: boolean;
  gate: ConfidenceRule | null;
  /** The answer that replaces a declined one. */
  fallback: string;
}

/**
 * Reads the `svc` metadata of the built-in model. A file with an incomplete or wrong form counts as
 * without.
 */
export function readOwnMetadata(metadata: object): OwnMetadata {
  const own = asRecord(asRecord(metadata).svc);
  const { tokens, minimum, fallback } = asRecord(own.confidence);
  const gated =
    typeof tokens === 'number' && typeof minimum === 'number' && typeof fallback === 'string';
  return {
    built_in: own.builtin === true,
    gate: gated ? { tokens, minimum } : null,
    fallback: gated ? fallback : '',
  };
}
