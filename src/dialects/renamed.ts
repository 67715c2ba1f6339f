import type { SvcError } from '../errors.ts';

/**
 * The error with a third-party API's name of the field.
 *
 * 1. A message of a provider is not changed.
 * 2. A field such as `model` or `stop` is also an English word. So such a name is replaced only as
 *    the first word of our messages. A name with `_` or `.` is replaced everywhere.
 */
export function withField(error: SvcError, named: string): SvcError {
  const { message, param, status } = error;
  if (param === null) return error;
  const name = param.replace(/[^\w]/g, '\\$&');
  const places = /[._]/.test(param) ? `(?<![\\w.])${name}(?!\\w)` : `^${name}(?!\\w)`;
  const words = status === null ? message.replace(new RegExp(places, 'g'), () => named) : message;
  return error.with({ message: words, param: named });
}
