import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { whyUnusable } from '../../causes.ts';
import { asExhausted } from '../../descriptors.ts';
import { SvcError } from '../../errors.ts';
import { platform } from '../../home/platform.ts';
import { KEY_FILE_BYTES_MAX } from '../../limits.ts';

/** Reads a file that only its owner can read. `what` begins the message of an error. */
export async function readKeyFile(path: string, what: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | NONBLOCK).catch((error: unknown) => {
    // No descriptors are left: that says nothing about the key.
    throw (
      asExhausted(error) ??
      unauthorisedError(`${what} cannot be read: ${whyUnusable(error)}.`, error)
    );
  });
  try {
    return await readPrivate(file, what);
  } finally {
    await file.close();
  }
}

/** A pipe would block its reader for ever. Windows has no such flag. */
const NONBLOCK = constants.O_NONBLOCK ?? 0;

async function readPrivate(file: FileHandle, what: string): Promise<string> {
  const found = await file.stat();
  if (!found.isFile()) throw unauthorisedError(`${what} is not a file.`);
  if ((found.mode & platform.others) !== 0)
    throw unauthorisedError(
      `${what} can be used by other users; only its owner may read it (chmod 600).`,
    );
  if (found.size > KEY_FILE_BYTES_MAX)
    throw unauthorisedError(`${what} is larger than a key can be (${KEY_FILE_BYTES_MAX} bytes).`);
  const text = await file.readFile('utf8').catch((error: unknown) => {
    throw unauthorisedError(`${what} cannot be read: ${whyUnusable(error)}.`, error);
  });
  if (text.trim() === '') throw unauthorisedError(`${what} is empty.`);
  return text.trim();
}

/** A key goes into a header, so it has one line of visible characters. */
export function checkKey(key: string, what: string): string {
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw unauthorisedError(`${what} has characters that are not valid in a key.`);
}

export function unauthorisedError(message: string, cause?: unknown): SvcError {
  return new SvcError('provider_unauthorised', message, {
    retryable: false,
    ...(cause === undefined ? {} : { cause }),
  });
}
