/**
 * Compiles a pattern of the configuration as a global RegExp. V8's linear-time engine runs it, so
 * no pattern can block the daemon. That engine has no look-around, no back-references and no
 * repetition above 16. Throws SyntaxError.
 */
export function compilePattern(text: string): RegExp {
  // Not imported: most commands read no pattern.
  process.getBuiltinModule('node:v8').setFlagsFromString('--enable-experimental-regexp-engine');
  return new RegExp(text, 'gl');
}

/**
 * Returns a function that replaces every match of the patterns in a text. A text that is too long
 * is replaced whole.
 */
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
