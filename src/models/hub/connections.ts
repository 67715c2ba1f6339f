import type { Dispatcher } from 'undici';
import type { Limits } from '../../limits.ts';
import { pullError } from '../failure.ts';

/**
 * The connections models come over. Silence is the pull machine's to judge, so undici waits as long as it takes. A proxy of the
 * environment is used for addresses elsewhere, and never for this machine.
 */
export async function openConnections(env: NodeJS.ProcessEnv, limits: Limits): Promise<Dispatcher> {
  const { Agent, EnvHttpProxyAgent } = await import('undici');
  const connect = { timeout: limits.provider_connect_ms };
  const options = {
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: limits.provider_header_bytes,
    connect,
  };
  const proxies = {
    httpProxy: env.http_proxy ?? env.HTTP_PROXY ?? '',
    httpsProxy: env.https_proxy ?? env.HTTPS_PROXY ?? '',
  };
  if (proxies.httpProxy === '' && proxies.httpsProxy === '') return new Agent(options);
  const noProxy = [env.no_proxy ?? env.NO_PROXY ?? '', 'localhost', '127.0.0.1', '::1']
    .filter((host) => host !== '')
    .join(',');
  try {
    return new EnvHttpProxyAgent({
      ...options,
      ...proxies,
      noProxy,
      proxyTls: connect,
      requestTls: connect,
    });
  } catch (cause) {
    throw pullError('pull_failed', 'The proxy that the environment names is not an address.', {
      cause,
    });
  }
}
