import { pullError } from '../failure.ts';
import { isAllowed } from './reference.ts';

const DEFAULT_HUB = 'https://huggingface.co';

/** The hub from the environment of the daemon. */
export function hubAddress(env: NodeJS.ProcessEnv): URL {
  const text = env.HF_ENDPOINT?.trim() || DEFAULT_HUB;
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !isAllowed(url) || url.username !== '' || url.search !== '') {
    throw pullError(
      'pull_failed',
      'HF_ENDPOINT in the environment of the daemon is not an https address.',
      { hint: 'Set it to an address such as https://huggingface.co, then run: svc restart' },
    );
  }
  return url;
}

/** The user's token for the hub. No event, log line or message contains it. */
export function hubToken(env: NodeJS.ProcessEnv): string | null {
  const token = env.HF_TOKEN?.trim() ?? '';
  if (token === '') return null;
  if (/^[\x21-\x7e]{1,4096}$/.test(token)) return token;
  throw pullError('pull_refused', 'HF_TOKEN in the environment of the daemon is not a token.');
}

/** Builds a URL on the hub. Each part becomes one segment of the path. */
export function onHub(hub: URL, ...parts: string[]): URL {
  const url = new URL(hub);
  url.pathname = [url.pathname.replace(/\/$/, ''), ...parts.map(encodeURIComponent)].join('/');
  return url;
}
