const { setFlagsFromString } = process.getBuiltinModule('node:v8');

/**
 * A pattern of the configuration, for all its places in a text. It runs on the engine of the language that takes linear time, whatever pattern
 * and text are, so that none can hold up the daemon. That engine knows no look-around, no references back and no repetition of more than 16;
 * it is case-sensitive. Throws SyntaxError for a pattern that is wrong or asks for more.
 */
export function compilePattern(text: string): RegExp {
  setFlagsFromString('--enable-experimental-regexp-engine');
  return new RegExp(text, 'gl');
}

/** A way to take what these patterns match out of a text. Linear time is still time: a text that is too long to be searched is left out whole. */
export function redactor(patterns: readonly string[]): (text: string) => string {
  const compiled = patterns.map(compilePattern);
  if (compiled.length === 0) return (text) => text;
  return (text) =>
    text.length > REDACTED_CHARS_MAX
      ? TOO_LONG
      : compiled.reduce((redacted, pattern) => redacted.replace(pattern, REDACTED), text);
}

const REDACTED_CHARS_MAX = 262_144;
const TOO_LONG = '[left out: too long to be searched]';
const REDACTED = '[redacted]';
