import type { lookup as systemLookup } from 'node:dns';
import { get as getInClear, type IncomingMessage } from 'node:http';
import { get as getSecurely } from 'node:https';
import { isIP } from 'node:net';
import { anySignal } from '../../async/signals.ts';
import { timeoutSignal } from '../../async/timers.ts';
import { originOf } from '../../config/mcp-file.ts';
import { readBounded } from '../../http-client/bounded-body.ts';
import { isPublic, lookupOf } from '../../http-client/public-address.ts';
import type { Limits } from '../../limits.ts';
import { type BuiltInTool, builtInTool, Refusal, textField } from './tool.ts';

export interface WebOptions {
  hosts: readonly string[];
  version: string;
  limits: Limits;
  /** Default: those of the system, and all public addresses. */
  lookup?: typeof systemLookup;
  isAllowed?: (address: string) => boolean;
}

/**
 * Pages of given hosts, as text.
 *
 * 1. Scheme, host and port must be given, also those of each redirect.
 * 2. A name is resolved once, and the connection goes to that address. A name that changes its
 *    address between a check and the request gains nothing.
 * 3. All addresses of the name must be public: nothing of this machine or of its network is
 *    contacted.
 * 4. A request has no credentials, no cookies, and goes through no proxy.
 */
export function webTools(options: WebOptions): BuiltInTool[] {
  const { lookup, isAllowed = isPublic, version, limits } = options;
  const origins = new Set(options.hosts.map((host) => new URL(originOf(host)).origin));
  const given = [...origins].join(', ');

  const resolve = lookupOf(isAllowed, notPublic, lookup);

  async function follow(url: URL, signal: AbortSignal, left: number): Promise<string> {
    if (!origins.has(url.origin))
      throw new Refusal(`${url.origin} is not allowed. Only these are: ${given}.`);
    if (url.username !== '' || url.password !== '')
      throw new Refusal('An address has no name and no password here.');
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (isIP(host) !== 0 && !isAllowed(host)) throw notPublic(host);
    const answer = await ask(url, signal);
    try {
      const { statusCode = 0, headers } = answer;
      const place = headers.location;
      if (statusCode >= 300 && statusCode < 400 && place !== undefined) {
        if (left === 0 || !URL.canParse(place, url.href))
          throw new Refusal(`${url.href} leads on and on, or to no address.`);
        return await follow(new URL(place, url), signal, left - 1);
      }
      const type = headers['content-type'] ?? 'no content type';
      if (!TEXT.test(type)) throw new Refusal(`${url.href} is not text: it has ${type}.`);
      const body = await readBounded(answer, limits.http_tool_bytes, headers['content-encoding']);
      if (body === null)
        throw new Refusal(
          `${url.href} has more than ${limits.http_tool_bytes} bytes, or is packed in another way.`,
        );
      const text = `HTTP ${statusCode} of ${url.href} (${type})\n\n${body}`;
      if (statusCode >= 400) throw new Refusal(text);
      return text;
    } finally {
      answer.destroy();
    }
  }

  function ask(url: URL, signal: AbortSignal): Promise<IncomingMessage> {
    const get = url.protocol === 'https:' ? getSecurely : getInClear;
    const headers = { accept: ACCEPT, 'accept-encoding': 'gzip', 'user-agent': `svc/${version}` };
    return new Promise((done, reject) => {
      // A new connection: connections of earlier requests are not reused.
      get(url, { agent: false, headers, lookup: resolve, signal }, done).on('error', reject);
    });
  }

  return [
    builtInTool(
      'get',
      'reads',
      `Get a page as text. Only these hosts can be read: ${given}.`,
      { url: textField('The whole address.') },
      async ({ url }, signal) => {
        if (!URL.canParse(url)) throw new Refusal(`${JSON.stringify(url)} is not an address.`);
        const either = anySignal([signal, timeoutSignal(limits.http_tool_ms)]);
        return follow(new URL(url), either, limits.http_tool_redirects).catch((thrown) => {
          signal.throwIfAborted();
          if (thrown instanceof Refusal) throw thrown;
          throw new Refusal(`${url} cannot be read: ${thrown.message}.`, { cause: thrown });
        });
      },
    ),
  ];
}

function notPublic(name: string): Refusal {
  return new Refusal(`${name} leads to an address that is not public. svc does not ask it.`);
}

const ACCEPT = 'text/markdown, text/plain, text/html;q=0.9, application/json;q=0.9, text/*;q=0.5';
const TEXT = /^(text\/|application\/([\w.+-]+\+)?(json|xml|yaml|toml|javascript|x-ndjson)\b)/i;
