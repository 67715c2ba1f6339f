import type { Dispatcher } from 'undici';
import { isLoopback } from '../../config/address.ts';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';

/**
 * The connections to one provider. Its silences are the run machine's to judge, so undici waits for headers and body as long
 * as it takes: a large model may think for minutes before its first byte. A proxy of the environment is used for addresses
 * elsewhere, and never for this machine.
 */
export async function createDispatcher(
  base_url: string,
  env: NodeJS.ProcessEnv,
  limits: Limits,
): Promise<Dispatcher> {
  const { Agent, EnvHttpProxyAgent } = await import('undici');
  const connect = { timeout: limits.provider_connect_ms };
  const options = {
    connections: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: limits.provider_header_bytes,
    connect,
  };
  const proxies = {
    httpProxy: env.http_proxy ?? env.HTTP_PROXY ?? '',
    httpsProxy: env.https_proxy ?? env.HTTPS_PROXY ?? '',
  };
  if (
    (proxies.httpProxy === '' && proxies.httpsProxy === '') ||
    isLoopback(new URL(base_url).hostname)
  )
    return new Agent(options);
  try {
    return new EnvHttpProxyAgent({
      ...options,
      ...proxies,
      noProxy: env.no_proxy ?? env.NO_PROXY ?? '',
      proxyTls: connect,
      requestTls: connect,
    });
  } catch {
    throw new SvcError(
      'provider_unreachable',
      'The proxy that the environment names is not an address.',
      { retryable: false },
    );
  }
}
