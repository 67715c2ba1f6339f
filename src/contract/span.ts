/**
 * The span of a client, as W3C Trace Context writes it: the parent of the spans of a run. A text of
 * another form counts as none, as that standard asks.
 */
export function spanOf(traceparent: unknown): { traceparent?: string } {
  return typeof traceparent === 'string' && SPAN.test(traceparent) ? { traceparent } : {};
}

/** Neither the trace nor the span is all zeros. */
const SPAN = /^00-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;
