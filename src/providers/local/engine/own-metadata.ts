import { asRecord } from '../../../json.ts';
import type { ConfidenceRule } from '../../mini/confidence.ts';

export interface OwnMetadata {
  /** The model was made for this program. */
  built_in: boolean;
  gate: ConfidenceRule | null;
  /** What is said in place of an answer that is not sure enough. */
  fallback: string;
}

/** The metadata under `svc` that the built-in model carries; a file that has it in part or in another form is treated as without. */
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
