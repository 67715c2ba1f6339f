import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { whyUnusable } from '../../causes.ts';
import { SvcError } from '../../errors.ts';

/**
 * The page that takes a browser to the console, or to a login. The address has a ticket or a state,
 * and other users can read each command line. So the browser starts with the name of a file that
 * only its owner can read.
 */
export interface SignInPage {
  path: string;
  remove(): void;
}

/** Throws home_unusable. */
export async function writeSignInPage(folder: string, url: string): Promise<SignInPage> {
  const path = join(folder, `${randomBytes(16).toString('hex')}.html`);
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(path, pageText(url), { mode: 0o600, flag: 'wx' });
  } catch (cause) {
    throw new SvcError(
      'home_unusable',
      `The sign-in page ${path} cannot be written: ${whyUnusable(cause)}.`,
      { cause, hint: 'Print the address instead: svc console --no-open' },
    );
  }
  return { path, remove: () => void rm(path, { force: true }).catch(() => {}) };
}

/** Removes the pages of a daemon that crashed. Their tickets are invalid. */
export async function removeSignInPages(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => []))
    await rm(join(folder, name), { force: true }).catch(() => {});
}

/** The page needs no script, and sends no header that says where the browser came from. */
function pageText(url: string): string {
  const target = url.replace(/[&"<>]/g, (char) => `&#${char.charCodeAt(0)};`);
  return `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=${target}">
<title>svc</title>
<p><a href="${target}">Go on to sign in</a></p>
`;
}
