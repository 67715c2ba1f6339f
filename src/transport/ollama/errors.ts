import type { SvcError } from '../../errors.ts';

/** An error in the form of Ollama's API: one text. */
export function errorOf({ message, hint }: SvcError): object {
  return { error: `${message} ${hint}` };
}
