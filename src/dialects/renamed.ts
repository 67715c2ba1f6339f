import type { SvcError } from '../errors.ts';

/**
 * The error with the name that the API of others has for the field.
 *
 * 1. The words of a provider stay.
 * 2. A field such as `model` or `stop` is also a word of prose. So it is replaced only where our
 *    messages have it as a name: as their first word. A name with `_` or `.` is no word of prose.
 */
export function withField(error: SvcError, named: string): SvcError {
  const { message, param, status } = error;
  if (param === null) return error;
  const name = param.replace(/[^\w]/g, '\\$&');
  const places = /[._]/.test(param) ? `(?<![\\w.])${name}(?!\\w)` : `^${name}(?!\\w)`;
  const words = status === null ? message.replace(new RegExp(places, 'g'), () => named) : message;
  return error.with({ message: words, param: named });
}
