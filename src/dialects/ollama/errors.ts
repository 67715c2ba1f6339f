import type { SvcError } from '../../errors.ts';

/**
 * An error in the form of Ollama's API: one text. Of a request without a valid token Ollama's
 * command line shows only `status`.
 */
export function errorOf({ code, message, hint }: SvcError): object {
  const error = `${message} ${hint}`;
  return code === 'unauthorised' ? { error, status: error } : { error };
}
