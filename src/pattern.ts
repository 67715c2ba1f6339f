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
